package identity

import (
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// spoofed is everything by which a stranger might pass for another.
var spoofed = []string{
	"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "X-Forwarded-Port", "X-Forwarded-Uri",
	"X-Forwarded-Client-Cert", "X-Forwarded", "X-Real-Ip", "Forwarded", "Forwarded-For", "X-Client-Ip", "X-Client-Id", "Client-Ip",
	"True-Client-Ip", "Cf-Connecting-Ip", "Fastly-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Url", "X-Original-Forwarded-For",
	"X-Rewrite-Url", "X-Remote-Addr", "X-Originating-Ip", "X-Via",
}

var innocent = []string{
	"Accept", "Content-Type", "Cookie", "Cache-Control", "Via", "X-Forward", "X-Api-Key", "X-Request-Id", "Connection", "From", "Te",
	"Transfer-Encoding", "Traceparent", "Client-Version", "Retry-Ticket", "Forwarded-By-Hand", "Compost",
}

func headersNamed(lists ...[]string) http.Header {
	h := http.Header{}
	for _, name := range slices.Concat(lists...) {
		h[name] = []string{"6.6.6.6"}
	}
	return h
}

func remaining(h http.Header) []string { return slices.Sorted(maps.Keys(h)) }

// cases/proxy.md 17: what an untrusted peer says of forwarding is deleted.
func TestCase_Proxy_B17_StrangersForwardNothing(t *testing.T) {
	id := mustNew(t, Config{}, nil)
	h := headersNamed(spoofed, innocent, []string{"Comporta-Decision", "COMPORTA-X", "x-forwarded-for", ""})
	id.Clean(h, false)
	if got, want := remaining(h), slices.Sorted(slices.Values(append(slices.Clone(innocent), ""))); !slices.Equal(got, want) {
		t.Errorf("left %q\nwant %q", got, want)
	}
	h = headersNamed(spoofed, innocent, []string{"Comporta-Decision"})
	id.Clean(h, true)
	if got, want := remaining(h), slices.Sorted(slices.Values(slices.Concat(spoofed, innocent))); !slices.Equal(got, want) {
		t.Errorf("of a trusted peer: left %q\nwant %q", got, want)
	}
}

// cases/proxy.md 18: the same with underscores, which CGI folds to dashes; also
// of a trusted peer, since proxies do not write them but pass them on.
func TestCase_Proxy_B18_Underscores(t *testing.T) {
	id := mustNew(t, Config{}, nil)
	var under []string
	for _, name := range append(slices.Clone(spoofed), "Comporta-Decision", "X-Api-Key", "Retry-Ticket") {
		if u := strings.ReplaceAll(name, "-", "_"); u != name {
			under = append(under, u, http.CanonicalHeaderKey(u), strings.Replace(name, "-", "_", 1))
		}
	}
	for _, trusted := range []bool{false, true} {
		h := headersNamed(under, []string{"X_forwarded_for"})
		id.Clean(h, trusted)
		for _, name := range remaining(h) {
			if !strings.HasPrefix(strings.ToLower(name), "retry") { // no forwarding header, no credential
				t.Errorf("trusted %v: left %q", trusted, name)
			}
		}
	}
}

// The short look at letter and length passes over none of the names, however long.
func TestEveryListedNameIsDeleted(t *testing.T) {
	id := mustNew(t, Config{}, nil)
	names := []string{ownPrefix, ownPrefix + "x", ownPrefix + strings.Repeat("x", 100)}
	for _, p := range forwardingPrefixes {
		names = append(names, p, p+"x", p+strings.Repeat("x", 50), p+strings.Repeat("x", 100))
	}
	for _, list := range forwardingNames {
		names = append(names, list...)
	}
	h := headersNamed(names)
	for _, name := range names {
		h[strings.ToUpper(name)] = nil
	}
	id.Clean(h, false)
	if len(h) != 0 || len(names) < 20 {
		t.Errorf("left %q of %d", remaining(h), len(names))
	}
}

func TestConfiguredCredentialsStay(t *testing.T) {
	id := mustNew(t, Config{Identify: []Source{{Kind: KindHeader, Header: "x-client-id"}, {Kind: KindHeader, Header: "X_Tenant"}}}, nil)
	h := headersNamed([]string{"X-Client-Id", "X_client_id", "X_tenant", "X-Tenant", "X-Client-Ip"})
	id.Clean(h, false)
	if got, want := remaining(h), []string{"X-Client-Id", "X-Tenant", "X_tenant"}; !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
}

// A dash and an underscore are one letter, also where a name begins with it.
func TestAliasesOfOddCredentials(t *testing.T) {
	long := "X-" + strings.Repeat("Key-", 20)
	id := mustNew(t, Config{Identify: []Source{{Kind: KindHeader, Header: "-Tenant"}, {Kind: KindHeader, Header: "1-Key"}, {Kind: KindHeader, Header: long}}}, nil)
	h := headersNamed([]string{"-Tenant", "_Tenant", "_tenant", "1-Key", "1_Key", strings.ReplaceAll(long, "-", "_"), "_other", "1-Kez"})
	id.Clean(h, true)
	if got, want := remaining(h), []string{"-Tenant", "1-Kez", "1-Key", "_other"}; !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("left %q, want %q", got, want)
	}
}

