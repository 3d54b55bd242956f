package redislimit

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/comporta/comporta/gate/ratelimit"
)

// What a node believes about a key: when it may act on it, and when not any more.

// gate holds the flights of a store until it is opened.
type gate struct {
	enter chan struct{}
	leave chan struct{}
}

func hold(n *node, v *server) gate {
	g := gate{make(chan struct{}, 64), make(chan struct{})}
	n.ask = func(ctx context.Context, lane int, keys []string, numbers []byte) (string, error) {
		g.enter <- struct{}{}
		<-g.leave
		return v.ask(ctx, lane, keys, numbers)
	}
	return g
}

// the entry of a key.
func (n *node) entry(key string) *entry {
	n.tb.Helper()
	local := n.meters.Load().byPolicy[n.policy].start.Str(key).Name()
	e := n.memory.shard(local).find(local)
	if e == nil {
		n.tb.Fatalf("%q is unknown", key)
	}
	return e
}

// While Redis is being told of an allowance, there is no second one.
func TestNoSecondAllowanceBeforeTheAnswer(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	n := newNode(t, v, c, Config{}, ratelimit.Policy{Limit: per(2, 24*time.Hour, 2)})
	g := hold(n, v)
	var admitted atomic.Int64
	take := func() {
		if n.take("k", 1) {
			admitted.Add(1)
		}
	}
	take()
	var wg sync.WaitGroup
	wg.Go(take)
	<-g.enter
	for range 5 {
		wg.Go(take)
	}
	for int64(n.entry("k").asks(n))+admitted.Load() < 7 {
		runtime.Gosched()
	}
	close(g.leave)
	wg.Wait()
	if got := admitted.Load(); got != 2 {
		t.Errorf("%d admitted of 2", got)
	}
}

// asks is how many questions about the entry are under way.
func (e *entry) asks(n *node) int32 {
	sh := n.memory.shard(n.meters.Load().byPolicy[n.policy].start.Str("k").Name())
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return e.asking
}

// A denial that comes with a lease is paid from it, once a unit.
func TestDeniedBesideALeaseIsPaidFromIt(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	n := newNode(t, v, c, Config{}, ratelimit.Policy{Limit: per(6, 24*time.Hour, 6)})
	n.take("k", 1)
	n.take("k", 1) // four are left
	n.settled()
	if e := n.entry("k"); e.lease != 0 {
		t.Fatalf("a lease of %d after one question", e.lease)
	}
	g := hold(n, v)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 7 {
		wg.Go(func() {
			if n.take("k", 1) {
				admitted.Add(1)
			}
		})
	}
	<-g.enter
	for n.entry("k").asks(n) < 7 {
		runtime.Gosched()
	}
	close(g.leave)
	wg.Wait()
	if got := admitted.Load(); got != 4 {
		t.Errorf("%d admitted of the 4 that were left", got)
	}
	if n.StatsAt(c.Now()).LeasedUnits == 0 {
		t.Error("no lease: the test tries nothing")
	}
}

func TestLeasesThatExpireAreHalved(t *testing.T) {
	c := newClock()
	n := newNode(t, newServer(c.Now), c, Config{}, ratelimit.Policy{Limit: per(1000, time.Second, 1000)})
	for range 600 {
		n.take("k", 1)
	}
	n.settled()
	e := n.entry("k")
	want := e.want
	if want < 16 || e.lease == 0 {
		t.Fatalf("want %d, lease %d: the test tries nothing", want, e.lease)
	}
	c.Advance(2 * time.Second)
	n.sweep()
	if e.want != want/2 || e.lease != 0 {
		t.Errorf("want %d after %d, lease %d", e.want, want, e.lease)
	}
}

func TestLearningHalvesLeases(t *testing.T) {
	c := newClock()
	n := newNode(t, newServer(c.Now), c, Config{}, ratelimit.Policy{Limit: per(1000, time.Second, 1000)})
	now := c.Now().UnixMicro()
	e := entry{meter: n.meters.Load().byPolicy[n.policy], asked: now, want: 8}
	if w := n.wish(now, &e); w != 16 {
		t.Errorf("wants %d, not 16", w)
	}
	n.learnUntil(c.Now())
	if w := n.wish(now, &e); w != 16 { // half of 32
		t.Errorf("wants %d, not 16", w)
	}
	if w := n.wish(now+2_000_000, &e); w != 0 {
		t.Errorf("a key that was not asked for lately wants %d", w)
	}
}

// A report that was certainly not made is still owed; one that may have been is not.
func TestReportsThatFail(t *testing.T) {
	c := newClock()
	n := newNode(t, newServer(c.Now), c, Config{}, ratelimit.Policy{Limit: per(10, time.Hour, 10)})
	n.take("k", 1)
	e := n.entry("k")
	local := n.meters.Load().byPolicy[n.policy].start.Str("k").Name()
	q := &question{settle: true, items: []item{{meter: e.meter, name: local, wire: e.wire, cost: 1}}}
	n.unsettled(q, true)
	if e.debt != 1 || n.StatsAt(c.Now()).ForgottenUnits != 1 {
		t.Errorf("debt %d, %d forgotten", e.debt, n.StatsAt(c.Now()).ForgottenUnits)
	}
	n.unsettled(q, false)
	if e.debt != 2 || n.StatsAt(c.Now()).ForgottenUnits != 1 {
		t.Errorf("debt %d, %d forgotten", e.debt, n.StatsAt(c.Now()).ForgottenUnits)
	}
}

