//go:build integration

package redislimit

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta/gate/ratelimit"
)

// crowd is callers that ask as fast as they can.
type crowd struct {
	stores   []*Store
	policy   *ratelimit.Policy
	callers  int // of each store
	admitted []atomic.Int64
	failed   atomic.Int64
	slowest  atomic.Int64 // nanoseconds
}

func newCrowd(tb testing.TB, stores []*Store, l ratelimit.Limit, callers int) *crowd {
	tb.Helper()
	return &crowd{
		stores: stores, callers: callers, admitted: make([]atomic.Int64, len(stores)),
		policy: policyOf(tb, stores, ratelimit.Policy{Name: "api", Limit: l}),
	}
}

// run asks for d and returns what was admitted and how long it took.
func (c *crowd) run(d time.Duration, key string) (admitted int64, took time.Duration) {
	began := time.Now()
	var wg sync.WaitGroup
	for i, s := range c.stores {
		for range c.callers {
			wg.Go(func() {
				for time.Since(began) < d {
					from := time.Now()
					ok, _, err := s.take(c.policy, key, 1)
					if err != nil {
						c.failed.Add(1)
					}
					if spent := int64(time.Since(from)); spent > c.slowest.Load() {
						c.slowest.Store(spent)
					}
					if ok {
						c.admitted[i].Add(1)
					} else {
						runtime.Gosched()
					}
				}
			})
		}
	}
	wg.Wait()
	for i := range c.admitted {
		admitted += c.admitted[i].Swap(0)
	}
	return admitted, time.Since(began)
}

func fleetOf(tb testing.TB, n int, c Config) []*Store {
	tb.Helper()
	orDefault(&c.Prefix, prefix())
	c.Nodes = n
	stores := make([]*Store, n)
	for i := range stores {
		stores[i] = open(tb, c)
	}
	until(tb, "all nodes know each other", func() bool {
		for _, s := range stores {
			if s.nodes.Load() < int64(n) {
				return false
			}
		}
		return true
	})
	return stores
}

// cases/ratelimit.md 26: six nodes with connections of their own, one key, 48
// callers flat out. The bound holds in every run.
func TestCase_RateLimit_26_AccuracyOfSixNodes(t *testing.T) {
	o := where(t, "COMPORTA_TEST_REDIS_URL")
	c := newCrowd(t, fleetOf(t, 6, Config{Redis: o}), perSecond(1000, 1000), 8)
	for i := range envInt("COMPORTA_TEST_RUNS", 10) {
		admitted, took := c.run(time.Second, fmt.Sprint("run", i))
		limit := c.policy.Units() + int64(1000*took.Seconds())
		most := bound(c.stores[0], c.policy, took)
		t.Logf("run %d: %d admitted in %v; limit %d, bound %d", i, admitted, took.Round(time.Millisecond), limit, most)
		if admitted > most {
			t.Errorf("run %d: %d admitted, the bound is %d", i, admitted, most)
		}
		if admitted < limit*8/10 {
			t.Errorf("run %d: %d admitted of %d", i, admitted, limit)
		}
	}
	for _, s := range c.stores {
		if st := s.StatsAt(time.Now()); st.OvershootRatio > 1 {
			t.Errorf("the measured overshoot is %v of the bound", st.OvershootRatio)
		}
	}
	if n := c.failed.Load(); n > 0 {
		t.Errorf("%d calls failed", n)
	}
}

// cases/ratelimit.md 26: all traffic moves to one node. Within 2·T it can use 90 %
// of the limit, because what the others held comes back.
func TestCase_RateLimit_26_TrafficMovesToOneNode(t *testing.T) {
	o := where(t, "COMPORTA_TEST_REDIS_URL")
	stores := fleetOf(t, 6, Config{Redis: o})
	c := newCrowd(t, stores, perSecond(1000, 1000), 2)
	c.run(time.Second, "k")
	one := &crowd{stores: stores[:1], policy: c.policy, callers: 8, admitted: make([]atomic.Int64, 1)}
	one.run(2*time.Second, "k")
	admitted, took := one.run(2*time.Second, "k")
	t.Logf("%d admitted in %v", admitted, took)
	if want := int64(900 * took.Seconds()); admitted < want {
		t.Errorf("%d admitted in %v, want %d", admitted, took, want)
	}
	if most := bound(stores[0], c.policy, took); admitted > most {
		t.Errorf("%d admitted, the bound is %d", admitted, most)
	}
}

// cases/ratelimit.md 20: the clocks of nodes measure spans only.
func TestCase_RateLimit_20_ClockSkew(t *testing.T) {
	o := where(t, "COMPORTA_TEST_REDIS_URL")
	var stores []*Store
	common := Config{Redis: o, Nodes: 3, Prefix: prefix()}
	for _, skew := range []time.Duration{0, time.Minute, -time.Minute} {
		stores = append(stores, openAt(t, common, func() time.Time { return time.Now().Add(skew) }))
	}
	p := policyOf(t, stores, ratelimit.Policy{Name: "p", Limit: perSecond(20, 20)})
	began := time.Now()
	admitted := 0
	for time.Since(began) < 2*time.Second {
		for _, s := range stores {
			ok, _, err := s.take(p, "k", 1)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				admitted++
			}
		}
	}
	w := time.Since(began)
	if most := bound(stores[0], p, w); int64(admitted) > most {
		t.Errorf("%d admitted in %v, the bound is %d", admitted, w, most)
	}
	if least := int(20 + 20*w.Seconds()*0.9); admitted < least {
		t.Errorf("%d admitted in %v, want at least %d", admitted, w, least)
	}
}

