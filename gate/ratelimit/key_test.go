package ratelimit

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

func mustKey(t testing.TB, parts ...string) Key {
	t.Helper()
	k, err := ParseKey(parts...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func request(edit func(*comporta.Request)) *comporta.Request {
	r := from("192.0.2.1")
	r.Client.Key, r.Client.Network, r.Client.Class = 11, 12, comporta.ClassProven
	r.Header = http.Header{"X-Tenant": {"acme"}, "User-Agent": {"curl/8"}}
	r.Version = comporta.ClientVersion{Name: "acme-go", Major: 2}
	edit(r)
	return r
}

func TestKeysTellApartWhatTheyName(t *testing.T) {
	same := func(*comporta.Request) {}
	for _, tc := range []struct {
		key    string
		a, b   func(*comporta.Request)
		shared bool
	}{
		{"client", same, same, true},
		{"client", same, func(r *comporta.Request) { r.Client.Key = 13 }, false},
		{"client", same, func(r *comporta.Request) { r.Path = "/other" }, true},
		{"client", func(r *comporta.Request) { r.Client.Key = 0 }, func(r *comporta.Request) { r.Client.Key, r.Client.Addr = 0, netip.MustParseAddr("192.0.2.2") }, false},
		{"header:x-tenant", same, same, true},
		{"header:x-tenant", same, func(r *comporta.Request) { r.Header = http.Header{"X-Tenant": {"acme2"}} }, false},
		// Missing, empty or twice: the next alternative, here the network.
		{"header:x-tenant", func(r *comporta.Request) { r.Header = nil }, func(r *comporta.Request) { r.Header = http.Header{"X-Tenant": {""}} }, true},
		{"header:x-tenant", func(r *comporta.Request) { r.Header = nil }, func(r *comporta.Request) { r.Header = http.Header{"X-Tenant": {"a", "b"}} }, true},
		{"header:x-tenant", func(r *comporta.Request) { r.Header = nil }, func(r *comporta.Request) { r.Header, r.Client.Addr = nil, netip.MustParseAddr("192.0.2.2") }, false},
		{"header:x-tenant|client", func(r *comporta.Request) { r.Header = nil }, func(r *comporta.Request) { r.Header, r.Client.Addr = nil, netip.MustParseAddr("192.0.2.2") }, true},
		{"version", same, func(r *comporta.Request) { r.Version.Minor = 1 }, false},
		{"fingerprint", same, func(r *comporta.Request) { r.Header.Set("Accept-Language", "pt") }, false},
		{"class", same, func(r *comporta.Request) { r.Client.Class = comporta.ClassVerified }, false},
		{"method", same, func(r *comporta.Request) { r.Method = "POST" }, false},
		{"host", same, func(r *comporta.Request) { r.Host = "b.example" }, false},
		// cases/proxy.md 38: nothing is cut.
		{"path", func(r *comporta.Request) { r.Path = "/" + strings.Repeat("a", 5000) + "1" }, func(r *comporta.Request) { r.Path = "/" + strings.Repeat("a", 5000) + "2" }, false},
		{"network", same, func(r *comporta.Request) { r.Client.Addr = netip.MustParseAddr("192.0.2.2") }, false},
		{"network/24/64", same, func(r *comporta.Request) { r.Client.Addr = netip.MustParseAddr("192.0.2.2") }, true},
		{"subnet", same, func(r *comporta.Request) { r.Client.Addr = netip.MustParseAddr("192.0.2.2") }, true},
		{"subnet", same, func(r *comporta.Request) { r.Client.Addr = netip.MustParseAddr("192.0.3.1") }, false},
	} {
		k := mustKey(t, tc.key)
		a, b := k.AppendTo(nil, request(tc.a), "r"), k.AppendTo(nil, request(tc.b), "r")
		if bytes.Equal(a, b) != tc.shared {
			t.Errorf("%s: %x and %x; shared should be %v", tc.key, a, b, tc.shared)
		}
	}
}

// Parts that could be read together otherwise stay apart.
func TestKeysArePrefixedByLength(t *testing.T) {
	k := mustKey(t, "header:A", "header:B")
	// What stands between the two values, were it not for the lengths.
	between := string([]byte{byte(byHeader), 'B', byte(byHeader)})
	a := request(func(r *comporta.Request) { r.Header = http.Header{"A": {"x" + between + "y"}, "B": {"z"}} })
	b := request(func(r *comporta.Request) { r.Header = http.Header{"A": {"x"}, "B": {"y" + between + "z"}} })
	if bytes.Equal(k.AppendTo(nil, a, ""), k.AppendTo(nil, b, "")) {
		t.Error("two pairs of values share a key")
	}
	if bytes.Equal(mustKey(t, "header:A").AppendTo(nil, a, ""), mustKey(t, "header:B").AppendTo(nil, request(func(r *comporta.Request) {
		r.Header = http.Header{"B": a.Header["A"]}
	}), "")) {
		t.Error("two headers of one value share a key")
	}
}

func TestParseKeyReportsEveryProblem(t *testing.T) {
	_, err := ParseKey("cliente", "header:", "header:a b", "network/33/64", "network/24/129", "network/24", "client|")
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{`"cliente"`, `key "header:"`, `"a b"`, "network/33/64", "network/24/129", `"network/24"`, `"client|"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s:\n%v", want, err)
		}
	}
}

// cases/ratelimit.md 28
func TestCase_RateLimit_28_IPv6(t *testing.T) {
	l := newLimiter(t, newTable(t), Rule{Name: "r", Key: mustKey(t, "network"), Limit: perSecond(10, 10)})
	passed := 0
	for i := 1; i <= 0xffff; i += 101 {
		n, _ := ask(l, t0, from("2001:db8:1:2::"+hex(i)), 1)
		passed += n
	}
	if passed != 10 {
		t.Errorf("one /64: %d passed, want 10", passed)
	}
	// The /48 around it gets sixteen times as much, whatever it has of /64s.
	for i := range 1000 {
		n, _ := ask(l, t0, from("2001:db8:1:"+hex(i+16)+"::1"), 1)
		passed += n
	}
	if passed != 160 {
		t.Errorf("one /48: %d passed, want 160", passed)
	}
	passed = 0
	for _, a := range []string{"::ffff:1.2.3.4", "::ffff:102:304", "1.2.3.4"} {
		n, _ := ask(l, t0, from(a), 5)
		passed += n
	}
	if passed != 10 {
		t.Errorf("three spellings of one IPv4 address: %d passed, want 10", passed)
	}
	if n, _ := ask(l, t0, from("::ffff:1.2.3.5"), 20); n != 10 {
		t.Errorf("another mapped address: %d passed, want 10: it is not one bucket for all of IPv4", n)
	}
}

func hex(n int) string {
	const digits = "0123456789abcdef"
	if n < 16 {
		return digits[n : n+1]
	}
	return hex(n/16) + digits[n%16:n%16+1]
}

// cases/ratelimit.md 28
func TestCase_RateLimit_28_Addresses(t *testing.T) {
	for s, want := range map[string]string{
		"1.2.3.4": "1.2.3.4", "1.2.3.4:80": "1.2.3.4", "[::1]:443": "::1", "::1": "::1", "[::1]": "::1",
		"fe80::1%eth0": "fe80::1", "[fe80::1%eth0]:80": "fe80::1", "::ffff:1.2.3.4": "1.2.3.4", "[::ffff:102:304]:1": "1.2.3.4",
		"": "", "@": "", "garbage": "", "1.2.3": "", "[": "", "[]": "", "1.2.3.4:99999": "", "pipe": "",
	} {
		got := ""
		if a, ok := ParseAddr(s); ok {
			got = a.String()
		}
		if got != want {
			t.Errorf("ParseAddr(%q) = %q, want %q", s, got, want)
		}
	}
	// What is no address is told apart all the same.
	l := newLimiter(t, newTable(t), Rule{Name: "r", Key: mustKey(t, "network"), Limit: perSecond(1, 1)})
	for _, peer := range []string{"garbage", "@", "", "pipe"} {
		var v Verdict
		for i, want := range []bool{true, false} {
			var r comporta.Request
			Describe(&http.Request{RemoteAddr: peer, URL: mustURL(t, "/")}, &r)
			if got := l.TakeAt(context.Background(), t0, &r, &v); got != want {
				t.Errorf("peer %q, call %d: %v", peer, i, got)
			}
		}
	}
}

func FuzzParseAddr(f *testing.F) {
	for _, s := range []string{"1.2.3.4:80", "[fe80::1%eth0]:443", "::ffff:1.2.3.4", "[", "]", "%", "a%b:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, ok := ParseAddr(s)
		if ok != a.IsValid() || a.Zone() != "" || a.Is4In6() {
			t.Errorf("ParseAddr(%q) = %v, %v", s, a, ok)
		}
		if networks, err := ParseNetworks(s); err == nil && (!networks[0].IsValid() || networks[0] != networks[0].Masked()) {
			t.Errorf("ParseNetworks(%q) = %v", s, networks)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"client", "header:X-A|client", "network/24/64", "subnet", "header:", "|", "network/9999999999999999999/1"} {
		f.Add(s, "x", "1.2.3.4")
	}
	f.Fuzz(func(t *testing.T, text, value, addr string) {
		k, err := ParseKey(text)
		if err != nil {
			return
		}
		r := comporta.Request{Header: http.Header{"X-A": {value}, "User-Agent": {value}}, Path: value, Method: value, Host: value}
		r.Remote, _ = ParseAddr(addr)
		if len(k.AppendTo(nil, &r, "route")) == 0 {
			t.Errorf("%q: an empty key", text)
		}
	})
}

func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"100/s", "5/10m", "0/d", "1000000000000000/s", "-1/s", "1/366d", "1/367d", "٣/s", "/", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRate(s)
		if err != nil {
			return
		}
		again, err := ParseRate(r.String())
		if err != nil || again != r {
			t.Errorf("%q is %v, which reads as %v, %v", s, r, again, err)
		}
		l := Limit{Rate: r}
		if l.check() != nil {
			return
		}
		p := newPlan(l)
		for _, n := range []int64{1, p.burst} {
			if r.Count > 0 && p.judge(stampOf(t0), 0, n).wait != 0 {
				t.Errorf("%v: a fresh key is denied %d of its burst of %d", r, n, p.burst)
			}
		}
	})
}

// cases/proxy.md 38: a key is never cut. Paths that agree in their first thousands
// of bytes, and parts whose bytes only seem to be the same side by side, have
// buckets of their own.
func TestCase_Proxy_D38_KeysAreNeverTruncated(t *testing.T) {
	byPath, err := ParseKey("path", "header:X-Tenant")
	if err != nil {
		t.Fatal(err)
	}
	l := newLimiter(t, newTable(t), Rule{Name: "r", Key: byPath, Limit: Limit{Rate: Rate{1, time.Hour}}, NoAggregates: true})
	long := "/" + strings.Repeat("a", 8000)
	for _, c := range []struct{ path, tenant string }{
		{long + "1", "t"}, {long + "2", "t"}, {long, "t"}, {"/a", "bc"}, {"/ab", "c"}, {"/abc", ""}, {"/a", "b"}, {"/a", "b|c"}, {"/a|b", "c"},
		{"/orders1", "t"}, {"/orders2", "t"}, {"/orders12", "t"},
	} {
		r := known(1)
		r.Path = c.path
		r.Header = http.Header{"X-Tenant": {c.tenant}}
		if passed, _ := ask(l, t0, r, 2); passed != 1 {
			t.Errorf("%.20s (%d bytes), %q: %d of 2 passed, want 1 of its own", c.path, len(c.path), c.tenant, passed)
		}
	}
}

// cases/proxy.md 38: what is refused does not extend the wait, unless the rule
// says so.
func TestCase_Proxy_D38_RefusalsExtendNothing(t *testing.T) {
	for _, penalty := range []bool{false, true} {
		l := newLimiter(t, newTable(t), Rule{Name: "r", Limit: perSecond(1, 2), NoAggregates: true, Penalty: penalty})
		ask(l, t0, known(1), 2)
		_, v := ask(l, t0, known(1), 1)
		if v.Wait != time.Second && !penalty {
			t.Fatalf("the first refusal says %v", v.Wait)
		}
		free := t0.Add(time.Second)
		for i := range 9 {
			ask(l, t0.Add(time.Duration(i+1)*100*time.Millisecond), known(1), 1)
		}
		if passed, _ := ask(l, free, known(1), 1); (passed == 1) == penalty {
			t.Errorf("penalty %t: %d passed at the instant that was told", penalty, passed)
		}
	}
}

// cases/proxy.md 38: keys of path and address share no bucket as long as there is
// room for them. 54 bits tell keys apart, so that two of 20,000 are taken for one
// with a probability of 1 in 90 million.
func TestCase_Proxy_D38_PathsOfAddressesShareNothing(t *testing.T) {
	key, err := ParseKey("path", "network")
	if err != nil {
		t.Fatal(err)
	}
	table, err := NewTable(1 << 17)
	if err != nil {
		t.Fatal(err)
	}
	l := newLimiter(t, table, Rule{Name: "r", Key: key, Limit: Limit{Rate: Rate{1, time.Hour}}, NoAggregates: true})
	for path := range 100 {
		for host := range 200 {
			r := from(fmt.Sprintf("198.51.100.%d", host))
			r.Path = fmt.Sprintf("/p%d", path)
			if passed, _ := ask(l, t0, r, 1); passed != 1 {
				t.Fatalf("path %d of address %d shares a bucket", path, host)
			}
		}
	}
}
