package redislimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/comporta/comporta/gate/ratelimit"
)

// node is a store with one policy and what a test says to it.
type node struct {
	*Store
	tb     testing.TB
	policy *ratelimit.Policy
	clock  *clock
}

func newNode(tb testing.TB, v *server, c *clock, config Config, p ratelimit.Policy) *node {
	tb.Helper()
	orDefault(&p.Name, "p")
	made, err := ratelimit.NewPolicy(p)
	if err != nil {
		tb.Fatal(err)
	}
	n := &node{Store: fake(tb, v, config), tb: tb, policy: made, clock: c}
	if err := n.Prepare(c.Now(), made); err != nil {
		tb.Fatal(err)
	}
	return n
}

func (n *node) tryTake(key string, cost int64, believed bool) (bool, ratelimit.Result, error) {
	debits, results := [1]ratelimit.Debit{{Policy: n.policy, Key: []byte(key), Cost: cost, Believed: believed}}, [1]ratelimit.Result{}
	ok, err := n.Take(context.Background(), n.clock.Now(), debits[:], results[:])
	return ok, results[0], err
}

func (n *node) take(key string, cost int64) bool {
	n.tb.Helper()
	ok, _, err := n.tryTake(key, cost, true)
	if err != nil {
		n.tb.Fatal(err)
	}
	return ok
}

// sweep does what the housekeeper does, and waits for it.
func (n *node) sweep() {
	n.sweepAt(n.clock.Now().UnixMicro(), reportsPerSweep)
	n.settled()
}

func TestHotKeysLeaseAndReturn(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	n := newNode(t, v, c, Config{Nodes: 2}, ratelimit.Policy{Limit: per(1000, time.Second, 1000)})
	for range 600 {
		if !n.take("k", 1) {
			t.Fatal("denied below the burst")
		}
	}
	n.settled()
	st := n.StatsAt(c.Now())
	if st.Leases < 300 || st.Trips > 20 {
		t.Errorf("600 decisions on a hot key: %d from leases, %d trips", st.Leases, st.Trips)
	}
	spent := 600 + int64(st.LeasedUnits-st.Leases) // what is held is spent as far as Redis knows
	if left := v.left(); left != 1000-spent {
		t.Errorf("Redis counts %d left, want %d", left, 1000-spent)
	}
	c.Advance(1001 * time.Millisecond)
	n.sweep()
	if got := n.StatsAt(c.Now()); got.ReturnedUnits != st.LeasedUnits-st.Leases || got.ReturnedUnits == 0 {
		t.Errorf("%d units returned of %d", got.ReturnedUnits, st.LeasedUnits-st.Leases)
	}
}

// left is the units in the only bucket.
func (v *server) left() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, h := range v.keys {
		return 1000 - (h.full-v.clock().UnixMicro()*h.scale+h.interval-1)/h.interval
	}
	return 1000
}

func TestCloseReturnsLeases(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	n := newNode(t, v, c, Config{Nodes: 2}, ratelimit.Policy{Limit: per(1000, time.Second, 1000)})
	for range 400 {
		n.take("k", 1)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := v.left(); left != 600 {
		t.Errorf("%d left after 400 of 1000", left)
	}
	if _, _, err := n.tryTake("fresh", 900, true); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a closed store says %v", err)
	}
}

// Keys that come once are granted here; Redis hears of them within a period.
func TestColdKeysAreReported(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	n := newNode(t, v, c, Config{}, ratelimit.Policy{Limit: per(10, time.Minute, 10)})
	for i := range 50 {
		n.take(fmt.Sprint("k", i), 1)
	}
	if v.calls != 0 {
		t.Errorf("Redis was asked %d times", v.calls)
	}
	c.Advance(time.Second)
	n.sweep()
	if len(v.keys) != 50 || n.StatsAt(c.Now()).ReportedUnits != 50 {
		t.Errorf("Redis knows %d keys of 50", len(v.keys))
	}
	other := newNode(t, v, c, Config{}, ratelimit.Policy{Limit: per(10, time.Minute, 10)})
	if ok, r, err := other.tryTake("k7", 10, true); ok || err != nil || r.Remaining != 9 {
		t.Errorf("another node: %v, %+v, %v", ok, r, err)
	}
}

