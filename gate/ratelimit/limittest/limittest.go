// Package limittest holds what every ratelimit.Store must do, as tests.
//
// # Basics
//
// An engine is held against it in one test of its own package:
//
//	func TestStore(t *testing.T) {
//		limittest.Run(t, limittest.Features{}, func(testing.TB) ratelimit.Store { return newStore() })
//	}
//
// # Caveats
//
// A store that reads a clock of its own leaves Features.Advance nil unless that
// clock can be moved; what depends on the passing of time is then not tried.
package limittest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing" //nolint:depguard // a conformance suite is imported by tests only
	"time"

	"github.com/comporta/comporta/gate/ratelimit"
)

// Features says what a store can do, and how its clock is moved.
type Features struct {
	// OwnClock: the store does not read the instants that it is given.
	OwnClock bool
	// Advance moves the clock of a store with OwnClock; nil: it cannot be moved.
	Advance func(time.Duration)
	// Approximate: decisions of cold keys may be made locally, so that
	// concurrent calls can admit a little more than the burst.
	Approximate bool
	// NoConvert: a limit that changes starts its keys anew.
	NoConvert bool
}

// Run tries a store. newStore is called once a case and returns one without keys.
func Run(t *testing.T, f Features, newStore func(testing.TB) ratelimit.Store) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.moves && f.OwnClock && f.Advance == nil {
				t.Skip("the clock of this store cannot be moved")
			}
			c.try(&trial{T: t, features: f, store: newStore(t), now: time.Now().Truncate(time.Hour).Add(time.Minute)})
		})
	}
}

var cases = []struct {
	name  string
	moves bool // time
	try   func(*trial)
}{
	{"BurstThenRate", true, burstThenRate},
	{"AllOrNothing", false, allOrNothing},
	{"Peek", false, peek},
	{"NegativeCost", false, negativeCost},
	{"Never", false, never},
	{"Shadow", false, shadow},
	{"DeniedCostsNothing", true, deniedCostsNothing},
	{"Refund", false, refund},
	{"Charge", true, charge},
	{"KeysAreApart", false, keysAreApart},
	{"Concurrent", false, concurrent},
	{"RaisedLimit", false, raisedLimit},
}

// trial is one case under way.
type trial struct {
	*testing.T
	features Features
	store    ratelimit.Store
	now      time.Time
}

func (t *trial) advance(d time.Duration) {
	t.now = t.now.Add(d)
	if t.features.Advance != nil {
		t.features.Advance(d)
	}
}

func (t *trial) policy(p ratelimit.Policy) *ratelimit.Policy {
	t.Helper()
	made, err := ratelimit.NewPolicy(p)
	if err == nil {
		err = t.store.Prepare(t.now, made)
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// hourly is a policy that regains nothing while a test runs.
func (t *trial) hourly(name string, burst int64) *ratelimit.Policy {
	t.Helper()
	return t.policy(ratelimit.Policy{Name: name, Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: burst, Per: 24 * time.Hour}}})
}

func debit(p *ratelimit.Policy, key string, cost int64) ratelimit.Debit {
	return ratelimit.Debit{Policy: p, Key: []byte(key), Cost: cost, Believed: true}
}

func (t *trial) take(debits ...ratelimit.Debit) (bool, []ratelimit.Result) {
	t.Helper()
	results := make([]ratelimit.Result, len(debits))
	ok, err := t.store.Take(t.Context(), t.now, debits, results)
	if err != nil {
		t.Fatalf("take: %v", err)
	}
	return ok, results
}

func (t *trial) left(p *ratelimit.Policy, key string) int64 {
	t.Helper()
	_, results := t.take(debit(p, key, 0))
	return results[0].Remaining
}

func (t *trial) wantLeft(p *ratelimit.Policy, key string, want int64) {
	t.Helper()
	if got := t.left(p, key); got != want {
		t.Errorf("%s of %q: %d left, want %d", p.Name, key, got, want)
	}
}

func burstThenRate(t *trial) {
	p := t.policy(ratelimit.Policy{Name: "p", Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 1, Per: time.Minute}, Burst: 5}})
	for i := range 5 {
		if ok, r := t.take(debit(p, "k", 1)); !ok || !r[0].Allowed || r[0].Remaining != int64(4-i) {
			t.Fatalf("call %d: %v, %+v", i, ok, r[0])
		}
	}
	ok, r := t.take(debit(p, "k", 1))
	if ok || r[0].Allowed || r[0].Wait <= 0 || r[0].Wait > time.Minute {
		t.Fatalf("the sixth of five: %v, %+v", ok, r[0])
	}
	t.advance(r[0].Wait)
	if ok, r := t.take(debit(p, "k", 1)); !ok {
		t.Errorf("who waits as told is refused: %+v", r[0])
	}
	t.advance(10 * time.Minute)
	t.wantLeft(p, "k", 5)
}

func allOrNothing(t *trial) {
	a, b := t.hourly("a", 10), t.hourly("b", 1)
	if ok, _ := t.take(debit(a, "k", 1), debit(b, "k", 1)); !ok {
		t.Fatal("the first call is denied")
	}
	ok, r := t.take(debit(a, "k", 1), debit(b, "k", 1))
	if ok || !r[0].Allowed || r[1].Allowed {
		t.Errorf("b is empty: %v, %+v", ok, r)
	}
	t.wantLeft(a, "k", 9)
}

