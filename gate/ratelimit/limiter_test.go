package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

// cases/ratelimit.md 2
func TestCase_RateLimit_2_AfterALoweredLimitTheWaitIsForThisCost(t *testing.T) {
	table := newTable(t)
	rule := Rule{Name: "r", Limit: perSecond(100, 100), NoAggregates: true}
	ask(newLimiter(t, table, rule), t0, known(1), 80)
	rule.Limit = perSecond(10, 10)
	l := newLimiter(t, table, rule)
	passed, v := ask(l, t0, known(1), 1)
	// 80 used against a burst of 10: 71 must drain at 10/s before one fits.
	if passed != 0 || v.Reason != comporta.RateLimited || v.Wait != 7100*time.Millisecond {
		t.Fatalf("%d passed, %v, wait %v; want a wait of 7.1 s", passed, v.Reason, v.Wait)
	}
	if passed, v := ask(l, t0.Add(v.Wait-time.Microsecond), known(1), 1); passed != 0 || v.Wait <= 0 {
		t.Errorf("a microsecond early: %d passed, wait %v", passed, v.Wait)
	}
	if passed, _ := ask(l, t0.Add(v.Wait), known(1), 2); passed != 1 {
		t.Errorf("after the wait: %d passed, want 1", passed)
	}
}

// cases/ratelimit.md 13
func TestCase_RateLimit_13_DeniedRequestsDoNotCount(t *testing.T) {
	table := newTable(t)
	rule := Rule{Name: "r", Limit: Limit{Rate: Rate{10, time.Hour}}}
	if passed, _ := ask(newLimiter(t, table, rule), t0, known(1), 50); passed != 10 {
		t.Fatalf("%d of 50 passed, want 10", passed)
	}
	rule.Limit.Rate.Count = 20
	if passed, _ := ask(newLimiter(t, table, rule), t0, known(1), 50); passed != 10 {
		t.Errorf("after the limit was raised: %d passed, want 10 more", passed)
	}
	rule = Rule{Name: "q", Quota: Quota{Units: 10, Period: Hour}}
	if passed, _ := ask(newLimiter(t, table, rule), t0, known(1), 50); passed != 10 {
		t.Fatalf("quota: %d of 50 passed, want 10", passed)
	}
	rule.Quota.Units = 20
	if passed, _ := ask(newLimiter(t, table, rule), t0, known(1), 50); passed != 10 {
		t.Errorf("quota raised: %d passed, want 10 more", passed)
	}
	rule = Rule{Name: "penalty", Limit: perSecond(10, 10), Penalty: true}
	l := newLimiter(t, table, rule)
	if passed, v := ask(l, t0, known(1), 50); passed != 10 || v.Wait != 1100*time.Millisecond {
		t.Errorf("penalty: %d passed, wait %v; want 10 and the burst once more", passed, v.Wait)
	}
}

// cases/ratelimit.md 15
func TestCase_RateLimit_15_AllRulesOrNone(t *testing.T) {
	for _, shadow := range []bool{false, true} {
		l := newLimiter(t, newTable(t),
			Rule{Name: "a", Limit: perSecond(10, 10), Shadow: shadow},
			Rule{Name: "b", Limit: Limit{Rate: Rate{1, time.Minute}}})
		if passed, v := ask(l, t0, known(1), 3); passed != 1 || v.Wait != time.Minute || strings.Join(v.Violated(), " ") != "b" {
			t.Fatalf("%d passed, wait %v, violated %q; want one, a minute, b", passed, v.Wait, v.Violated())
		}
		if n := remaining(l, known(1), "a", t0); n != 9 {
			t.Errorf("shadow %v: b denied twice and a has %d left, want 9", shadow, n)
		}
	}
	// A dry shadow stops nobody from being charged.
	l := newLimiter(t, newTable(t),
		Rule{Name: "a", Limit: perSecond(1, 1), Shadow: true}, Rule{Name: "b", Limit: perSecond(3, 3)})
	if passed, _ := ask(l, t0, known(1), 5); passed != 3 {
		t.Errorf("%d passed, want the 3 of b", passed)
	}
}

// remaining is what a rule's key has left, shadows too.
func remaining(l *Limiter, r *comporta.Request, name string, now time.Time) int64 {
	var v Verdict
	l.PeekAt(context.Background(), now, r, &v)
	for i := range v.debits {
		if v.debits[i].Policy.Name == name {
			return v.results[i].Remaining
		}
	}
	return -1
}

