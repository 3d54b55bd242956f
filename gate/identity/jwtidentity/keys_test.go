package jwtidentity

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

func TestLastGoodKeysStay(t *testing.T) {
	is := newIssuer(t, public(jose.ES256, "e"))
	k, err := NewKeys(KeysConfig{URL: is.URL})
	if err != nil {
		t.Fatal(err)
	}
	v := verifier(t, k, nil)
	token := sign(t, jose.ES256, "e", good(nil))
	if _, ok := v.VerifyAt(noon, token); ok || k.Ready() {
		t.Error("verified before the first fetch")
	}
	if err := k.Fetch(t.Context()); err != nil || !k.Ready() {
		t.Fatal(err)
	}
	for name, broken := range map[string]struct {
		status int
		body   string
	}{
		"error":    {http.StatusInternalServerError, `{"keys":[]}`},
		"redirect": {http.StatusFound, ""},
		"garbage":  {http.StatusOK, "<html>"},
		"no keys":  {http.StatusOK, `{"keys":[]}`},
		"nothing":  {http.StatusOK, ""},
		"too long": {http.StatusOK, string(keySetOf(t, public(jose.EdDSA, "d"))) + strings.Repeat(" ", maxBody)},
		"too many": {http.StatusOK, `{"keys":[` + strings.Repeat("{},", maxKeys) + `{}]}`},
	} {
		body := []byte(broken.body)
		is.body.Store(&body)
		is.status.Store(int64(broken.status))
		if err := k.Fetch(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "jwtidentity: keys: ") {
			t.Errorf("%s: %v", name, err)
		}
		if _, ok := v.VerifyAt(noon, token); !ok {
			t.Errorf("%s: the good keys are gone", name)
		}
	}
}