func peek(t *trial) {
	p := t.hourly("p", 3)
	for range 5 {
		t.wantLeft(p, "k", 3)
	}
	t.take(debit(p, "k", 2))
	t.wantLeft(p, "k", 1)
}

func negativeCost(t *trial) {
	p := t.hourly("p", 3)
	bad := []ratelimit.Debit{debit(p, "k", 1), debit(p, "other", -5)}
	if _, err := t.store.Take(t.Context(), t.now, bad, make([]ratelimit.Result, 2)); !errors.Is(err, ratelimit.ErrNegativeCost) {
		t.Errorf("take: %v", err)
	}
	if err := t.store.Refund(t.Context(), t.now, "id", bad); !errors.Is(err, ratelimit.ErrNegativeCost) {
		t.Errorf("refund: %v", err)
	}
	if err := t.store.Charge(t.Context(), t.now, bad); !errors.Is(err, ratelimit.ErrNegativeCost) {
		t.Errorf("charge: %v", err)
	}
	t.wantLeft(p, "k", 3)
	t.wantLeft(p, "other", 3)
}

func never(t *trial) {
	p, nothing := t.hourly("p", 3), t.policy(ratelimit.Policy{Name: "nothing"})
	for _, d := range []ratelimit.Debit{debit(p, "k", 4), debit(p, "k", 1<<62), debit(nothing, "k", 1)} {
		if ok, r := t.take(d); ok || !r[0].Never || r[0].Wait != 0 {
			t.Errorf("%s, cost %d: %v, %+v", d.Policy.Name, d.Cost, ok, r[0])
		}
	}
	t.wantLeft(p, "k", 3)
}

func shadow(t *trial) {
	limit := ratelimit.Limit{Rate: ratelimit.Rate{Count: 1, Per: 24 * time.Hour}}
	s, b := t.policy(ratelimit.Policy{Name: "s", Limit: limit, Shadow: true}), t.hourly("b", 2)
	for i, want := range []bool{true, true, false} {
		ok, r := t.take(debit(s, "k", 1), debit(b, "k", 1))
		if ok != want || r[0].Allowed != (i == 0) {
			t.Errorf("call %d: %v, %+v", i, ok, r)
		}
	}
	t.wantLeft(b, "k", 0)
}

func deniedCostsNothing(t *trial) {
	p := t.policy(ratelimit.Policy{Name: "p", Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 10, Per: time.Minute}}})
	admitted := 0
	for range 100 {
		if ok, _ := t.take(debit(p, "k", 1)); ok {
			admitted++
		}
	}
	if admitted != 10 {
		t.Errorf("%d admitted, want 10", admitted)
	}
	t.advance(time.Minute)
	t.wantLeft(p, "k", 10)
}

func refund(t *trial) {
	p := t.hourly("p", 10)
	t.take(debit(p, "k", 6))
	for range 3 {
		if err := t.store.Refund(t.Context(), t.now, "request-1", []ratelimit.Debit{debit(p, "k", 2)}); err != nil {
			t.Fatal(err)
		}
	}
	t.wantLeft(p, "k", 6)
	if err := t.store.Refund(t.Context(), t.now, "request-2", []ratelimit.Debit{debit(p, "k", 100)}); err != nil {
		t.Fatal(err)
	}
	t.wantLeft(p, "k", 10)
}

func charge(t *trial) {
	p := t.policy(ratelimit.Policy{Name: "p", Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 10, Per: 10 * time.Minute}}})
	if err := t.store.Charge(t.Context(), t.now, []ratelimit.Debit{debit(p, "k", 1000)}); err != nil {
		t.Fatal(err)
	}
	if ok, r := t.take(debit(p, "k", 1)); ok || r[0].Wait > 11*time.Minute || r[0].Wait <= 10*time.Minute {
		t.Errorf("a key that owes its burst: %v, %+v", ok, r[0])
	}
	t.advance(20 * time.Minute)
	t.wantLeft(p, "k", 10)
}

func keysAreApart(t *trial) {
	p, q := t.hourly("p", 1), t.hourly("q", 1)
	for _, key := range []string{"a", "b", "ab", "a\x00", "", "a/b"} {
		for _, policy := range []*ratelimit.Policy{p, q} {
			if ok, _ := t.take(debit(policy, key, 1)); !ok {
				t.Errorf("%s of %q shares a bucket", policy.Name, key)
			}
		}
	}
}

func concurrent(t *trial) {
	p := t.hourly("p", 10)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			debits, results := []ratelimit.Debit{debit(p, "k", 1)}, make([]ratelimit.Result, 1)
			ok, err := t.store.Take(context.WithoutCancel(t.Context()), t.now, debits, results)
			if err != nil {
				t.Error(fmt.Errorf("call %d: %w", i, err))
			}
			if ok {
				admitted.Add(1)
			}
		})
	}
	wg.Wait()
	if n := admitted.Load(); n < 10 || n > 10 && !t.features.Approximate {
		t.Errorf("%d admitted, want 10", n)
	}
}

func raisedLimit(t *trial) {
	if t.features.NoConvert {
		t.Skip("this store starts the keys of a changed limit anew")
	}
	p := t.hourly("p", 10)
	for range 50 {
		t.take(debit(p, "k", 1))
	}
	p = t.hourly("p", 20)
	t.wantLeft(p, "k", 10)
}
