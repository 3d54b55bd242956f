package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/comporta/comporta/bench/internal/measure"
	"github.com/comporta/comporta/gate/ratelimit"
	"github.com/comporta/comporta/gate/ratelimit/redislimit"
)

const (
	hotKeys  = 100
	hotRate  = 10_000 // a second and key, and the burst
	coldRate = 100
)

// shared is one limiter in Redis under many callers.
type shared struct {
	what    string
	callers int
	names   []string
	at      atomic.Uint64 // where the next caller begins
	times   []spread      // one a caller
	denied  atomic.Int64
	take    func(key string) (bool, error)
}

// run makes n calls, the callers side by side.
func (s *shared) run(n int) error {
	var wg sync.WaitGroup
	errs := make([]error, s.callers)
	for c := range s.callers {
		mine := n / s.callers
		if c < n%s.callers {
			mine++
		}
		wg.Go(func() { errs[c] = s.call(c, mine) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *shared) call(caller, n int) error {
	w := newWalk(len(s.names))
	w.at = int(s.at.Add(7919) % uint64(len(s.names)))
	denied := 0
	for range n {
		start := time.Now()
		ok, err := s.take(s.names[w.next()])
		s.times[caller].add(time.Since(start))
		if err != nil {
			return err
		}
		if !ok {
			denied++
		}
	}
	s.denied.Add(int64(denied))
	return nil
}

// p99 is the time that one call in a hundred exceeds.
func (s *shared) p99() time.Duration {
	var all spread
	for i := range s.times {
		all.join(&s.times[i])
	}
	return all.quantile(0.99)
}

// rivalry is ours against each rival, on the same keys and one server.
type rivalry struct {
	ours, theirs []*shared // in pairs
	store        *redislimit.Store
	clients      []*redis.Client
}

func redisPairs(ctx context.Context, addr string, callers int, label string, names []string, perSecond int) (*rivalry, error) {
	r := &rivalry{}
	take, err := r.ourStore(ctx, addr, label, perSecond)
	if err != nil {
		return nil, err
	}
	for _, rival := range []struct {
		what string
		make func(*redis.Client, string, int) (func(string) (bool, error), error)
	}{
		{"redis_rate v10.0.1", redisRate},
		{"throttled v2.15.0, go-redis store", throttledShared},
		{"ulule/limiter v3.11.2, Redis store", ululeShared},
	} {
		client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: callers})
		r.clients = append(r.clients, client)
		theirs, err := rival.make(client, label, perSecond)
		if err != nil {
			r.close()
			return nil, fmt.Errorf("%s: %w", rival.what, err)
		}
		for _, s := range []*shared{{what: "redislimit", take: take}, {what: rival.what, take: theirs}} {
			s.callers, s.names, s.times = callers, names, make([]spread, callers)
			if err := s.run(4 * callers); err != nil { // connections are made, scripts are known
				r.close()
				return nil, fmt.Errorf("%s: %w", s.what, err)
			}
			clear(s.times)
			if s.what == rival.what {
				r.theirs = append(r.theirs, s)
			} else {
				r.ours = append(r.ours, s)
			}
		}
	}
	return r, nil
}

func (r *rivalry) pairs() []measure.Pair {
	var pairs []measure.Pair
	for i := range r.ours {
		o, t := r.ours[i], r.theirs[i]
		pairs = append(pairs, measure.Pair{
			What: t.what, Ours: &measure.Subject{Name: o.what, Run: o.run}, Theirs: &measure.Subject{Name: t.what, Run: t.run},
		})
	}
	return pairs
}

func (r *rivalry) close() {
	if r.store != nil {
		_ = r.store.Close(context.Background()) // what it holds ends with the server
	}
	for _, c := range r.clients {
		_ = c.Close()
	}
}

// ourStore has its defaults but for the budget: who gave up after 20 ms would
// look fast where the machine is slow. It remembers as many keys as the gateway
// does by default.
func (r *rivalry) ourStore(ctx context.Context, addr, label string, perSecond int) (func(string) (bool, error), error) {
	where, err := redislimit.ParseURL("redis://" + addr)
	if err != nil {
		return nil, err
	}
	r.store, err = redislimit.New(ctx, redislimit.Config{Redis: where, Prefix: label, Timeout: 5 * time.Second, Keys: 1 << 18})
	if err != nil {
		return nil, err
	}
	policy, err := ratelimit.NewPolicy(ratelimit.Policy{Name: label, Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: int64(perSecond), Per: time.Second}}})
	if err == nil {
		err = r.store.Prepare(time.Now(), policy)
	}
	if err != nil {
		return nil, err
	}
	type call struct {
		debits  []ratelimit.Debit
		results []ratelimit.Result
		key     []byte
	}
	calls := sync.Pool{New: func() any {
		return &call{debits: []ratelimit.Debit{{Policy: policy, Cost: 1, Believed: true}}, results: make([]ratelimit.Result, 1)}
	}}
	return func(key string) (bool, error) {
		c := calls.Get().(*call) //nolint:errcheck,forcetypeassert // the pool holds nothing else
		defer calls.Put(c)
		c.key = append(c.key[:0], key...)
		c.debits[0].Key = c.key
		return r.store.Take(ctx, time.Now(), c.debits, c.results)
	}, nil
}

func redisRate(client *redis.Client, label string, perSecond int) (func(string) (bool, error), error) {
	l, limit := redis_rate.NewLimiter(client), redis_rate.PerSecond(perSecond)
	return func(key string) (bool, error) {
		res, err := l.Allow(context.Background(), label+key, limit)
		return err == nil && res.Allowed > 0, err
	}, nil
}

func throttledShared(client *redis.Client, label string, perSecond int) (func(string) (bool, error), error) {
	s, err := throttledredis.NewCtx(client, "throttled:"+label)
	if err != nil {
		return nil, err
	}
	take, err := throttledOver(s, perSecond)
	return allowed(take), err
}

func ululeShared(client *redis.Client, label string, perSecond int) (func(string) (bool, error), error) {
	s, err := ululeredis.NewStore(client)
	if err != nil {
		return nil, err
	}
	take := ululeOver(s, int64(perSecond))
	return allowed(func(key string) error { return take(label + key) }), nil
}

// allowed tells a denial from a failure.
func allowed(take limiterOf) func(string) (bool, error) {
	return func(key string) (bool, error) {
		err := take(key)
		if err == errDenied { //nolint:errorlint // it is never wrapped
			return false, nil
		}
		return err == nil, err
	}
}