// cases/ratelimit.md 22: Redis is killed, and comes back empty. No call waits
// much longer than the budget, the breaker answers at once, and within a second
// of the return decisions are shared again, without a second full burst.
func TestCase_RateLimit_22_RedisKilledAndRestarted(t *testing.T) {
	own := startOwn(t)
	stores := fleetOf(t, 2, Config{Redis: redis.UniversalOptions{Addrs: []string{own.addr}}, Timeout: 50 * time.Millisecond})
	c := newCrowd(t, stores, ratelimit.Limit{Rate: ratelimit.Rate{Count: 100, Per: time.Hour}}, 2)
	if n, _ := c.run(300*time.Millisecond, "k"); n < 90 || n > bound(stores[0], c.policy, 0) {
		t.Fatalf("%d admitted of 100", n)
	}
	own.kill()
	down := newCrowd(t, stores, perSecond(10, 10), 2)
	for i := range 200 { // fresh keys: these have to ask
		if _, _, err := stores[0].take(down.policy, fmt.Sprint("fresh", i), 6); err == nil {
			t.Fatal("Redis is dead and answers")
		} else if !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
	}
	if st := stores[0].StatsAt(time.Now()); st.Refused < 100 {
		t.Errorf("the breaker did not open: %+v", st)
	}
	own.start(t)
	began := time.Now()
	until(t, "decisions are shared again", func() bool {
		_, _, err := stores[0].take(c.policy, "other", 100)
		return err == nil
	})
	if took := time.Since(began); took > time.Second {
		t.Errorf("back after %v", took)
	}
	if !stores[0].learning() {
		t.Error("grants are not halved after an outage")
	}
	n, _ := c.run(200*time.Millisecond, "k")
	if m := stores[0].meters.Load().byPolicy[c.policy]; n > m.burst/2+int64(stores[0].fleet().bound(m)) {
		t.Errorf("%d admitted of a bucket that had been emptied", n)
	}
}

// cases/ratelimit.md 22: a Redis that hangs costs the budget, until the breaker
// opens; then nothing.
func TestCase_RateLimit_22_RedisHangs(t *testing.T) {
	own := startOwn(t)
	s := open(t, Config{Redis: redis.UniversalOptions{Addrs: []string{own.addr}}, Timeout: DefaultTimeout})
	p := policyOf(t, []*Store{s}, ratelimit.Policy{Name: "p", Limit: perSecond(10, 10)})
	own.signal(t, syscall.SIGSTOP)
	defer own.signal(t, syscall.SIGCONT)
	var slow int
	const calls = 300
	for i := range calls {
		from := time.Now()
		if _, _, err := s.take(p, fmt.Sprint("k", i), 6); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("Redis hangs: %v", err)
		}
		// The budget, and as much for a machine that is busy.
		if time.Since(from) > 2*DefaultTimeout {
			slow++
		}
	}
	if slow > calls/100 {
		t.Errorf("%d of %d calls took more than twice the budget", slow, calls)
	}
	if st := s.StatsAt(time.Now()); st.Refused < calls/2 {
		t.Errorf("the breaker did not open: %+v", st)
	}
	own.signal(t, syscall.SIGCONT)
	began := time.Now()
	until(t, "decisions are shared again", func() bool {
		_, _, err := s.take(p, "k", 5)
		return err == nil
	})
	if took := time.Since(began); took > time.Second {
		t.Errorf("back after %v", took)
	}
}

// A Sentinel promotes the replica: decisions go on, and at worst the bucket is
// fresh once more.
func TestSentinelFailover(t *testing.T) {
	o := where(t, "COMPORTA_TEST_REDIS_SENTINEL")
	s := open(t, Config{Redis: o, Timeout: 500 * time.Millisecond})
	p := policyOf(t, []*Store{s}, ratelimit.Policy{Name: "p", Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 100, Per: 24 * time.Hour}}})
	admitted := int64(0)
	spend := func() {
		if ok, _, err := s.take(p, "k", 1); ok && err == nil {
			admitted++
		}
	}
	for range 40 {
		spend()
	}
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: o.Addrs[0]})
	defer sentinel.Close() // the test is over
	before, err := sentinel.GetMasterAddrByName(t.Context(), o.MasterName).Result()
	if err != nil {
		t.Fatal(err)
	}
	if err := sentinel.Failover(t.Context(), o.MasterName).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "another master", func() bool {
		spend()
		now, err := sentinel.GetMasterAddrByName(t.Context(), o.MasterName).Result()
		return err == nil && now[1] != before[1]
	})
	until(t, "the new master decides", func() bool {
		_, _, err := s.take(p, "other", 100)
		return err == nil
	})
	for range 300 {
		spend()
	}
	if admitted < 40 || admitted > 2*100 {
		t.Errorf("%d admitted around a failover, of 100", admitted)
	}
	t.Logf("%d admitted around a failover, of 100", admitted)
}
