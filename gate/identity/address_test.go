package identity

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func prefixes(list ...string) []netip.Prefix {
	ps := make([]netip.Prefix, len(list))
	for i, s := range list {
		ps[i] = netip.MustParsePrefix(s)
	}
	return ps
}

func behindProxies(tb testing.TB) *Identifier {
	return mustNew(tb, Config{TrustedProxies: prefixes("10.0.0.0/8", "fd00::/8", "::ffff:172.16.0.0/108")}, nil)
}

// cases/proxy.md 20: the right-most hop that is not a trusted proxy.
func TestCase_Proxy_B20_RightmostUntrustedHop(t *testing.T) {
	id := behindProxies(t)
	for _, tc := range []struct {
		remote string
		xff    []string
		want   string
	}{
		{"10.0.0.1", []string{"6.6.6.6, 10.0.0.9"}, "6.6.6.6"},
		{"10.0.0.1", []string{"9.9.9.9, 6.6.6.6, 10.0.0.9"}, "6.6.6.6"},
		{"10.0.0.1", []string{"9.9.9.9", "6.6.6.6", "10.0.0.9"}, "6.6.6.6"}, // three lines are one list
		{"10.0.0.1", []string{"9.9.9.9,6.6.6.6", "10.0.0.9"}, "6.6.6.6"},
		{"6.6.6.6", []string{"9.9.9.9"}, "6.6.6.6"}, // the peer itself is not trusted
		{"10.0.0.1", nil, "10.0.0.1"},
		{"10.0.0.1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"}, // trusted throughout
		{"10.0.0.1", []string{"", "6.6.6.6, ,", ", 10.0.0.9"}, "6.6.6.6"},
		{"10.0.0.1", []string{"6.6.6.6:4711"}, "6.6.6.6"},
		{"10.0.0.1", []string{"2001:db8::1"}, "2001:db8::1"},
		{"10.0.0.1", []string{"[2001:db8::1]:443"}, "2001:db8::1"},
		{"10.0.0.1", []string{"[2001:db8::1]"}, "2001:db8::1"},
		{"10.0.0.1", []string{"fe80::1%eth0"}, "fe80::1"},
		{"fd00::1%eth0", []string{"6.6.6.6"}, "6.6.6.6"},
		{"::ffff:10.0.0.1", []string{"6.6.6.6"}, "6.6.6.6"},
		{"172.16.5.5", []string{"6.6.6.6"}, "6.6.6.6"},
		// What cannot be read ends the walk at the hop that reported it.
		{"10.0.0.1", []string{"6.6.6.6, unknown, 10.0.0.9"}, "10.0.0.9"},
		{"10.0.0.1", []string{"6.6.6.6, _hidden"}, "10.0.0.1"},
		{"10.0.0.1", []string{"6.6.6.6, 1.2.3"}, "10.0.0.1"},
		{"10.0.0.1", []string{"6.6.6.6:"}, "10.0.0.1"},
		{"10.0.0.1", []string{"6.6.6.6:port"}, "10.0.0.1"},
		{"10.0.0.1", []string{"[6.6.6.6]"}, "10.0.0.1"},
		{"10.0.0.1", []string{"[2001:db8::1"}, "10.0.0.1"},
		{"10.0.0.1", []string{strings.Repeat("1", 70)}, "10.0.0.1"},
	} {
		h := http.Header{}
		if tc.xff != nil {
			h["X-Forwarded-For"] = tc.xff
		}
		if got := id.ClientAddr(netip.MustParseAddr(tc.remote), h); got != netip.MustParseAddr(tc.want) {
			t.Errorf("%s %q: %v, want %s", tc.remote, tc.xff, got, tc.want)
		}
	}
	if got := id.ClientAddr(netip.Addr{}, http.Header{"X-Forwarded-For": {"6.6.6.6"}}); got.IsValid() {
		t.Errorf("without a peer: %v", got)
	}
}

