package jwtidentity

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	testIssuer   = "https://issuer.example/"
	testAudience = "orders"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// The private keys of the tests, made once.
var private = sync.OnceValue(func() map[jose.SignatureAlgorithm]any {
	must := func(key any, err error) any {
		if err != nil {
			panic(err)
		}
		return key
	}
	r := must(rsa.GenerateKey(rand.Reader, 2048))
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	return map[jose.SignatureAlgorithm]any{
		jose.RS256: r, jose.PS384: r,
		jose.ES256: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)),
		jose.ES512: must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader)),
		jose.EdDSA: must(ed, err),
	}
})

// public returns the JWK of one of the private keys.
func public(alg jose.SignatureAlgorithm, kid string) jose.JSONWebKey {
	k := jose.JSONWebKey{Key: private()[alg], KeyID: kid, Use: "sig"}
	return k.Public()
}

// issuer is a real HTTP server that publishes keys.
type issuer struct {
	*httptest.Server

	body    atomic.Pointer[[]byte]
	status  atomic.Int64
	fetches atomic.Int64
}

func newIssuer(tb testing.TB, keys ...jose.JSONWebKey) *issuer {
	tb.Helper()
	is := &issuer{}
	is.status.Store(http.StatusOK)
	is.publish(tb, keys...)
	is.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		is.fetches.Add(1)
		w.WriteHeader(int(is.status.Load()))
		if _, err := w.Write(*is.body.Load()); err != nil {
			return // the client has had enough
		}
	}))
	tb.Cleanup(is.Close)
	return is
}

func (is *issuer) publish(tb testing.TB, keys ...jose.JSONWebKey) {
	tb.Helper()
	body, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		tb.Fatal(err)
	}
	is.body.Store(&body)
}

func (is *issuer) keys(tb testing.TB) *Keys {
	tb.Helper()
	k, err := NewKeys(KeysConfig{URL: is.URL})
	if err != nil {
		tb.Fatal(err)
	}
	if err := k.Fetch(context.Background()); err != nil {
		tb.Fatal(err)
	}
	return k
}