func TestUnusableKeysArePassedOver(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skip("no weak keys can be made here:", err)
	}
	key := func(k any, edit func(*jose.JSONWebKey)) json.RawMessage {
		j := jose.JSONWebKey{Key: k, KeyID: "k"}
		if edit != nil {
			edit(&j)
		}
		raw, err := j.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	r := public(jose.RS256, "").Key
	for name, tc := range map[string]struct {
		raw json.RawMessage
		ok  bool
	}{
		"good":              {key(r, nil), true},
		"good, with alg":    {key(r, func(k *jose.JSONWebKey) { k.Algorithm = "PS256" }), true},
		"for encryption":    {key(r, func(k *jose.JSONWebKey) { k.Use = "enc" }), false},
		"alg of encryption": {key(r, func(k *jose.JSONWebKey) { k.Algorithm = "RSA-OAEP" }), false},
		"alg of another":    {key(r, func(k *jose.JSONWebKey) { k.Algorithm = "ES256" }), false},
		"weak":              {key(&weak.PublicKey, nil), false},
		"symmetric":         {key([]byte(strings.Repeat("k", 64)), nil), false},
		"private":           {key(private()[jose.RS256], nil), false},
		"new kind":          {json.RawMessage(`{"kty":"QUANTUM","kid":"k"}`), false},
		"off the curve":     {json.RawMessage(`{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}`), false},
		"no object":         {json.RawMessage(`7`), false},
	} {
		other, err := json.Marshal(public(jose.EdDSA, "other"))
		if err != nil {
			t.Fatal(err)
		}
		set, err := parseKeySet([]byte(`{"keys":[` + string(tc.raw) + `,` + string(other) + `]}`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := len(set.keys) == 2; got != tc.ok {
			t.Errorf("%s: used %v", name, got)
		}
	}
}

func TestRedirectsStaySafe(t *testing.T) {
	is := newIssuer(t, public(jose.ES256, "e"))
	target := is.URL
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target, http.StatusFound)
	}))
	defer front.Close()
	k, err := NewKeys(KeysConfig{URL: front.URL, Client: &http.Client{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Fetch(t.Context()); err != nil {
		t.Errorf("to loopback: %v", err)
	}
	for _, target = range []string{"http://issuer.example/jwks", front.URL} { // not safe; in circles
		if err := k.Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "redirected") {
			t.Errorf("to %s: %v", target, err)
		}
	}
}

// roundTrip is an issuer without a network, for virtual time.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// running starts Run over an issuer whose answers serve decides, and returns
// what stops it.
func running(t *testing.T, serve func() (body []byte, err error)) (k *Keys, fetches *atomic.Int64, stop func()) {
	t.Helper()
	fetches = &atomic.Int64{}
	k, err := NewKeys(KeysConfig{URL: "https://issuer.example/jwks", Client: &http.Client{Transport: roundTrip(
		func(r *http.Request) (*http.Response, error) {
			fetches.Add(1)
			body, err := serve()
			if err != nil {
				return nil, err
			}
			return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
		})}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func(k *Keys) { done <- k.Run(ctx) }(k)
	enough := errors.New("enough")
	return k, fetches, func() {
		cancel(enough)
		if err := <-done; !errors.Is(err, enough) {
			t.Errorf("Run ended with %v", err)
		}
	}
}

func keySetOf(t *testing.T, keys ...jose.JSONWebKey) []byte {
	t.Helper()
	body, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestRunRefreshes(t *testing.T) {
	body := keySetOf(t, public(jose.ES256, "e"))
	synctest.Test(t, func(t *testing.T) {
		k, fetches, stop := running(t, func() ([]byte, error) { return body, nil })
		defer stop()
		synctest.Wait()
		if fetches.Load() != 1 || !k.Ready() {
			t.Fatalf("%d fetches at once", fetches.Load())
		}
		<-time.After(10 * time.Hour) // virtual
		if n := fetches.Load(); n < 37 || n > 45 {
			t.Errorf("%d fetches in 10 h, every 15 min", n)
		}
	})
}

func TestRunBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, fetches, stop := running(t, func() ([]byte, error) { return nil, errors.New("down") })
		defer stop()
		<-time.After(15 * time.Minute)
		if n := fetches.Load(); n < 9 || n > 13 || k.Ready() {
			t.Errorf("%d fetches in 15 min of failure", n)
		}
	})
}

// A key that was just published is found within a minute; a flood of invented
// ones costs the issuer one fetch a minute.
func TestUnknownKeyIDs(t *testing.T) {
	one, both := keySetOf(t, public(jose.ES256, "e")), keySetOf(t, public(jose.ES256, "e"), public(jose.EdDSA, "d"))
	until := time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	fresh := sign(t, jose.EdDSA, "d", good(claims{"exp": until.Unix()}))
	stale := sign(t, jose.EdDSA, "x", good(claims{"exp": until.Unix()}))
	others := sign(t, jose.EdDSA, "x", good(claims{"exp": until.Unix(), "iss": "another"}))
	synctest.Test(t, func(t *testing.T) {
		var rotated atomic.Bool
		k, fetches, stop := running(t, func() ([]byte, error) {
			if rotated.Load() {
				return both, nil
			}
			return one, nil
		})
		defer stop()
		v := verifier(t, k, nil)
		<-time.After(2 * time.Minute)
		for range 10 {
			v.VerifyAt(time.Now(), others)
		}
		synctest.Wait()
		if fetches.Load() != 1 {
			t.Fatal("another issuer's tokens make us fetch")
		}
		rotated.Store(true)
		if _, ok := v.VerifyAt(time.Now(), fresh); ok {
			t.Fatal("verified without the key")
		}
		synctest.Wait()
		if _, ok := v.VerifyAt(time.Now(), fresh); !ok || fetches.Load() != 2 {
			t.Fatalf("the new key is not found: %d fetches", fetches.Load())
		}
		for range 300 { // five minutes of invented ids
			v.VerifyAt(time.Now(), stale)
			<-time.After(time.Second)
		}
		if n := fetches.Load(); n < 5 || n > 8 {
			t.Errorf("%d fetches after five minutes of invented key ids", n)
		}
	})
}

func TestPause(t *testing.T) {
	for _, tc := range []struct {
		failures int
		random   float64
		want     time.Duration
	}{
		{0, 0, 9 * time.Minute}, {0, 0.5, 10 * time.Minute}, {0, 1, 11 * time.Minute},
		{1, 0, 500 * time.Millisecond}, {1, 1, time.Second}, {4, 1, 8 * time.Second},
		{100, 1, 10 * time.Minute}, {1 << 40, 0, 5 * time.Minute},
	} {
		if got := pause(tc.failures, 10*time.Minute, tc.random); (got - tc.want).Abs() > time.Microsecond {
			t.Errorf("after %d failures, %v: %v, want %v", tc.failures, tc.random, got, tc.want)
		}
	}
}

// FuzzKeySet: never a panic; what is accepted can be used.
func FuzzKeySet(f *testing.F) {
	body, err := json.Marshal(jose.JSONWebKeySet{Keys: allPublic()})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{string(body), `{"keys":[{"kty":"EC","crv":"P-256"}]}`, `{"keys":null}`, `[]`, `{"keys":[{"kty":"RSA","n":"AQ","e":"AQAB"}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		set, err := parseKeySet(body)
		if (set == nil) == (err == nil) || set != nil && len(set.keys) == 0 {
			t.Errorf("%q: %v, %v", body, set, err)
		}
	})
}