func TestForwarded(t *testing.T) {
	id := behindProxies(t)
	for _, tc := range []struct {
		forwarded []string
		want      string
	}{
		{[]string{`for=6.6.6.6`}, "6.6.6.6"},
		{[]string{`for=9.9.9.9, for=6.6.6.6;proto=https;by=10.0.0.2, for=10.0.0.9`}, "6.6.6.6"},
		{[]string{`for=9.9.9.9`, `For="6.6.6.6:4711" , `, `FOR=10.0.0.9`}, "6.6.6.6"},
		{[]string{`proto=http;host="a,b;for=9.9.9.9";for="[2001:db8::1]:443"`}, "2001:db8::1"},
		{[]string{`for="[2001:db8::1]:_port"`}, "2001:db8::1"},
		{[]string{`for=10.0.0.5, for=10.0.0.9`}, "10.0.0.5"},
		// An open quote on the left must not swallow what a proxy appended.
		{[]string{`for="x, for=6.6.6.6`}, "6.6.6.6"},
		{[]string{`for=9.9.9.9;x="`, `for=6.6.6.6`}, "6.6.6.6"},
		{[]string{`for="9.9.9.9, for="6.6.6.6"`}, "6.6.6.6"},
		{[]string{`for="a\", for=6.6.6.6`}, "6.6.6.6"}, // never reached
		{[]string{`for="\6.6.6.6"`}, "10.0.0.1"},
		// Nothing to read in the last element.
		{[]string{`for=6.6.6.6, for=unknown`}, "10.0.0.1"},
		{[]string{`for=6.6.6.6, for=_gazonk, for=10.0.0.9`}, "10.0.0.9"},
		{[]string{`for=6.6.6.6, proto=https`}, "10.0.0.1"},
		{[]string{`for=6.6.6.6;for=9.9.9.9`}, "10.0.0.1"},
		{[]string{`for=`}, "10.0.0.1"},
		{[]string{`for=6.6.6.6;x="` + strings.Repeat("y", 2000) + `"`}, "10.0.0.1"},
	} {
		if got := id.ClientAddr(netip.MustParseAddr("10.0.0.1"), http.Header{"Forwarded": tc.forwarded}); got != netip.MustParseAddr(tc.want) {
			t.Errorf("%q: %v, want %s", tc.forwarded, got, tc.want)
		}
	}
}

// Two stories: a proxy that writes one header passes the client's other one on.
func TestContradictingChains(t *testing.T) {
	id := behindProxies(t)
	peer := netip.MustParseAddr("10.0.0.1")
	both := http.Header{"X-Forwarded-For": {"6.6.6.6, 10.0.0.9"}, "Forwarded": {"for=6.6.6.6"}}
	if got := id.ClientAddr(peer, both); got != netip.MustParseAddr("6.6.6.6") {
		t.Errorf("agreeing: %v", got)
	}
	both.Set("Forwarded", "for=9.9.9.9")
	if got := id.ClientAddr(peer, both); got != peer {
		t.Errorf("contradicting: %v", got)
	}
}