func verifier(tb testing.TB, k *Keys, edit func(*Config)) *Verifier {
	tb.Helper()
	c := Config{Keys: k, Issuer: testIssuer, Audience: testAudience}
	if edit != nil {
		edit(&c)
	}
	v, err := New(c)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

type claims = map[string]any

// good returns the claims of a valid token, with changes; nil takes a claim away.
func good(changes claims) claims {
	c := claims{"iss": testIssuer, "aud": testAudience, "sub": "ana", "exp": noon.Add(time.Hour).Unix()}
	for name, v := range changes {
		if c[name] = v; v == nil {
			delete(c, name)
		}
	}
	return c
}

func signed(tb testing.TB, alg jose.SignatureAlgorithm, kid string, key any, c claims) string {
	tb.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	token, err := jwt.Signed(s).Claims(c).Serialize()
	if err != nil {
		tb.Fatal(err)
	}
	return token
}

func sign(tb testing.TB, alg jose.SignatureAlgorithm, kid string, c claims) string {
	tb.Helper()
	return signed(tb, alg, kid, private()[alg], c)
}

func allPublic() []jose.JSONWebKey {
	return []jose.JSONWebKey{public(jose.RS256, "r"), public(jose.ES256, "e"), public(jose.ES512, "e5"), public(jose.EdDSA, "d")}
}

func TestAlgorithms(t *testing.T) {
	v := verifier(t, newIssuer(t, allPublic()...).keys(t), nil)
	for _, tc := range []struct {
		alg jose.SignatureAlgorithm
		kid string
	}{{jose.RS256, "r"}, {jose.PS384, "r"}, {jose.ES256, "e"}, {jose.ES512, "e5"}, {jose.EdDSA, "d"}, {jose.ES256, ""}, {jose.EdDSA, ""}} {
		for range 2 { // verified, then remembered
			if subject, ok := v.VerifyAt(noon, sign(t, tc.alg, tc.kid, good(nil))); !ok || subject != "ana" {
				t.Errorf("%s by %q: %q, %v", tc.alg, tc.kid, subject, ok)
			}
		}
	}
	only := verifier(t, v.keys, func(c *Config) { c.Algorithms = []string{"ES256"} })
	if _, ok := only.VerifyAt(noon, sign(t, jose.RS256, "r", good(nil))); ok {
		t.Error("an algorithm that is not on the list")
	}
}

func TestClaims(t *testing.T) {
	v := verifier(t, newIssuer(t, allPublic()...).keys(t), nil)
	for _, tc := range []struct {
		name    string
		changes claims
		ok      bool
	}{
		{"good", nil, true},
		{"one audience of several", claims{"aud": []string{"a", testAudience}}, true},
		{"another audience", claims{"aud": "billing"}, false},
		{"no audience", claims{"aud": nil}, false},
		{"another issuer", claims{"iss": "https://issuer.example"}, false},
		{"no issuer", claims{"iss": nil}, false},
		{"no expiry", claims{"exp": nil}, false},
		{"expired, within the leeway", claims{"exp": noon.Add(-29 * time.Second).Unix()}, true},
		{"expired", claims{"exp": noon.Add(-30 * time.Second).Unix()}, false},
		{"expiry is text", claims{"exp": "soon"}, false},
		{"expiry is far", claims{"exp": int64(1)<<62 - 1<<20}, true},
		{"expiry is absurd", claims{"exp": int64(math.MaxInt64)}, false},
		{"start is absurd", claims{"nbf": int64(math.MaxInt64)}, false},
		{"long expired", claims{"exp": -1<<62 + 1<<20}, false},
		{"not yet, within the leeway", claims{"nbf": noon.Add(30 * time.Second).Unix()}, true},
		{"not yet", claims{"nbf": noon.Add(31 * time.Second).Unix()}, false},
		{"no subject", claims{"sub": nil}, false},
		{"empty subject", claims{"sub": ""}, false},
		{"subject is a list", claims{"sub": []string{"ana"}}, false},
		{"subject is too long", claims{"sub": strings.Repeat("a", maxSubject+1)}, false},
	} {
		if subject, ok := v.VerifyAt(noon, sign(t, jose.ES256, "e", good(tc.changes))); ok != tc.ok || ok && subject != "ana" {
			t.Errorf("%s: %q, %v", tc.name, subject, ok)
		}
	}
	other := verifier(t, v.keys, func(c *Config) { c.Claim = "account" })
	for want, value := range map[string]any{"acme": "acme", "4711": 4711} {
		if subject, ok := other.VerifyAt(noon, sign(t, jose.ES256, "e", good(claims{"account": value}))); !ok || subject != want {
			t.Errorf("claim %v: %q, %v", value, subject, ok)
		}
	}
	for _, value := range []any{nil, 1.5, true, map[string]any{"a": 1}} {
		if subject, ok := other.VerifyAt(noon, sign(t, jose.ES256, "e", good(claims{"account": value}))); ok {
			t.Errorf("claim %v: %q", value, subject)
		}
	}
}

// The attacks on libraries of this kind.
func TestForgeries(t *testing.T) {
	is := newIssuer(t, allPublic()...)
	v := verifier(t, is.keys(t), nil)
	encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	payload, err := json.Marshal(good(nil))
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public(jose.RS256, "r").Key)
	if err != nil {
		t.Fatal(err)
	}
	valid := sign(t, jose.RS256, "r", good(nil))
	parts := strings.Split(valid, ".")
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: stranger}, &jose.SignerOptions{EmbedJWK: true})
	if err != nil {
		t.Fatal(err)
	}
	withKey, err := jwt.Signed(embedded).Claims(good(nil)).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"empty":                      "",
		"dots":                       "..",
		"alg none":                   encode(`{"alg":"none"}`) + "." + encode(string(payload)) + ".",
		"alg None":                   encode(`{"alg":"None","kid":"r"}`) + "." + encode(string(payload)) + "." + parts[2],
		"HMAC with the public key":   signed(t, jose.HS256, "r", der, good(nil)),
		"another payload":            parts[0] + "." + encode(strings.Replace(string(payload), "ana", "bob", 1)) + "." + parts[2],
		"no signature":               parts[0] + "." + parts[1] + ".",
		"a stranger's key, our kid":  signed(t, jose.ES256, "e", stranger, good(nil)),
		"a stranger's key, no kid":   signed(t, jose.ES256, "", stranger, good(nil)),
		"key in the header":          withKey,
		"kid of another kind of key": sign(t, jose.ES256, "r", good(nil)),
		"unknown critical parameter": encode(`{"alg":"RS256","kid":"r","crit":["x"],"x":1}`) + "." + parts[1] + "." + parts[2],
		"white space":                valid + " ",
		"too long":                   valid + strings.Repeat("A", maxToken),
		"encrypted":                  encode(`{"alg":"dir","enc":"A256GCM"}`) + "....",
	} {
		if subject, ok := v.VerifyAt(noon, token); ok {
			t.Errorf("%s: %q", name, subject)
		}
	}
	if _, ok := v.VerifyAt(noon, valid); !ok {
		t.Error("the true token is refused")
	}
}

