package redislimit

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta/gate/ratelimit"
)

func meterOf(tb testing.TB, l ratelimit.Limit) *meter {
	tb.Helper()
	p, err := ratelimit.NewPolicy(ratelimit.Policy{Name: "p", Limit: l})
	if err != nil {
		tb.Fatal(err)
	}
	return newMeter(p)
}

func per(n int64, d time.Duration, burst int64) ratelimit.Limit {
	return ratelimit.Limit{Rate: ratelimit.Rate{Count: n, Per: d}, Burst: burst}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		limit           ratelimit.Limit
		interval, scale int64
	}{
		{per(1, time.Second, 1), 1_000_000, 1},
		{per(1000, time.Second, 1000), 1000, 1},
		{per(3, time.Second, 10), 1_000_000, 3},
		{per(1_000_000, time.Second, 10), 1, 1},
		{per(600_000, time.Second, 10), 5, 3},
		{per(900, time.Millisecond, 10), 10, 9},
		{per(3, 7*time.Minute, 10), 140_000_000, 1},
		{per(1, 366*24*time.Hour, 30), 366 * 86400 * 1_000_000, 1},
	} {
		if m := meterOf(t, c.limit); m.interval != c.interval || m.scale != c.scale {
			t.Errorf("%v: %d ticks of 1/%d µs, want %d of 1/%d", c.limit, m.interval, m.scale, c.interval, c.scale)
		}
	}
}

// No limit is ever faster than written, and none is slower by more than a tick a
// unit; two windows fit the numbers of Lua.
func TestTicksNeverGiveMore(t *testing.T) {
	for range 2000 {
		l := per(1+rand.Int64N(1<<rand.IntN(40)), time.Duration(1+rand.Int64N(1<<rand.IntN(44)))*time.Microsecond, 1+rand.Int64N(1<<rand.IntN(30)))
		if _, err := ratelimit.NewPolicy(ratelimit.Policy{Name: "p", Limit: l}); err != nil {
			continue
		}
		m := meterOf(t, l)
		want := new(big.Rat).SetFrac64(l.Rate.Per.Microseconds(), l.Rate.Count)
		got := new(big.Rat).SetFrac64(m.interval, m.scale)
		if got.Cmp(want) < 0 {
			t.Errorf("%v: %v µs a unit, want %v", l, got, want)
		}
		if got.Sub(got, want); got.Cmp(big.NewRat(1, m.scale)) > 0 {
			t.Errorf("%v: %v µs too slow at a scale of %d", l, got, m.scale)
		}
		if 2*m.window > 1<<53 || m.window < 0 {
			t.Errorf("%v: a window of %d ticks", l, m.window)
		}
	}
}

// L = clamp(r·T/2, 1, C/2N), q = clamp(r·T/N, 1, C/2N).
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		limit                   ratelimit.Limit
		nodes, lease, allowance int64
		bound                   float64
	}{
		{per(1000, time.Second, 1000), 6, 83, 83, 498},
		{per(1000, time.Second, 1000), 1, 500, 500, 500},
		{per(1000, time.Second, 100_000), 6, 500, 166, 1000},
		{per(10, time.Second, 10_000), 2, 5, 5, 10},
		{per(5, time.Minute, 5), 6, 1, 1, 6},
		{per(1, time.Second, 1), 1, 1, 1, 1},
		{per(1, time.Second, 1), 10_000, 1, 1, 10_000},
	} {
		m, f := meterOf(t, c.limit), fleet{period: time.Second.Microseconds(), nodes: c.nodes}
		if lease, allowance := f.lease(m), f.allowance(m); lease != c.lease || allowance != c.allowance {
			t.Errorf("%v on %d nodes: lease %d and allowance %d, want %d and %d", c.limit, c.nodes, lease, allowance, c.lease, c.allowance)
		}
		if b := f.bound(m); b != c.bound {
			t.Errorf("%v on %d nodes: bound %v, want %v", c.limit, c.nodes, b, c.bound)
		}
		if f.allowance(m) > f.lease(m) {
			t.Errorf("%v on %d nodes: a node may hold more than the bound counts", c.limit, c.nodes)
		}
	}
	want := int64(0)
	for _, next := range []int64{1, 2, 4, 7, 7} {
		if want = grow(want, 7); want != next {
			t.Errorf("grew to %d, want %d", want, next)
		}
	}
	if shrink(7) != 3 || shrink(1) != 0 {
		t.Error("a lease that expired does not halve what is wanted")
	}
}

