package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/comporta/comporta/bench/internal/measure"
	"github.com/comporta/comporta/gate/ratelimit"
)

// Every limiter here has one limit for all keys, so high that nobody is denied: a
// denial is other work. Those that have no keys of their own stand in a map under
// a lock, as their users write it.

// localRate is units a second, and the burst.
const localRate = 1_000_000

var errDenied = errors.New("a call was denied that should have been allowed")

// namesOf makes n keys, as a gateway would have them.
func namesOf(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("client-%016x", uint64(i+1)*0x9e3779b97f4a7c15)
	}
	return names
}

// walk goes through n keys in no order that a cache could guess. It visits all of
// them: the step is a prime that is no divisor of n.
type walk struct{ at, step, n int }

func newWalk(n int) walk {
	step := 15_485_863
	if n%step == 0 {
		step = 15_485_867
	}
	return walk{step: step % n, n: n}
}

func (w *walk) next() int {
	w.at += w.step
	if w.at >= w.n {
		w.at -= w.n
	}
	return w.at
}

// limiterOf is one call of a limiter in this process.
type limiterOf func(key string) error

// locals are the limiters in the order of the table; the first is ours.
var locals = []struct {
	target, what string
	make         func(keys int) (limiterOf, error)
}{
	{"", "gate/ratelimit", ours},
	{"local_vs_xtime", "x/time v0.16.0, rate.Limiter in a map", xtime},
	{"local_vs_golimiter", "go-limiter v0.7.1, memory store", goLimiter},
	{"local_vs_throttled", "throttled v2.15.0, memory store", throttledLocal},
	{"local_vs_ulule", "ulule/limiter v3.11.2, memory store", ululeLocal},
	{"local_vs_failsafe", "failsafe-go v0.9.8, bursty limiter in a map", failsafe},
}

func ours(keys int) (limiterOf, error) {
	b, err := ratelimit.NewBucket(ratelimit.BucketConfig{
		Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: localRate, Per: time.Second}}, Keys: keys,
	})
	if err != nil {
		return nil, err
	}
	return func(key string) error {
		r, err := b.Take(key, 1)
		if err == nil && !r.Allowed {
			err = errDenied
		}
		return err
	}, nil
}

// inMap keeps one limiter a key under a lock.
func inMap[T any](keys int, fresh func() T, allow func(T) bool) limiterOf {
	var mu sync.Mutex
	known := make(map[string]T, keys)
	return func(key string) error {
		mu.Lock()
		l, ok := known[key]
		if !ok {
			l = fresh()
			known[key] = l
		}
		mu.Unlock()
		if !allow(l) {
			return errDenied
		}
		return nil
	}
}

func xtime(keys int) (limiterOf, error) {
	return inMap(keys, func() *rate.Limiter { return rate.NewLimiter(localRate, localRate) }, (*rate.Limiter).Allow), nil
}

func failsafe(keys int) (limiterOf, error) {
	return inMap(keys, func() ratelimiter.RateLimiter[any] { return ratelimiter.NewBursty[any](localRate, time.Second) },
		func(l ratelimiter.RateLimiter[any]) bool { return l.TryAcquirePermit() }), nil
}

func goLimiter(keys int) (limiterOf, error) {
	s, err := memorystore.New(&memorystore.Config{Tokens: localRate, Interval: time.Second, InitialAlloc: keys})
	if err != nil {
		return nil, err
	}
	return func(key string) error { return goLimiterTake(s, key) }, nil
}

func goLimiterTake(s limiter.Store, key string) error {
	_, _, _, ok, err := s.Take(context.Background(), key) //nolint:dogsled // what else it tells is not asked for
	if err == nil && !ok {
		err = errDenied
	}
	return err
}

func throttledLocal(int) (limiterOf, error) {
	s, err := memstore.NewCtx(0) // 0 is a map without a bound
	if err != nil {
		return nil, err
	}
	return throttledOver(s, localRate)
}

func throttledOver(s throttled.GCRAStoreCtx, perSecond int) (limiterOf, error) {
	l, err := throttled.NewGCRARateLimiterCtx(s, throttled.RateQuota{MaxRate: throttled.PerSec(perSecond), MaxBurst: perSecond - 1})
	if err != nil {
		return nil, err
	}
	return func(key string) error {
		denied, _, err := l.RateLimitCtx(context.Background(), key, 1)
		if err == nil && denied {
			err = errDenied
		}
		return err
	}, nil
}

func ululeLocal(int) (limiterOf, error) { return ululeOver(ululememory.NewStore(), localRate), nil }

func ululeOver(s ulule.Store, perSecond int64) limiterOf {
	l := ulule.New(s, ulule.Rate{Period: time.Second, Limit: perSecond})
	return func(key string) error {
		c, err := l.Get(context.Background(), key)
		if err == nil && c.Reached {
			err = errDenied
		}
		return err
	}
}

// localPairs holds ours against each rival. All keys are known before anything is
// measured.
func localPairs(names []string) ([]measure.Pair, error) {
	subjects := make([]*measure.Subject, len(locals))
	var take limiterOf
	for i, l := range locals {
		made, err := l.make(len(names))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.what, err)
		}
		if i == 0 {
			take = made
		}
		subjects[i] = subjectOf(l.what, names, made)
		if err := fill(names, made); err != nil {
			return nil, fmt.Errorf("%s: %w", l.what, err)
		}
	}
	var pairs []measure.Pair
	for i, l := range locals[1:] {
		pairs = append(pairs, measure.Pair{
			Target: l.target, What: l.what, Ours: subjectOf(locals[0].what, names, take), Theirs: subjects[i+1],
		})
	}
	return pairs, nil
}

func fill(names []string, take limiterOf) error {
	for _, name := range names {
		if err := take(name); err != nil {
			return err
		}
	}
	return nil
}

func subjectOf(what string, names []string, take limiterOf) *measure.Subject {
	w := newWalk(len(names))
	return &measure.Subject{Name: what, Run: func(n int) error {
		for range n {
			if err := take(names[w.next()]); err != nil {
				return err
			}
		}
		return nil
	}}
}

// bytesOf is what each limiter holds for a key, the key itself apart: every
// caller has that anyway, and a map keeps what it is given.
func bytesOf(names []string) ([]float64, error) {
	bytes := make([]float64, len(locals))
	for i, l := range locals {
		before := liveHeap()
		take, err := l.make(len(names))
		if err == nil {
			err = fill(names, take)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.what, err)
		}
		bytes[i] = float64(liveHeap()-before) / float64(len(names))
		runtime.KeepAlive(take)
	}
	runtime.KeepAlive(names)
	return bytes, nil
}

// liveHeap is what is reachable, in bytes.
func liveHeap() int {
	runtime.GC() //nolint:revive // what is reachable is known only after it
	runtime.GC() //nolint:revive // pools let go of what they hold in two steps
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}