func TestRememberedTokensEnd(t *testing.T) {
	is := newIssuer(t, public(jose.ES256, "one"))
	v := verifier(t, is.keys(t), nil)
	token := sign(t, jose.ES256, "one", good(claims{"nbf": noon.Unix()}))
	for _, tc := range []struct {
		after time.Duration
		want  bool
	}{
		{0, true},
		{time.Hour + 29*time.Second, true},
		{time.Hour + 30*time.Second, false},
		{-30 * time.Second, true}, // the clock stepped back
		{-31 * time.Second, false},
		{0, true},
	} {
		if _, ok := v.VerifyAt(noon.Add(tc.after), token); ok != tc.want {
			t.Errorf("after %v: %v", tc.after, ok)
		}
	}
	// The same document again: nothing to verify anew. A new one: all of it.
	before := v.keys.current.Load()
	if err := v.keys.Fetch(t.Context()); err != nil || v.keys.current.Load() != before {
		t.Errorf("the same keys are another set (%v)", err)
	}
	is.publish(t, public(jose.EdDSA, "two"))
	if err := v.keys.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := v.VerifyAt(noon, token); ok {
		t.Error("a remembered token outlives its key")
	}
	if _, ok := v.VerifyAt(noon, sign(t, jose.EdDSA, "two", good(nil))); !ok {
		t.Error("the new key is not used")
	}
}

func TestRememberedTokensAreBounded(t *testing.T) {
	v := verifier(t, newIssuer(t, allPublic()...).keys(t), func(c *Config) { c.Remembered = 10 })
	places := len(v.cache.sets) * ways
	for i := range 50 {
		token := sign(t, jose.EdDSA, "d", good(claims{"sub": fmt.Sprint("user", i)}))
		for range 2 {
			if subject, ok := v.VerifyAt(noon, token); !ok || subject != fmt.Sprint("user", i) {
				t.Fatalf("user%d: %q, %v", i, subject, ok)
			}
		}
	}
	if places != 12 || len(v.cache.sets)*ways != places {
		t.Errorf("%d places", places)
	}
}

func TestRememberedTokenCostsNoAllocation(t *testing.T) {
	v := verifier(t, newIssuer(t, allPublic()...).keys(t), nil)
	token := sign(t, jose.RS256, "r", good(nil))
	v.VerifyAt(noon, token)
	if n := testing.AllocsPerRun(100, func() { v.VerifyAt(noon, token) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTogether(t *testing.T) {
	is := newIssuer(t, allPublic()...)
	v := verifier(t, is.keys(t), func(c *Config) { c.Remembered = 8 })
	var all []string
	for i := range 20 {
		all = append(all, sign(t, jose.EdDSA, "d", good(claims{"sub": fmt.Sprint(i)})))
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for i := range 200 {
				if subject, ok := v.VerifyAt(noon, all[i%20]); !ok || subject != fmt.Sprint(i%20) {
					t.Errorf("%d: %q, %v", i%20, subject, ok)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 10 {
			is.publish(t, allPublic()[i%3:]...)
			if err := v.keys.Fetch(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
}

func TestConfigurationProblemsAtOnce(t *testing.T) {
	_, err := New(Config{Algorithms: []string{"RS256", "HS256", "none"}, Leeway: time.Hour, Remembered: -1})
	for _, want := range []string{"Keys", "Issuer", "Audience", "Algorithms[1]", "Algorithms[2]", "Leeway", "Remembered"} {
		if err == nil || !strings.Contains(err.Error(), "jwtidentity: "+want+":") {
			t.Errorf("%s is not complained of: %v", want, err)
		}
	}
	for _, u := range []string{"", "issuer.example/jwks", "http://issuer.example/jwks", "ftp://issuer.example", "https://", "https://user:secret@issuer.example/", "://"} {
		if _, err := NewKeys(KeysConfig{URL: u, Refresh: time.Second}); err == nil ||
			!strings.Contains(err.Error(), "jwtidentity: URL:") || !strings.Contains(err.Error(), "jwtidentity: Refresh:") {
			t.Errorf("%q: %v", u, err)
		}
	}
	for _, u := range []string{"https://issuer.example/jwks", "http://localhost:1/", "http://127.0.0.1/", "http://[::1]:80/"} {
		if _, err := NewKeys(KeysConfig{URL: u}); err != nil {
			t.Errorf("%q: %v", u, err)
		}
	}
}

// FuzzToken: never a panic, and nothing but what the issuer signed is believed.
func FuzzToken(f *testing.F) {
	v := verifier(f, newIssuer(f, allPublic()...).keys(f), nil)
	valid := sign(f, jose.EdDSA, "d", good(nil))
	for _, s := range []string{valid, valid + "=", "a.b.c", "..", "{}", `{"payload":"","signatures":[]}`, sign(f, jose.EdDSA, "x", good(nil))} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		subject, ok := v.VerifyAt(noon, token)
		if ok && subject != "ana" || !ok && (subject != "" || token == valid) {
			t.Errorf("%q: %q, %v", token, subject, ok)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	v := verifier(b, newIssuer(b, allPublic()...).keys(b), nil)
	token := sign(b, jose.RS256, "r", good(claims{"scope": strings.Repeat("orders ", 30)}))
	b.Run("remembered", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(token)))
		for b.Loop() {
			v.VerifyAt(noon, token)
		}
	})
	b.Run("new", func(b *testing.B) {
		set := v.keys.current.Load()
		b.ReportAllocs()
		for b.Loop() {
			v.check(noon.Unix(), set, token)
		}
	})
}
