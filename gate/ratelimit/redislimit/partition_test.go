//go:build integration

package redislimit

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/ratelimit"
)

// limiterOver is a limiter of one node, as a gateway has it: what its store does
// not decide it grants by itself, one part of n.
func limiterOver(t *testing.T, s *Store, l ratelimit.Limit, n int) *ratelimit.Limiter {
	t.Helper()
	table, err := ratelimit.NewTable(ratelimit.MinKeys)
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := ratelimit.New(time.Now(), ratelimit.Config{
		Stores: map[string]ratelimit.Store{"redis": s},
		Rules: []ratelimit.Rule{{
			Name: "api", NoAggregates: true, Limit: l, Store: "redis", OnFailure: ratelimit.FailLocal, LocalShare: 1 / float64(n),
		}},
	}, table)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// cases/ratelimit.md 22 and 26: three of six nodes cannot reach Redis for a second
// and a half. They grant their part by themselves, so that the bound grows by
// k/N·(C + r·P) and no more, and everybody shares again afterwards.
func TestCase_RateLimit_26_22_PartitionOfThreeNodes(t *testing.T) {
	const nodes, cut, callers = 6, 3, 4
	const rate, burst = 600, 600
	o := where(t, "COMPORTA_TEST_REDIS_URL")
	between := newProxy(t, o.Addrs[0])
	limit := perSecond(rate, burst)
	common := Config{Prefix: prefix(), Nodes: nodes}
	stores := make([]*Store, nodes)
	limiters := make([]*ratelimit.Limiter, nodes)
	for i := range stores {
		c := common
		c.Redis = o
		if i < cut { // these give up soon; the others must not, however busy the machine is
			c.Redis, c.Timeout = redis.UniversalOptions{Addrs: []string{between.Addr().String()}}, 100*time.Millisecond
		}
		stores[i] = open(t, c)
		limiters[i] = limiterOver(t, stores[i], limit, nodes)
	}
	until(t, "all nodes know each other", func() bool {
		for _, s := range stores {
			if s.nodes.Load() < nodes {
				return false
			}
		}
		return true
	})
	available := func() bool {
		for _, s := range stores[:cut] {
			if s.health.lost.Load() || s.health.silent.Load() {
				return false
			}
		}
		return true
	}

	var admitted atomic.Int64
	var stop atomic.Bool
	var all sync.WaitGroup
	began := time.Now()
	for _, l := range limiters {
		for range callers {
			all.Go(func() {
				r := &comporta.Request{Method: "GET", Path: "/", Client: comporta.Client{Key: 7, Class: comporta.ClassVerified}}
				var v ratelimit.Verdict
				for !stop.Load() {
					if l.TakeAt(context.Background(), time.Now(), r, &v) {
						admitted.Add(1)
					} else {
						runtime.Gosched()
					}
				}
			})
		}
	}
	wait := func(d time.Duration) { <-time.After(d) }
	wait(time.Second)
	between.cut.Store(true)
	parted := time.Now()
	wait(1500 * time.Millisecond)
	if available() {
		t.Error("the nodes that are cut off do not notice")
	}
	between.cut.Store(false)
	until(t, "all nodes are together again", available)
	p := time.Since(parted)
	wait(time.Second)
	stop.Store(true)
	all.Wait()
	w := time.Since(began)

	m := meterOf(t, limit)
	share := float64(cut) / nodes
	most := burst + rate*w.Seconds() + stores[0].fleet().bound(m) + share*(burst+rate*p.Seconds())
	t.Logf("%d admitted in %.2f s, %.2f s of which were parted; the bound is %.0f", admitted.Load(), w.Seconds(), p.Seconds(), most)
	if n := float64(admitted.Load()); n > most || n < 0.8*rate*w.Seconds() {
		t.Errorf("%.0f admitted, the bound is %.0f", n, most)
	}
	for i, s := range stores[cut:] {
		if st := s.StatsAt(time.Now()); st.Errors+st.Late+st.Refused > 0 {
			t.Errorf("node %d was not cut off and failed: %+v", cut+i, st)
		}
	}
}