func TestHostileChains(t *testing.T) {
	id := behindProxies(t)
	peer := netip.MustParseAddr("10.0.0.1")
	for name, h := range map[string]http.Header{
		"many trusted hops": {"X-Forwarded-For": {"9.9.9.9" + strings.Repeat(", 10.0.0.9", 100_000)}},
		"many empty hops":   {"X-Forwarded-For": {"9.9.9.9" + strings.Repeat(",", 100_000)}},
		"many lines":        {"X-Forwarded-For": append([]string{"9.9.9.9"}, make([]string, 100_000)...)},
		"many elements":     {"Forwarded": {"for=9.9.9.9" + strings.Repeat(", for=10.0.0.9", 100_000)}},
		"quotes":            {"Forwarded": {strings.Repeat(`"`, 100_001)}},
		"semicolons":        {"Forwarded": {strings.Repeat(`;`, 100_000)}},
	} {
		got := id.ClientAddr(peer, h)
		if name != "many lines" && !id.Trusted(got) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// cases/proxy.md 22: one /64 is one client, and a mapped address is IPv4.
func TestCase_Proxy_B22_AddressesOfOneClient(t *testing.T) {
	id := mustNew(t, Config{}, nil)
	wide := mustNew(t, Config{Identify: []Source{{Kind: KindNetwork, IPv4: 16, IPv6: 56}}}, nil)
	narrow := mustNew(t, Config{Identify: []Source{{Kind: KindNetwork, IPv6: 128}}}, nil)
	for _, tc := range []struct {
		id            *Identifier
		a, b          string
		key, networks bool // same key, same network
	}{
		{id, "2001:db8::1", "2001:db8::ffff:1:2", true, true},
		{id, "2001:db8::1", "2001:db8:0:1::1", false, false},
		{id, "::ffff:1.2.3.4", "1.2.3.4", true, true},
		{id, "fe80::1%eth0", "fe80::1%eth1", true, true},
		{id, "1.2.3.4", "1.2.3.5", false, true},
		{id, "1.2.3.4", "1.2.4.4", false, false},
		{id, "1.2.3.4", "::1.2.3.4", false, false},
		{wide, "2001:db8:0:12::1", "2001:db8:0:ff::1", true, true},
		{wide, "2001:db8:0:12::1", "2001:db8:0:1ff::1", false, false},
		{wide, "1.2.3.4", "1.2.9.9", true, true},
		{narrow, "2001:db8::1", "2001:db8::2", false, true},
	} {
		a, b := identify(tc.id, request(tc.a)), identify(tc.id, request(tc.b))
		if (a.Key == b.Key) != tc.key || (a.Network == b.Network) != tc.networks {
			t.Errorf("%s and %s: %+v, %+v", tc.a, tc.b, a, b)
		}
	}
	claimed := identify(id, request("1.2.3.4", "X-Api-Key", "k"))
	if claimed.Network != identify(id, request("1.2.3.99")).Network {
		t.Error("a claimed identity does not count in its network")
	}
	if c := identify(id, request("::ffff:1.2.3.4")); c.Addr != netip.MustParseAddr("1.2.3.4") {
		t.Errorf("address %v", c.Addr)
	}
}

func TestPrefixSet(t *testing.T) {
	set, err := newPrefixSet(prefixes("10.1.0.0/16", "10.0.0.0/8", "10.255.0.0/16", "192.0.2.128/25", "2001:db8::/33", "11.0.0.0/32"))
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]bool{
		"9.255.255.255": false, "10.0.0.0": true, "10.255.255.255": true, "11.0.0.0": true, "11.0.0.1": false,
		"192.0.2.127": false, "192.0.2.128": true, "192.0.2.255": true, "192.0.3.0": false, "0.0.0.0": false, "255.255.255.255": false,
		"2001:db8::": true, "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff": true, "2001:db8:8000::": false, "::": false,
	} {
		if got := set.contains(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
}

// FuzzXFF holds the walk against the rule of case 20, read the slow way.
func FuzzXFF(f *testing.F) {
	for _, s := range []string{"6.6.6.6, 10.0.0.9", "9.9.9.9\n6.6.6.6", "[::1]:80", ",,", "1.2.3.4:5, unknown", "::ffff:10.0.0.1", "fe80::1%a"} {
		f.Add(s)
	}
	id := behindProxies(f)
	peer := netip.MustParseAddr("10.0.0.1")
	f.Fuzz(func(t *testing.T, s string) {
		lines := strings.Split(s, "\n")
		got := id.ClientAddr(peer, http.Header{"X-Forwarded-For": lines})
		want, hops := peer, strings.Split(strings.Join(lines, ","), ",")
		if len(hops) > maxHops {
			return // bounded, see TestHostileChains
		}
		for _, hop := range slices.Backward(hops) {
			hop = strings.Trim(hop, " \t")
			if hop == "" {
				continue
			}
			a, ok := parseHop(hop)
			if !ok {
				break
			}
			if want = a; !id.Trusted(a) {
				break
			}
		}
		if got != want || !got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Errorf("%q: %v, want %v", lines, got, want)
		}
	})
}

// FuzzForwarded: whatever a client sends, what the trusted proxy appends decides.
func FuzzForwarded(f *testing.F) {
	for _, s := range []string{"for=9.9.9.9", `for="`, `for="\`, `;;=`, `for="[::1]:80";by=_x`, `x="a,b", for=10.0.0.3`} {
		f.Add(s)
	}
	id := behindProxies(f)
	peer := netip.MustParseAddr("10.0.0.1")
	f.Fuzz(func(t *testing.T, s string) {
		got := id.ClientAddr(peer, http.Header{"Forwarded": {s}})
		if !got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Errorf("%q: %v", s, got)
		}
		for _, own := range []string{`for=6.6.6.6`, `proto=https;for="6.6.6.6:80"`} {
			if got := id.ClientAddr(peer, http.Header{"Forwarded": {s + ", " + own}}); got != netip.MustParseAddr("6.6.6.6") {
				t.Errorf("%q before %q: %v", s, own, got)
			}
		}
	})
}
