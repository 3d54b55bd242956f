package identity

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

var (
	noon    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	testKey = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
)

// tokens is a Verifier that knows its tokens: token to subject.
type tokens map[string]string

func (v tokens) VerifyAt(_ time.Time, token string) (string, bool) {
	subject, ok := v[token]
	return subject, ok
}

func mustNew(tb testing.TB, c Config, p *Proven) *Identifier {
	tb.Helper()
	if c.HashKey == [16]byte{} {
		c.HashKey = testKey
	}
	id, err := New(c, p)
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

// request makes a request from an address, with header pairs.
func request(addr string, pairs ...string) *comporta.Request {
	r := &comporta.Request{Header: http.Header{}}
	if addr != "" {
		r.Remote = netip.MustParseAddr(addr)
	}
	for i := 0; i < len(pairs); i += 2 {
		r.Header.Add(pairs[i], pairs[i+1])
	}
	return r
}

func identify(id *Identifier, r *comporta.Request) comporta.Client {
	id.IdentifyAt(noon, r)
	return r.Client
}

func basic(userPassword string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(userPassword))
}

// allSources has one source of each kind before the network.
func allSources() []Source {
	return []Source{
		{Kind: KindMTLS},
		{Kind: KindJWT, Issuer: "https://issuer.example", Verifier: tokens{"good": "ana", "nobody": ""}},
		{Kind: KindBasic},
		{Kind: KindHeader, Header: "x-api-key"},
		{Kind: KindHeader, Header: "X-Partner", Shared: true},
		{Kind: KindHeader, Header: "Authorization"},
		{Kind: KindNetwork},
	}
}

func TestFirstPresentSourceWins(t *testing.T) {
	id := mustNew(t, Config{Identify: allSources()}, nil)
	network := identify(id, request("192.0.2.1")).Key
	key := func(pairs ...string) uint64 { return identify(id, request("192.0.2.1", pairs...)).Key }
	apiKey, jwt := key("X-Api-Key", "k1"), key("Authorization", "Bearer good")
	for _, tc := range []struct {
		name   string
		pairs  []string
		key    uint64 // 0: any but those of the others
		class  comporta.Class
		shared bool
	}{
		{"nothing", nil, network, comporta.ClassAnonymous, true},
		{"header", []string{"X-Api-Key", "k1"}, apiKey, comporta.ClassAnonymous, false},
		{"white space is no credential", []string{"X-Api-Key", "  \t"}, network, comporta.ClassAnonymous, true},
		{"white space around it is not part of it", []string{"X-Api-Key", " k1\t"}, apiKey, comporta.ClassAnonymous, false},
		{"header twice is nobody", []string{"X-Api-Key", "k1", "X-Api-Key", "k2"}, network, comporta.ClassAnonymous, true},
		{"shared header", []string{"X-Partner", "p"}, 0, comporta.ClassAnonymous, true},
		{"verified token", []string{"Authorization", "Bearer good"}, jwt, comporta.ClassVerified, false},
		{"verified before claimed", []string{"X-Api-Key", "k1", "Authorization", "bEaReR   good"}, jwt, comporta.ClassVerified, false},
		{"unknown token is a claim", []string{"Authorization", "Bearer bad"}, 0, comporta.ClassAnonymous, false},
		{"unknown token falls to the next source", []string{"X-Api-Key", "k1", "Authorization", "Bearer bad"}, apiKey, comporta.ClassAnonymous, false},
		{"token without a subject", []string{"X-Api-Key", "k1", "Authorization", "Bearer nobody"}, apiKey, comporta.ClassAnonymous, false},
		{"basic", []string{"X-Api-Key", "k1", "Authorization", basic("ana:secret")}, 0, comporta.ClassAnonymous, false},
		{"basic without colon", []string{"X-Api-Key", "k1", "Authorization", basic("ana")}, apiKey, comporta.ClassAnonymous, false},
		{"basic that is none", []string{"X-Api-Key", "k1", "Authorization", "Basic %%%"}, apiKey, comporta.ClassAnonymous, false},
		{"bare authorization", []string{"Authorization", "opaque"}, 0, comporta.ClassAnonymous, false},
	} {
		c := identify(id, request("192.0.2.1", tc.pairs...))
		if tc.key != 0 && c.Key != tc.key {
			t.Errorf("%s: another key", tc.name)
		}
		if tc.key == 0 && (c.Key == network || c.Key == apiKey || c.Key == jwt) {
			t.Errorf("%s: the key of another identity", tc.name)
		}
		if c.Class != tc.class || c.Shared != tc.shared || c.Key == 0 || c.Network == 0 {
			t.Errorf("%s: %+v", tc.name, c)
		}
	}
}