func TestResult(t *testing.T) {
	m := meterOf(t, per(10, time.Second, 5)) // 100 ms a unit
	const ms = 1000
	for _, c := range []struct {
		debt, n, lease int64
		ok             bool
		want           ratelimit.Result
	}{
		{0, 1, 0, true, ratelimit.Result{Allowed: true, Remaining: 5}},
		{100 * ms, 1, 0, true, ratelimit.Result{Allowed: true, Remaining: 4, Next: 100 * time.Millisecond}},
		{130 * ms, 1, 0, true, ratelimit.Result{Allowed: true, Remaining: 3, Next: 30 * time.Millisecond}},
		{130 * ms, 1, 1, true, ratelimit.Result{Allowed: true, Remaining: 4, Next: 30 * time.Millisecond}},
		{500 * ms, 1, 0, false, ratelimit.Result{Wait: 100 * time.Millisecond, Next: 100 * time.Millisecond}},
		{490 * ms, 1, 0, false, ratelimit.Result{Wait: 90 * time.Millisecond, Next: 90 * time.Millisecond}},
		{900 * ms, 3, 0, false, ratelimit.Result{Wait: 700 * time.Millisecond, Next: 500 * time.Millisecond}},
		{0, 1, 9, true, ratelimit.Result{Allowed: true, Remaining: 5}},
	} {
		if got := m.result(c.debt, c.n, c.lease, c.ok); got != c.want {
			t.Errorf("debt %d, cost %d: %+v, want %+v", c.debt, c.n, got, c.want)
		}
	}
}

