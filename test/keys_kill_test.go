//go:build integration

package test

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// kills is how often the gateway is killed; COMPORTA_TEST_KILLS asks for more. Where
// the store dies with the gateway it is killed more often.
func kills(engine string) int {
	n, err := strconv.Atoi(os.Getenv("COMPORTA_TEST_KILLS"))
	if err != nil || n <= 0 {
		n = 100
	}
	if engine != sqlite {
		n /= 4
	}
	return n
}

// verdicts counts how operations ended for their callers.
type verdicts struct {
	done, replayed, unknown, other atomic.Int64
}

// pursue repeats an operation until its fate is told. Whatever is no answer is
// repeated: that is what clients do when a gateway dies.
func (v *verdicts) pursue(ctx context.Context, t *testing.T, l *ledger, url func() string, key string) {
	for ctx.Err() == nil {
		s := post(ctx, url()+"/orders", "a", key, "apple")
		switch {
		case s.err != nil, s.status == http.StatusServiceUnavailable, s.code == "idempotency_in_progress", s.status == http.StatusBadGateway:
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		case s.status == http.StatusCreated:
			if l.of(key) != 1 || s.body != key+", time 1, for a: apple" {
				t.Errorf("%s: told that it is done, carried out %d times: %+v", key, l.of(key), s)
			}
			v.done.Add(1)
			if s.replayed {
				v.replayed.Add(1)
			}
		case s.code == "idempotency_outcome_unknown":
			v.unknown.Add(1)
		default:
			v.other.Add(1)
			t.Errorf("%s: %+v", key, s)
		}
		return
	}
}

// The gateway is killed at random moments, again and again, under load. No key is
// carried out twice, nobody hears success for what was not done, and what nobody
// knows is said to be unknown.
func TestCase_Events_B11_KilledAtRandomMoments(t *testing.T) {
	for _, engine := range engines { // one after the other: a port that one gateway has left is soon another's
		t.Run(engine, func(t *testing.T) { killedAtRandomMoments(t, placeOn(t, engine)) })
	}
}

func killedAtRandomMoments(t *testing.T, p place) {
	t.Helper()
	l := newLedger(t, func(string, *http.Request) { <-time.After(time.Duration(mathrand.IntN(15)) * time.Millisecond) },
		func(string, *http.Request) { <-time.After(time.Duration(mathrand.IntN(15)) * time.Millisecond) })
	own := rand.Text()
	begin := func() *gateway { return keyed(t, p, l.url, ", lease: 1s") }
	var url atomic.Pointer[string]
	g := begin()
	url.Store(&g.url)

	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	var v verdicts
	var next, stop atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for stop.Load() == 0 {
				v.pursue(ctx, t, l, func() string { return *url.Load() }, fmt.Sprint(own, "-", next.Add(1)))
			}
		})
	}
	n := kills(p.engine)
	for range n {
		pause(t, time.Duration(mathrand.IntN(200))*time.Millisecond)
		url.Store(new(string)) // else those who come later may find another's port
		g.kill()
		g = begin()
		url.Store(&g.url)
	}
	stop.Store(1)
	all.Wait()
	if ctx.Err() != nil {
		t.Fatal("the time was over before all operations had their fate")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, times := range l.times {
		if times > 1 {
			t.Errorf("%s was carried out %d times", key, times)
		}
	}
	if v.unknown.Load() == 0 || v.done.Load() == 0 {
		t.Errorf("%d done, %d unknown: the kills hit nothing", v.done.Load(), v.unknown.Load())
	}
	t.Logf("%d kills: %d keys, %d done (%d told by a replay), %d unknown, %d executions",
		n, next.Load(), v.done.Load(), v.replayed.Load(), v.unknown.Load(), l.total.Load())
}

// Without keys the same kills carry out some operations twice: else the test above
// would be blind.
func TestCase_Events_B11_KillsWithoutKeysAreSeen(t *testing.T) {
	l := newLedger(t, nil, func(string, *http.Request) { <-time.After(5 * time.Millisecond) })
	config := filepath.Join(t.TempDir(), "comporta.yaml")
	write(t, config, "admission: {capacity: 500}\naccess_log: {format: off}\n")
	begin := func() *gateway { return serve(t, "-config", config, "-upstream", l.url) }
	var url atomic.Pointer[string]
	g := begin()
	url.Store(&g.url)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var next, stop atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for stop.Load() == 0 {
				key := fmt.Sprint("k", next.Add(1))
				for s := (said{}); s.status != http.StatusCreated && ctx.Err() == nil; {
					s = post(ctx, *url.Load()+"/orders", "a", key, "apple")
				}
			}
		})
	}
	twice := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, times := range l.times {
			if times > 1 {
				return true
			}
		}
		return false
	}
	for i := 0; i < 50 && !twice(); i++ {
		pause(t, time.Duration(mathrand.IntN(100))*time.Millisecond)
		g.kill()
		g = begin()
		url.Store(&g.url)
	}
	stop.Store(1)
	all.Wait()
	if !twice() {
		t.Error("nothing was carried out twice")
	}
}