// wire.md 1: never an empty key.
func TestNeverAnEmptyKey(t *testing.T) {
	id := mustNew(t, Config{}, nil)
	nowhere := identify(id, request(""))
	if nowhere.Key == 0 || nowhere.Network != nowhere.Key || nowhere.Class != comporta.ClassAnonymous || !nowhere.Shared {
		t.Errorf("no address: %+v", nowhere)
	}
	if c := identify(id, request("", "X-Api-Key", "")); c.Key != nowhere.Key {
		t.Error("an empty credential is an identity of its own")
	}
	if c := identify(id, request("0.0.0.0")); c.Key == nowhere.Key || c.Key == 0 {
		t.Error("the zero address is no address")
	}
	if c := identify(id, &comporta.Request{}); c.Key != nowhere.Key {
		t.Error("a request without a header has another key")
	}
}

// Keys are part of what replicas agree on: a change of these values splits a
// fleet in two while it is updated.
func TestKeysStayTheSame(t *testing.T) {
	id := mustNew(t, Config{Identify: allSources()}, nil)
	for _, tc := range []struct {
		want string
		r    *comporta.Request
	}{
		{"58161c27db995659", request("192.0.2.1")},
		{"68fe11ef8703b065", request("2001:db8::1")},
		{"675e06c00b015664", request("")},
		{"21bd859c8f8edffb", request("192.0.2.1", "X-Api-Key", "k1")},
		{"5f871466a91963f3", request("192.0.2.1", "Authorization", "Bearer t1")},
		{"7e68556b72542040", request("192.0.2.1", "Authorization", "Token t1")},
		{"c55a6e90b66ecc1a", request("192.0.2.1", "Authorization", basic("ana:secret"))},
		{"837e7a58e8cdcbd1", request("192.0.2.1", "Authorization", "Bearer good")},
	} {
		if got := KeyString(identify(id, tc.r).Key); got != tc.want {
			t.Errorf("%v %v: %s, want %s", tc.r.Remote, tc.r.Header, got, tc.want)
		}
	}
}

func TestOneCredentialOneKey(t *testing.T) {
	id := mustNew(t, Config{Identify: []Source{{Kind: KindHeader, Header: "Authorization"}}}, nil)
	key := func(v string) uint64 { return identify(id, request("192.0.2.1", "Authorization", v)).Key }
	for _, same := range [][]string{
		{"Bearer abc", "bearer abc", "BEARER   abc", " Bearer abc "},
		{"Token abc", "token abc", "TOKEN abc"},
		{basic("ana:secret"), strings.TrimRight(basic("ana:secret"), "="), "basic" + basic("ana:secret")[5:], "Basic YW5hOnNlY3JldB=="}, // the last: other unused bits
	} {
		for _, v := range same[1:] {
			if key(v) != key(same[0]) {
				t.Errorf("%q and %q are two identities", same[0], v)
			}
		}
	}
	seen := map[uint64]string{}
	for _, v := range []string{"Bearer abc", "Bearer ABC", "Token abc", "abc", "Bearer", "Basic abc", "Bearer Basic abc", basic("ana:secret"), basic("ana:other"), basic("an:asecret")} {
		if was, ok := seen[key(v)]; ok {
			t.Errorf("%q has the key of %q", v, was)
		}
		seen[key(v)] = v
	}
	raw := identify(id, request("192.0.2.1", "Authorization", basic("ana:secret"))).Key
	own := mustNew(t, Config{Identify: []Source{{Kind: KindBasic}}}, nil)
	if identify(own, request("192.0.2.1", "Authorization", basic("ana:secret"))).Key != raw {
		t.Error("Basic has two keys, by the way it is configured")
	}
	long := basic(strings.Repeat("u", 300) + ":" + strings.Repeat("p", 300))
	if key(long) == 0 || key(long) == key(basic(strings.Repeat("u", 300)+":"+strings.Repeat("q", 300))) {
		t.Error("long Basic credentials run together")
	}
}