// cases/ratelimit.md 16
func TestCase_RateLimit_16_ShadowsCountAndDenyNothing(t *testing.T) {
	l := newLimiter(t, newTable(t),
		Rule{Name: "s", Limit: perSecond(1, 1), Shadow: true}, Rule{Name: "r", Limit: perSecond(5, 5)})
	passed, v := ask(l, t0, known(1), 4)
	if passed != 4 || len(v.Violated()) != 0 {
		t.Errorf("%d passed, violated %q", passed, v.Violated())
	}
	if got := string(v.AppendLimit(nil)); got != `"r";r=1;t=1` {
		t.Errorf("RateLimit: %s; a shadow must not show", got)
	}
	for p, c := range l.Policies {
		if p.Name == "s" && c != (Counts{WouldDeny: 3}) {
			t.Errorf("counts of the shadow: %+v, want 3 that it would have denied", c)
		}
	}
	if passed, _ := ask(l, t0, known(1), 4); passed != 1 {
		t.Errorf("the other rule: %d more passed, want 1", passed)
	}
}

// cases/ratelimit.md 7, 8 for rules
func TestRefundsChargesAndPeeksOfAVerdict(t *testing.T) {
	l := newLimiter(t, newTable(t),
		Rule{Name: "a", Limit: perSecond(10, 10), Cost: 4}, Rule{Name: "b", Limit: perSecond(100, 100)})
	ctx := context.Background()
	var v Verdict
	if !l.TakeAt(ctx, t0, known(1), &v) || left(l, t0, known(1)) != `"a";r=6;t=1, "b";r=99;t=1` {
		t.Fatalf("left: %s", left(l, t0, known(1)))
	}
	if err := l.ChargeAt(ctx, t0, &v, 3); err != nil || left(l, t0, known(1)) != `"a";r=3;t=1, "b";r=96;t=1` {
		t.Errorf("after 3 more: %s, %v", left(l, t0, known(1)), err)
	}
	if err := l.ChargeAt(ctx, t0, &v, -3); !errors.Is(err, ErrNegativeCost) {
		t.Errorf("-3 more: %v", err)
	}
	for range 2 {
		if err := l.RefundAt(ctx, t0, "id", &v); err != nil {
			t.Fatal(err)
		}
	}
	if got := left(l, t0, known(1)); got != `"a";r=7;t=1, "b";r=97;t=1` {
		t.Errorf("after a refund, asked for twice: %s", got)
	}
	// A request that was denied has nothing to give back.
	ask(l, t0, known(2), 2)
	_, v = ask(l, t0, known(2), 1)
	if err := l.RefundAt(ctx, t0, "other", &v); err != nil || remaining(l, known(2), "a", t0) != 2 {
		t.Errorf("after the refund of a denial: %d left, %v; want 2", remaining(l, known(2), "a", t0), err)
	}
}

func TestCostAboveTheBurstStopsTheClient(t *testing.T) {
	l := newLimiter(t, newTable(t), Rule{Name: "a", Limit: perSecond(10, 10), Cost: 11})
	if passed, v := ask(l, t0, known(1), 1); passed != 0 || v.Reason != comporta.CostExceedsBurst || !v.Stop || v.Wait != 0 {
		t.Errorf("%d passed: %+v", passed, v)
	}
}

func TestListsDecideBeforeAnyRule(t *testing.T) {
	networks, err := ParseNetworks("10.0.0.0/8", "2001:db8::1", "::ffff:192.0.2.0/120")
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(t0, Config{
		Rules: []Rule{{Name: "r"}}, // denies everything
		Allow: List{Networks: networks, Keys: []uint64{7}, Clients: []string{"partner"}},
		Deny:  List{Networks: networks[:1], Keys: []uint64{8, 7}},
	}, newTable(t))
	if err != nil {
		t.Fatal(err)
	}
	named := known(9)
	named.Client.Name = "partner"
	elsewhere := known(7)
	elsewhere.Client.Addr = from("203.0.113.1").Remote
	for _, tc := range []struct {
		name   string
		r      *comporta.Request
		passes bool
		listed bool
	}{
		{"allowed network, although denied too", from("10.1.2.3"), true, true},
		{"the same, mapped", from("::ffff:10.1.2.3"), true, true},
		{"allowed address", from("2001:db8::1"), true, true},
		{"its neighbour", from("2001:db8::2"), false, false},
		{"mapped prefix", from("192.0.2.200"), true, true},
		{"key", elsewhere, true, true},
		{"name", named, true, true},
		{"nobody", &comporta.Request{}, false, false},
	} {
		passed, v := ask(l, t0, tc.r, 1)
		if (passed == 1) != tc.passes || v.Listed != tc.listed {
			t.Errorf("%s: passed %d, listed %v", tc.name, passed, v.Listed)
		}
	}
	denied := from("203.0.113.1")
	denied.Client.Key = 8
	if passed, v := ask(l, t0, denied, 1); passed != 0 || v.Reason != comporta.RateLimited || !v.Stop || !v.Listed {
		t.Errorf("the denied: %+v", v)
	}
}