func TestCleanAllocatesNothing(t *testing.T) {
	id := mustNew(t, Config{}, nil)
	h := tenHeaders()
	n := testing.AllocsPerRun(100, func() {
		h["X-Forwarded-For"] = nil
		id.Clean(h, false)
	})
	if n != 0 || len(h) != 10 {
		t.Errorf("%v allocations, %d headers", n, len(h))
	}
}

func TestWriteForwarded(t *testing.T) {
	const v4, proxy = "6.6.6.6", "10.0.0.1"
	for _, tc := range []struct {
		name   string
		before http.Header
		hop    Hop
		want   [4]string // For, Host, Proto, Real-Ip
	}{
		{"stranger", nil, Hop{Host: "a.example:8080"}, [4]string{v4, "a.example:8080", "http", v4}},
		{"stranger over TLS", nil, Hop{Host: "a.example", TLS: true}, [4]string{v4, "a.example", "https", v4}},
		{"stranger's leftovers", http.Header{"X-Forwarded-For": {"9.9.9.9"}, "X-Forwarded-Host": {"evil"}, "X-Forwarded-Proto": {"https"}, "X-Real-Ip": {"9.9.9.9"}, "Forwarded": {"for=9.9.9.9"}},
			Hop{Host: "a.example"}, [4]string{v4, "a.example", "http", v4}},
		{"trusted chain", http.Header{"X-Forwarded-For": {"9.9.9.9", "6.6.6.6"}, "X-Forwarded-Host": {"a.example"}, "X-Forwarded-Proto": {"HTTPS"}},
			Hop{Trusted: true, Host: "inner"}, [4]string{"9.9.9.9, 6.6.6.6, " + proxy, "a.example", "https", v4}},
		{"trusted, Forwarded only", http.Header{"Forwarded": {"for=6.6.6.6"}}, Hop{Trusted: true, Host: "inner"}, [4]string{v4 + ", " + proxy, "inner", "http", v4}},
		{"trusted, nonsense", http.Header{"X-Forwarded-Proto": {"javascript"}, "X-Forwarded-Host": {"a", "b"}}, Hop{Trusted: true, Host: "inner"}, [4]string{v4 + ", " + proxy, "inner", "http", v4}},
	} {
		h := tc.before
		if h == nil {
			h = http.Header{}
		}
		tc.hop.Client, tc.hop.Remote = netip.MustParseAddr(v4), netip.MustParseAddr(v4)
		if tc.hop.Trusted {
			tc.hop.Remote = netip.MustParseAddr("::ffff:" + proxy)
		}
		WriteForwarded(h, tc.hop)
		for i, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"} {
			if got := h[name]; len(got) != 1 || got[0] != tc.want[i] {
				t.Errorf("%s: %s: %q, want %q", tc.name, name, got, tc.want[i])
			}
		}
		if _, ok := h["Forwarded"]; ok {
			t.Errorf("%s: Forwarded is sent on", tc.name)
		}
	}
	h := http.Header{"X-Forwarded-For": {"9.9.9.9"}, "X-Real-Ip": {"9.9.9.9"}}
	WriteForwarded(h, Hop{Host: "a.example"})
	if len(h) != 2 {
		t.Errorf("without any address: %v", h)
	}
}