func TestKeysNeedTheHashKey(t *testing.T) {
	r := request("192.0.2.1", "X-Api-Key", "k1")
	a, err := New(Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if identify(a, r) == identify(b, r) {
		t.Error("two random hash keys give one key")
	}
}

func TestCertificates(t *testing.T) {
	id := mustNew(t, Config{Identify: []Source{{Kind: KindMTLS}}}, NewProven(0))
	spiffe, err := url.Parse("spiffe://example.org/billing")
	if err != nil {
		t.Fatal(err)
	}
	with := func(verified bool, leaf *x509.Certificate) comporta.Client {
		r := request("192.0.2.1")
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
		if verified {
			r.TLS.VerifiedChains = [][]*x509.Certificate{{leaf}}
		}
		return identify(id, r)
	}
	network := identify(id, request("192.0.2.1")).Key
	uri := &x509.Certificate{URIs: []*url.URL{spiffe}, DNSNames: []string{"a.example"}, RawSubjectPublicKeyInfo: []byte("key one")}
	dns := &x509.Certificate{DNSNames: []string{"a.example"}, RawSubjectPublicKeyInfo: []byte("key one")}
	renewed := &x509.Certificate{DNSNames: []string{"a.example"}, RawSubjectPublicKeyInfo: []byte("key two")}
	mail := &x509.Certificate{EmailAddresses: []string{"a.example"}, RawSubjectPublicKeyInfo: []byte("key one")}
	name := &x509.Certificate{Subject: pkix.Name{CommonName: "a.example"}, RawSubjectPublicKeyInfo: []byte("key one")}
	bare := &x509.Certificate{RawSubjectPublicKeyInfo: []byte("key one")}

	seen := map[uint64]bool{network: true}
	for _, leaf := range []*x509.Certificate{uri, dns, mail, name, bare} {
		c := with(true, leaf)
		if c.Class != comporta.ClassVerified || c.Shared || seen[c.Key] {
			t.Errorf("%+v: %+v", leaf, c)
		}
		seen[c.Key] = true
	}
	if with(true, dns).Key != with(true, renewed).Key {
		t.Error("a renewed certificate is another client")
	}
	self := with(false, dns)
	if self.Class != comporta.ClassAnonymous || seen[self.Key] || self.Key == with(false, renewed).Key {
		t.Errorf("a certificate that anybody can make: %+v", self)
	}
	for _, empty := range []*tls.ConnectionState{nil, {}, {PeerCertificates: []*x509.Certificate{nil}}, {PeerCertificates: []*x509.Certificate{{}}}} {
		r := request("192.0.2.1")
		r.TLS = empty
		if c := identify(id, r); c.Key != network {
			t.Errorf("no certificate: %+v", c)
		}
	}
}

func TestClaimedBecomesProven(t *testing.T) {
	proven := NewProven(0)
	id := mustNew(t, Config{}, proven)
	ask := func(now time.Time, id *Identifier, r *comporta.Request) comporta.Class {
		id.IdentifyAt(now, r)
		return r.Client.Class
	}
	r := request("192.0.2.1", "X-Api-Key", "k1")
	if got := ask(noon, id, r); got != comporta.ClassAnonymous {
		t.Fatalf("before any answer: %v", got)
	}
	id.ProveAt(noon, r)
	reloaded := mustNew(t, Config{MinimumVersion: map[string]string{"a": "1"}}, proven)
	for _, tc := range []struct {
		after time.Duration
		want  comporta.Class
	}{
		{0, comporta.ClassProven},
		{24 * time.Hour, comporta.ClassProven},
		{24*time.Hour + time.Minute, comporta.ClassAnonymous},
		{-time.Hour, comporta.ClassProven}, // the clock stepped back
	} {
		if got := ask(noon.Add(tc.after), reloaded, r); got != tc.want {
			t.Errorf("after %v: %v, want %v", tc.after, got, tc.want)
		}
	}
	if got := ask(noon, id, request("192.0.2.1", "X-Api-Key", "invented")); got != comporta.ClassAnonymous {
		t.Errorf("an invented key: %v", got)
	}
	proven.Forget(r.Client.Key)
	if got := ask(noon, id, r); got != comporta.ClassAnonymous {
		t.Errorf("a forgotten key: %v", got)
	}
}

func TestNetworksAndVerifiedNeedNoProof(t *testing.T) {
	proven := NewProven(0)
	id := mustNew(t, Config{Identify: allSources()}, proven)
	for _, r := range []*comporta.Request{request("192.0.2.1"), request(""), request("192.0.2.1", "Authorization", "Bearer good")} {
		id.IdentifyAt(noon, r)
		id.ProveAt(noon, r)
		if proven.ProvenAt(noon, r.Client.Key) {
			t.Errorf("proven: %+v", r.Client)
		}
	}
	none := mustNew(t, Config{}, nil)
	r := request("192.0.2.1", "X-Api-Key", "k1")
	none.IdentifyAt(noon, r)
	none.ProveAt(noon, r) // nobody to remember it
	if identify(none, r).Class != comporta.ClassAnonymous {
		t.Error("proven without a table")
	}
}

func TestNames(t *testing.T) {
	digest := func(s string) string { d := sha256.Sum256([]byte(s)); return hex.EncodeToString(d[:]) }
	config := map[string]string{
		"acme":    digest("k1")[:8],
		"globex":  strings.ToUpper(digest("k2")),
		"initech": digest("t1")[:12],
		"ana":     digest("ana:secret")[:16],
		"subject": digest("ana")[:16],
	}
	for i := range 100 { // many neighbours for the search
		config[fmt.Sprint("n", i)] = digest(fmt.Sprint("neighbour", i))[:8]
	}
	id := mustNew(t, Config{Identify: allSources(), Names: config}, nil)
	for range 2 { // learned, then remembered
		for _, tc := range []struct {
			want  string
			pairs []string
		}{
			{"acme", []string{"X-Api-Key", "k1"}},
			{"globex", []string{"X-Partner", "k2"}},
			{"n42", []string{"X-Api-Key", "neighbour42"}},
			{"initech", []string{"Authorization", "Bearer t1"}},
			{"ana", []string{"Authorization", basic("ana:secret")}},
			{"subject", []string{"Authorization", "Bearer good"}},
			{"", []string{"X-Api-Key", "k3"}},
			{"", nil},
		} {
			if got := identify(id, request("192.0.2.1", tc.pairs...)).Name; got != tc.want {
				t.Errorf("%v: %q, want %q", tc.pairs, got, tc.want)
			}
		}
	}
	// A flood through the cache changes no answer.
	for i := range 3 * nameSlots {
		if got := identify(id, request("192.0.2.1", "X-Api-Key", fmt.Sprint("flood", i))).Name; got != "" {
			t.Fatalf("flood%d is called %q", i, got)
		}
	}
	if got := identify(id, request("192.0.2.1", "X-Api-Key", "k1")).Name; got != "acme" {
		t.Errorf("after the flood: %q", got)
	}
}

func TestIdentifyAllocatesNothing(t *testing.T) {
	spiffe, err := url.Parse("spiffe://example.org/billing")
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{URIs: []*url.URL{spiffe}}
	mtls := request("192.0.2.1")
	mtls.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
	id := mustNew(t, Config{
		Identify:       allSources(),
		Names:          map[string]string{"acme": "0011223344556677"},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	}, NewProven(0))
	for name, r := range map[string]*comporta.Request{
		"network":  request("192.0.2.1"),
		"ipv6":     request("2001:db8::1"),
		"header":   request("192.0.2.1", "X-Api-Key", strings.Repeat("k", 100)),
		"bearer":   request("192.0.2.1", "Authorization", "Bearer "+strings.Repeat("k", 1000)),
		"basic":    request("192.0.2.1", "Authorization", basic("ana:secret")),
		"jwt":      request("192.0.2.1", "Authorization", "Bearer good"),
		"mtls":     mtls,
		"xff":      request("10.0.0.1", "X-Forwarded-For", "192.0.2.1, 10.0.0.9"),
		"ipv6 xff": request("10.0.0.1", "X-Forwarded-For", "[2001:db8::1]:443"),
		"bad xff":  request("10.0.0.1", "X-Forwarded-For", "unknown"),
		"rfc7239":  request("10.0.0.1", "Forwarded", `for="[2001:db8::1]:443";proto=https, for=10.0.0.9`),
	} {
		identify(id, r) // names are learned once
		n := testing.AllocsPerRun(100, func() {
			id.IdentifyAt(noon, r)
			id.ProveAt(noon, r)
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestKeyStrings(t *testing.T) {
	for _, key := range []uint64{0, 1, 0x0123456789abcdef, ^uint64(0)} {
		s := KeyString(key)
		if back, ok := ParseKey(s); len(s) != 16 || !ok || back != key {
			t.Errorf("%d: %q, %d, %v", key, s, back, ok)
		}
	}
	for _, s := range []string{"", "12", "zz23456789abcdef", "0123456789abcdef0"} {
		if _, ok := ParseKey(s); ok {
			t.Errorf("%q is a key", s)
		}
	}
}