// A claimed identity buys nothing: whatever it is, its address pays.
func TestInventedIdentitiesShareTheirAddressAndSubnet(t *testing.T) {
	l := newLimiter(t, newTable(t), Rule{Name: "r", Limit: perSecond(10, 10)})
	passed := 0
	for i := range 1000 {
		r := from("192.0.2.1")
		r.Client.Key = uint64(i + 1)
		n, _ := ask(l, t0, r, 1)
		passed += n
	}
	if passed != 10 {
		t.Errorf("1000 invented keys of one address: %d passed, want 10", passed)
	}
	r := from("192.0.2.1")
	if n, _ := ask(l, t0, r, 1); n != 0 {
		t.Error("without any key the address starts anew")
	}
	r.Client.Key, r.Client.Class = 77, comporta.ClassProven
	if n, _ := ask(l, t0, r, 20); n != 10 {
		t.Errorf("a known client behind the address: %d passed, want its own 10", n)
	}
	passed = 0
	for i := range 250 {
		n, _ := ask(l, t0, from("192.0.2."+itoa(i)), 10)
		passed += n
	}
	if passed != 150 { // 16 times 10, less the ten above
		t.Errorf("a whole /24: %d more passed, want 150", passed)
	}
	if n, _ := ask(l, t0, from("192.0.3.1"), 20); n != 10 {
		t.Errorf("the next subnet: %d passed, want 10", n)
	}
}

func TestUnseenKeysShareABound(t *testing.T) {
	l := newLimiter(t, newTable(t), Rule{Name: "r", Limit: perSecond(10, 10), Unseen: perSecond(20, 20)})
	if n, _ := ask(l, t0, from("198.51.100.1"), 5); n != 5 {
		t.Fatalf("%d passed, want 5", n)
	}
	passed := 0
	for i := range 100 {
		n, _ := ask(l, t0, from("192.0."+itoa(i)+".1"), 1)
		passed += n
	}
	if passed != 19 {
		t.Errorf("100 new addresses: %d passed, want the 19 that are left for all of them", passed)
	}
	if n, _ := ask(l, t0, from("198.51.100.1"), 10); n != 5 {
		t.Errorf("the address that was there: %d passed, want 5", n)
	}
	if n, _ := ask(l, t0, known(1), 20); n != 10 {
		t.Errorf("a believed client: %d passed, want 10", n)
	}
}

// cases/ratelimit.md 15: what one aggregate denies, the others are not charged with.
func TestCase_RateLimit_15_AggregatesAreAllOrNothingToo(t *testing.T) {
	l := newLimiter(t, newTable(t),
		Rule{Name: "a", Limit: perSecond(10, 10), Unseen: perSecond(3, 3)},
		Rule{Name: "b", Match: Match{Path: "/b"}, Limit: perSecond(10, 10), Unseen: perSecond(1, 1)})
	passed := map[string]int{}
	for i := range 20 {
		r := from("192.0." + itoa(i) + ".1")
		if r.Path = "/b"; i >= 10 {
			r.Path = "/a"
		}
		n, _ := ask(l, t0, r, 1)
		passed[r.Path] += n
	}
	if passed["/b"] != 1 || passed["/a"] != 2 {
		t.Errorf("passed %v, want 1 by both and the 2 that a has left", passed)
	}
}

func TestPeeksCountNothingAndShadowsDenyNone(t *testing.T) {
	l := newLimiter(t, newTable(t), Rule{Name: "s", Shadow: true}) // one that denies everything
	var v Verdict
	if !l.PeekAt(context.Background(), t0, known(1), &v) || !l.TakeAt(context.Background(), t0, known(1), &v) {
		t.Error("a shadow denies")
	}
	if !l.PeekAt(context.Background(), t0, from("192.0.2.1"), &v) {
		t.Error("a shadow denies a peek of several keys")
	}
	for p, c := range l.Policies {
		if c.Denied != 0 || c.WouldDeny > 1 {
			t.Errorf("%s: %+v, want peeks uncounted", p.Name, c)
		}
	}
}