// Another node gave units back: a denial is believed for ten periods, no longer.
func TestDenialsAreAskedAboutAgain(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	limit := ratelimit.Policy{Limit: per(10, 24*time.Hour, 10)}
	n, other := newNode(t, v, c, Config{}, limit), newNode(t, v, c, Config{}, limit)
	n.take("k", 10)
	if n.take("k", 2) {
		t.Fatal("an empty bucket pays")
	}
	if err := other.Refund(t.Context(), c.Now(), "id", []ratelimit.Debit{{Policy: other.policy, Key: []byte("k"), Cost: 5}}); err != nil {
		t.Fatal(err)
	}
	c.Advance(9 * time.Second)
	asked := v.calls
	if n.take("k", 2) || v.calls != asked {
		t.Error("the denial is not remembered")
	}
	c.Advance(2 * time.Second)
	if !n.take("k", 2) {
		t.Error("the denial is believed for ever")
	}
}

// A raised limit voids what was known under the old one.
func TestRaisedLimitVoidsDenials(t *testing.T) {
	c := newClock()
	n := newNode(t, newServer(c.Now), c, Config{}, ratelimit.Policy{Limit: per(10, 24*time.Hour, 10)})
	for n.take("k", 1) {
	}
	raised, err := ratelimit.NewPolicy(ratelimit.Policy{Name: "p", Limit: per(20, 24*time.Hour, 20)})
	if err == nil {
		err = n.Prepare(c.Now(), raised)
	}
	if err != nil {
		t.Fatal(err)
	}
	n.policy = raised
	admitted := 0
	for n.take("k", 1) {
		admitted++
	}
	if admitted != 10 {
		t.Errorf("%d admitted after 10 of 20", admitted)
	}
}

// What was paid from a lease comes back to it when another rule denies.
func TestDeniedRequestsGiveLeasesBack(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	n := newNode(t, v, c, Config{}, ratelimit.Policy{Limit: per(1000, time.Second, 1000)})
	for range 600 {
		n.take("k", 1)
	}
	n.settled()
	daily, err := ratelimit.NewPolicy(ratelimit.Policy{Name: "daily", Limit: per(10, 24*time.Hour, 10)})
	if err == nil {
		err = n.Prepare(c.Now(), daily)
	}
	if err != nil {
		t.Fatal(err)
	}
	lease := n.entry("k").lease
	if lease == 0 {
		t.Fatal("no lease: the test tries nothing")
	}
	v.mu.Lock() // somebody else has emptied the other bucket
	m := n.meters.Load().byPolicy[daily]
	key := string(appendKey(nil, n.config.Prefix, 0, nameOf(m.label, []byte("k"))))
	v.keys[key] = held{c.Now().UnixMicro()*m.scale + m.window, m.interval, m.scale, c.Now().Add(24 * time.Hour).UnixMicro()}
	v.mu.Unlock()
	debits := []ratelimit.Debit{{Policy: n.policy, Key: []byte("k"), Cost: 1}, {Policy: daily, Key: []byte("k"), Cost: 2}}
	results := make([]ratelimit.Result, 2)
	for range 2 { // first Redis denies, then memory
		ok, err := n.Take(t.Context(), c.Now(), debits, results)
		if ok || err != nil || !results[0].Allowed || results[1].Allowed {
			t.Errorf("%v, %v, %+v", ok, err, results)
		}
		if got := n.entry("k").lease; got != lease {
			t.Errorf("a lease of %d became %d", lease, got)
		}
	}
}

// More keys than there is room for, of callers who are believed: what finds no
// room is asked of Redis, so that nothing is forgotten and every key gets what it
// may have, and once what a node grants before it asks.
func TestMoreKeysThanRoom(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	n := newNode(t, v, c, Config{Keys: minKeys}, ratelimit.Policy{Limit: per(4, 24*time.Hour, 4)})
	const keys = 4 * minKeys
	var admitted [keys]int
	for range 6 {
		for k := range keys {
			if n.take(fmt.Sprint("k", k), 1) {
				admitted[k]++
			}
			if k%500 == 0 {
				c.Advance(100 * time.Millisecond)
				n.sweep()
			}
		}
	}
	n.settled()
	for k, got := range admitted {
		if got < 4 || got > 5 {
			t.Fatalf("key %d: %d admitted of 4", k, got)
		}
	}
	st := n.StatsAt(c.Now())
	if st.ForgottenUnits != 0 || st.Crowded == 0 {
		t.Errorf("%d units are forgotten, %d calls found no room", st.ForgottenUnits, st.Crowded)
	}
}