func TestNamesDependOnAllParts(t *testing.T) {
	seen := map[name]string{}
	for _, c := range [][3]string{{"", "p", "k"}, {"s", "p", "k"}, {"s", "pk", ""}, {"s", "", "pk"}, {"s", "p", "kk"}, {"sp", "", "k"}} {
		n := nameOf(labelOf([]byte(c[0]), c[1]), []byte(c[2]))
		if was, ok := seen[n]; ok {
			t.Errorf("%q has the name of %s", c, was)
		}
		seen[n] = fmt.Sprintf("%q", c)
	}
	label, key := labelOf([]byte("secret"), "api"), make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() { _ = nameOf(label, key) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	long := nameOf(label, make([]byte, 5000))
	if long == (name{}) || long == nameOf(label, make([]byte, 5001)) {
		t.Error("long keys are cut")
	}
}

func TestConfigReportsAllProblems(t *testing.T) {
	_, err := New(t.Context(), Config{
		Prefix: "a{b}", Node: "x y", Period: time.Hour, Timeout: time.Hour, Nodes: -1, Keys: 1, Queue: 1,
	})
	for _, field := range []string{"Redis.Addrs", "Prefix", "Node:", "Period", "Timeout", "Nodes", "Keys", "Queue"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("nothing about %s in: %v", field, err)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	s := fake(t, newServer(newClock().Now), Config{})
	quota, err := ratelimit.NewPolicy(ratelimit.Policy{Name: "q", Quota: ratelimit.Quota{Units: 5, Period: ratelimit.Day}})
	if err != nil {
		t.Fatal(err)
	}
	p := meterOf(t, per(1, time.Second, 1)).policy
	for _, c := range []struct {
		policies []*ratelimit.Policy
		want     string
	}{
		{[]*ratelimit.Policy{quota}, "quota"}, {[]*ratelimit.Policy{nil}, "NewPolicy"}, {[]*ratelimit.Policy{p, p}, "twice"},
	} {
		if err := s.Prepare(time.Now(), c.policies...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want something about %q", err, c.want)
		}
	}
	if _, err := s.Take(t.Context(), time.Now(), []ratelimit.Debit{{Policy: p}}, make([]ratelimit.Result, 1)); err == nil {
		t.Error("a policy that was refused is taken from")
	}
}

// Reloads do not let the registry grow, and the policy before stays in use.
func TestPrepareForgetsOldPolicies(t *testing.T) {
	s := fake(t, newServer(newClock().Now), Config{})
	var before *ratelimit.Policy
	for i := range 1000 {
		p, err := ratelimit.NewPolicy(ratelimit.Policy{Name: fmt.Sprint("p", i%300), Limit: per(1, time.Second, 1)})
		if err == nil {
			err = s.Prepare(time.Now(), p)
		}
		if err != nil {
			t.Fatal(err)
		}
		if before = p; s.meters.Load().byPolicy[before] == nil {
			t.Fatal("the newest policy is unknown")
		}
	}
	if n := len(s.meters.Load().byPolicy); n > 2*maxPolicies {
		t.Errorf("%d policies are kept", n)
	}
}

func TestParseURL(t *testing.T) {
	for _, c := range []struct {
		in   string
		want redis.UniversalOptions
	}{
		{"redis://127.0.0.1:6379/3", redis.UniversalOptions{Addrs: []string{"127.0.0.1:6379"}, DB: 3}},
		{"redis://h", redis.UniversalOptions{Addrs: []string{"h:6379"}}},
		{"redis://u:p%40ss@h:1", redis.UniversalOptions{Addrs: []string{"h:1"}, Username: "u", Password: "p@ss"}},
		{"redis://:a@b@[::1]:7/", redis.UniversalOptions{Addrs: []string{"[::1]:7"}, Password: "a@b"}},
		{"redis+cluster://a:1,b:2", redis.UniversalOptions{Addrs: []string{"a:1", "b:2"}, IsClusterMode: true}},
		{"redis+sentinel://a,b:2/limits/4", redis.UniversalOptions{Addrs: []string{"a:26379", "b:2"}, MasterName: "limits", DB: 4}},
	} {
		got, err := ParseURL(c.in)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v, %v", c.in, got, err)
		}
	}
	tls, err := ParseURL("rediss://example.com")
	if err != nil || tls.TLSConfig == nil || tls.TLSConfig.ServerName != "example.com" {
		t.Errorf("rediss: %+v, %v", tls.TLSConfig, err)
	}
	for _, bad := range []string{
		"", "127.0.0.1:6379", "http://h", "redis://", "redis://a,b", "redis://h:0", "redis://h:99999", "redis://h/x", "redis://h/12345",
		"redis://h?db=1", "redis+cluster://a/1", "redis+sentinel://a", "redis+nothing://a", "redis://secret%zz@h", "redis://h:6379:1",
	} {
		if _, err := ParseURL(bad); err == nil {
			t.Errorf("%q is read", bad)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("redis://user:password@host:6379/0")
	f.Add("rediss+sentinel://a,b:2/limits/4")
	f.Add("redis+cluster://[::1]:7,b")
	f.Fuzz(func(t *testing.T, s string) {
		o, err := ParseURL(s)
		if err != nil {
			return
		}
		if len(o.Addrs) == 0 || o.DB < 0 || o.DB > 9999 || o.IsClusterMode && o.MasterName != "" {
			t.Errorf("%q: %+v", s, o)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add("1 0 100 0 3 5")
	f.Add("1 0")
	f.Add("-1 9223372036854775807 1e9")
	m := meterOf(f, per(10, time.Second, 5))
	f.Fuzz(func(t *testing.T, reply string) {
		q := &question{items: []item{{meter: m}, {meter: m}}}
		if decode(reply, []*question{q}) != nil {
			return
		}
		for _, it := range q.items {
			if it.lease < 0 || it.debt < 0 || it.debt > 1<<53 {
				t.Errorf("%q: %+v", reply, it)
			}
		}
	})
}

// What the configuration and the guide say of memory.
func TestMemoryOfAKey(t *testing.T) {
	const keys = 1 << 18
	m := newMemory(keys, time.Second.Microseconds())
	bytes := 0
	for i := range m.shards {
		s := &m.shards[i]
		bytes += cap(s.names)*8 + cap(s.entries)*int(unsafe.Sizeof(entry{})) + cap(s.due)*4
	}
	if per := float64(bytes) / keys; per != 124 {
		t.Errorf("%v bytes a key, want 124", per)
	}
}