func TestConfigReportsEveryProblem(t *testing.T) {
	table := newTable(t)
	_, err := New(t0, Config{
		Rules: []Rule{
			{Name: "bad name", Cost: -1, LocalShare: 2, Limit: Limit{Burst: -1}, Match: Match{Routes: []string{"x"}, Path: "a", Hosts: []string{"A"}, Methods: []string{"get"}}},
			{Name: "twice", Store: "redis"}, {Name: "twice"},
			{Name: "q", Quota: Quota{Units: 1}},
		},
		Allow: List{Clients: []string{""}}, Deny: List{Keys: []uint64{0}},
	}, table)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"bad name", "cost -1", "local share 2", "burst -1", `route "x"`, `path "a"`, `host "A"`, `method "get"`,
		`store "redis"`, `"twice" is there twice`, "no period", "Allow", "Deny"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %q:\n%v", want, err)
		}
	}
	if len(table.slots) != 0 {
		t.Error("the table was changed")
	}
	if _, err := New(t0, Config{}, nil); err == nil {
		t.Error("no table: accepted")
	}
}

func TestNoRulesPassEverything(t *testing.T) {
	l := newLimiter(t, newTable(t))
	if passed, v := ask(l, t0, from("192.0.2.1"), 3); passed != 3 || len(v.AppendLimit(nil)) != 0 {
		t.Errorf("%d passed, RateLimit %q", passed, v.AppendLimit(nil))
	}
}

func TestDecisionsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	key, err := ParseKey("header:X-Tenant|client", "fingerprint", "version", "route")
	if err != nil {
		t.Fatal(err)
	}
	l := newLimiter(t, newTable(t), Rule{Name: "a", Limit: perSecond(5, 5)},
		Rule{Name: "b", Key: key, Limit: perSecond(7, 3), Quota: Quota{Units: 1000, Period: Day}, Unseen: perSecond(9, 9)})
	r := from("2001:db8::1")
	r.Header.Set("X-Tenant", strings.Repeat("t", 300))
	var v Verdict
	now := t0
	check := func(what string, f func()) {
		f()
		if n := testing.AllocsPerRun(200, f); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	check("Limiter.TakeAt", func() {
		now = now.Add(50 * time.Millisecond)
		l.TakeAt(context.Background(), now, r, &v)
	})
	b := newBucket(t, perSecond(5, 5))
	check("Bucket.TakeAt", func() {
		now = now.Add(50 * time.Millisecond)
		_, _ = b.TakeAt(now, "client", 1)
	})
	check("Bucket.Take", func() { _, _ = b.Take("client", 1) })
	check("Bucket.ReserveAt", func() {
		now = now.Add(250 * time.Millisecond)
		_, _ = b.ReserveAt(now, "client", 1, time.Minute)
	})
}

// A request may cost more than usual, up to a full bucket: what is dearer for a
// while does not become impossible. What it was charged is what it is given back.
func TestTakeTimes(t *testing.T) {
	for _, tt := range []struct {
		cost, times, burst, want int64 // want is left
	}{
		{1, 1, 10, 9}, {1, 4, 10, 6}, {2, 3, 10, 4}, {1, 0, 10, 9}, {3, 100, 10, 0}, {1, math.MaxInt64, 10, 0}, {10, 2, 10, 0}, {5, 2, 10, 0},
	} {
		l := newLimiter(t, newTable(t), Rule{Name: "r", Limit: Limit{Rate: Rate{1, time.Hour}, Burst: tt.burst}, Cost: tt.cost})
		var v Verdict
		ok := l.TakeTimesAt(context.Background(), t0, tt.times, known(1), &v)
		if got, want := string(v.AppendLimit(nil)), fmt.Sprintf(`"r";r=%d;`, tt.want); !ok || !strings.HasPrefix(got, want) {
			t.Errorf("%+v: %t, %s", tt, ok, got)
		}
		if err := l.RefundAt(context.Background(), t0, "", &v); err != nil {
			t.Fatal(err)
		}
		if l.PeekAt(context.Background(), t0, known(1), &v); string(v.AppendLimit(nil)) != fmt.Sprintf(`"r";r=%d`, tt.burst) {
			t.Errorf("%+v: given back, %s is left", tt, v.AppendLimit(nil))
		}
	}
}