// cases/ratelimit.md 30: invented keys, each used once by somebody who is not
// believed: memory stays, and Redis hears of the first few at most. Keys that are
// denied stay denied.
func TestCase_RateLimit_30_FloodOfInventedKeys(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	n := newNode(t, v, c, Config{}, ratelimit.Policy{Limit: per(5, time.Minute, 5)})
	for range 6 {
		n.take("denied", 1)
	}
	n.take("real", 3)
	var before, after runtime.MemStats
	collect(&before)
	const flood = 200_000
	for i := range flood {
		if _, _, err := n.tryTake(fmt.Sprint("invented", i), 1, false); err != nil {
			t.Fatal(err)
		}
		if i%(flood/100) == 0 {
			c.Advance(10 * time.Millisecond)
			n.sweep()
			if n.take("denied", 1) {
				t.Fatalf("after %d invented keys the denied one is let in", i)
			}
		}
	}
	n.settled()
	collect(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
	if len(v.keys) > 2*maxStrangers {
		t.Errorf("Redis holds %d keys", len(v.keys))
	}
	if ok, r, err := n.tryTake("real", 0, true); !ok || err != nil || r.Remaining != 2 {
		t.Errorf("the real key: %v, %+v, %v", ok, r, err)
	}
	if n.StatsAt(c.Now()).ForgottenUnits == 0 {
		t.Error("evictions are not counted")
	}
}

// collect reads how much memory is in use.
func collect(m *runtime.MemStats) {
	runtime.GC() //nolint:revive // what is garbage does not count
	runtime.ReadMemStats(m)
}

// cases/ratelimit.md 26 in virtual time: nodes, callers and moments in no order, but
// in the same one each time. The bound holds from the first instant on, whoever asks.
func TestCase_RateLimit_26_BoundHoldsForAnySchedule(t *testing.T) {
	for run := range 20 {
		r := rand.New(rand.NewPCG(uint64(run), 26))
		c := newClock()
		v := newServer(c.Now)
		limit := per(1+r.Int64N(2000), time.Second, 1+r.Int64N(2000))
		count := 1 + r.IntN(8)
		nodes := make([]*node, count)
		for i := range nodes {
			nodes[i] = newNode(t, v, c, Config{Nodes: count}, ratelimit.Policy{Limit: limit})
		}
		began, admitted := c.Now(), int64(0)
		var past []sample
		for c.Now().Sub(began) < 3*time.Second {
			n := nodes[r.IntN(count)]
			for range r.IntN(200) {
				cost := 1 + r.Int64N(min(limit.Burst, 3))
				if ok, _, err := n.tryTake("k", cost, r.IntN(2) == 0); err != nil {
					t.Fatal(err)
				} else if ok {
					admitted += cost
				}
			}
			if r.IntN(10) == 0 {
				n.sweep()
			}
			c.Advance(time.Duration(r.IntN(20_000)) * time.Microsecond)
			w := c.Now().Sub(began)
			if most := bound(nodes[0].Store, nodes[0].policy, w); admitted > most {
				t.Fatalf("run %d, %v on %d nodes: %d admitted in %v, the bound is %d", run, limit, count, admitted, w, most)
			}
			past = append(past, sample{w, admitted})
		}
		checkWindows(t, nodes[0], past)
		if least := min(limit.Burst, 3*limit.Rate.Count) / 2; admitted < least {
			t.Errorf("run %d, %v on %d nodes: %d admitted", run, limit, count, admitted)
		}
	}
}

// sample is what was admitted up to an instant.
type sample struct {
	at       time.Duration
	admitted int64
}

// checkWindows holds every window against the bound. One that begins amid traffic
// may see its last term twice: what was held when it began, and what Redis has
// not heard of when it ends.
func checkWindows(t *testing.T, n *node, past []sample) {
	t.Helper()
	m := n.meters.Load().byPolicy[n.policy]
	extra := int64(n.fleet().bound(m))
	for i, from := range past {
		for _, to := range past[i+1:] {
			if got, most := to.admitted-from.admitted, bound(n.Store, n.policy, to.at-from.at)+extra; got > most {
				t.Fatalf("%v: %d admitted between %v and %v, the bound is %d", n.policy.Limit, got, from.at, to.at, most)
			}
		}
	}
}

// bound is C + r·W + min(N·L, r·T).
func bound(s *Store, p *ratelimit.Policy, w time.Duration) int64 {
	m := s.meters.Load().byPolicy[p]
	return m.burst + int64(m.rate*float64(w.Microseconds())+s.fleet().bound(m)) + 1
}

// With one node nothing is approximate: it admits what a bucket admits.
func TestOneNodeIsExact(t *testing.T) {
	for run := range 100 {
		r := rand.New(rand.NewPCG(uint64(run), 1))
		c := newClock()
		v := newServer(c.Now)
		burst := 1 + r.Int64N(50)
		n := newNode(t, v, c, Config{}, ratelimit.Policy{Limit: per(burst, 24*time.Hour, burst)})
		admitted := int64(0)
		for range 200 {
			cost := 1 + r.Int64N(min(burst, 4))
			if n.take("k", cost) {
				admitted += cost
			}
		}
		for n.take("k", 1) {
			admitted++
		}
		if admitted != burst {
			t.Errorf("%d admitted of %d", admitted, burst)
		}
	}
}

// cases/ratelimit.md 13 and 14: 150 a minute offered of 100 a minute. Denials cost
// nothing, so that each minute has its hundred.
func TestCase_RateLimit_14_SustainedOverRate(t *testing.T) {
	c := newClock()
	n := newNode(t, newServer(c.Now), c, Config{}, ratelimit.Policy{Limit: per(100, time.Minute, 100)})
	for minute := range 5 {
		admitted := 0
		for range 150 {
			c.Advance(400 * time.Millisecond)
			if n.take("k", 1) {
				admitted++
			}
			n.sweep()
		}
		if minute > 1 && (admitted < 99 || admitted > 101) || admitted < 100 { // the burst lasts for two minutes
			t.Errorf("minute %d: %d admitted", minute, admitted)
		}
	}
}

func TestPenaltyKeepsOut(t *testing.T) {
	c := newClock()
	n := newNode(t, newServer(c.Now), c, Config{}, ratelimit.Policy{Limit: per(10, time.Second, 10), Penalty: true})
	admitted := 0
	for range 2000 {
		c.Advance(10 * time.Millisecond)
		if n.take("k", 1) {
			admitted++
		}
		n.sweep()
	}
	if admitted > 20 {
		t.Errorf("%d admitted of who never pauses", admitted)
	}
	c.Advance(3 * time.Second)
	if !n.take("k", 5) {
		t.Error("who paused is still out")
	}
}

// A rule that denies in another slot: what the first slot granted comes back.
func TestSlotsGiveBack(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	s := fakeLanes(t, v, Config{}, clusterLanes)
	a, err1 := ratelimit.NewPolicy(ratelimit.Policy{Name: "a", Limit: per(100, 24*time.Hour, 100)})
	b, err2 := ratelimit.NewPolicy(ratelimit.Policy{Name: "b", Limit: per(100, 24*time.Hour, 100)})
	if err := errors.Join(err1, err2, s.Prepare(c.Now(), a, b)); err != nil {
		t.Fatal(err)
	}
	take := func(p *ratelimit.Policy, key string, n int64) ratelimit.Debit {
		return ratelimit.Debit{Policy: p, Key: []byte(key), Cost: n, Believed: true}
	}
	results := make([]ratelimit.Result, 2)
	for i := range 20 {
		key := fmt.Sprint("k", i)
		one := []ratelimit.Debit{take(b, key, 80)}
		if ok, err := s.Take(t.Context(), c.Now(), one, results); !ok || err != nil {
			t.Fatal(ok, err)
		}
		s.forget() // so that b's bucket is asked about and not known to be empty
		if ok, err := s.Take(t.Context(), c.Now(), []ratelimit.Debit{take(a, key, 60), take(b, key, 60)}, results); ok || err != nil {
			t.Fatal(ok, err)
		}
		s.settled()
		if _, err := s.Take(t.Context(), c.Now(), []ratelimit.Debit{take(a, key, 0)}, results); err != nil || results[0].Remaining != 100 {
			t.Fatalf("%s: a has %d left of 100, %v", key, results[0].Remaining, err)
		}
	}
}

func (s *Store) forget() {
	s.settled()
	for i := range s.memory.shards {
		sh := &s.memory.shards[i]
		sh.mu.Lock()
		clear(sh.names)
		clear(sh.entries)
		sh.due = sh.due[:0]
		sh.mu.Unlock()
	}
}

// Many goroutines, keys and evictions at once: nothing is granted twice, no
// entry stays pinned.
func TestConcurrentTakesSettle(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	n := newNode(t, v, c, Config{}, ratelimit.Policy{Limit: per(50, 24*time.Hour, 50)})
	var admitted [40]atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 2000 {
				k := r.IntN(len(admitted))
				if ok, _, err := n.tryTake(fmt.Sprint("k", k), 1, true); err != nil {
					t.Error(err)
				} else if ok {
					admitted[k].Add(1)
				}
				if r.IntN(100) == 0 {
					n.sweepAt(c.Now().UnixMicro(), reportsPerSweep)
				}
			}
		})
	}
	wg.Wait()
	n.settled()
	for k := range admitted {
		if got := admitted[k].Load(); got != 50 {
			t.Errorf("key %d: %d admitted of 50", k, got)
		}
	}
	if p := n.pinned(); p != 0 {
		t.Errorf("%d questions are open", p)
	}
}

func TestTakeAllocatesNothing(t *testing.T) {
	c := newClock()
	n := newNode(t, newServer(c.Now), c, Config{}, ratelimit.Policy{Limit: per(1_000_000, time.Second, 10_000_000)})
	for range 5000 {
		n.take("hot", 1)
	}
	debits, results := []ratelimit.Debit{{Policy: n.policy, Key: []byte("hot"), Cost: 1}}, make([]ratelimit.Result, 1)
	now := c.Now()
	free := func(what string, want bool, before func()) {
		t.Helper()
		allocs := testing.AllocsPerRun(200, func() {
			before()
			if ok, err := n.Take(context.Background(), now, debits, results); ok != want || err != nil {
				t.Fatal(ok, err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", what, allocs)
		}
	}
	free("a unit of a lease", true, func() {})
	for n.take("empty", 9_000_000) {
	}
	debits[0].Key, debits[0].Cost = []byte("empty"), 9_000_000
	free("a denial from memory", false, func() {})
	i, key := 0, make([]byte, 8)
	debits[0].Key, debits[0].Cost = key, 1
	free("a cold key", true, func() {
		i++
		key[0], key[1] = byte(i), byte(i>>8)
	})
}
