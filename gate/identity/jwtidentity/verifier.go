package jwtidentity

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/comporta/comporta/gate/identity"
	"github.com/comporta/comporta/gate/identity/internal/siphash"
)

const (
	defaultLeeway = 30 * time.Second
	maxLeeway     = 5 * time.Minute
	maxToken      = 8 << 10 // bytes; longer than what servers accept as a header
	maxSubject    = 512     // bytes
)

// Config says which tokens are believed.
type Config struct {
	Keys     *Keys  // required
	Issuer   string // the iss claim, exactly; required
	Audience string // must be among the aud claim; required: tokens for others are no identity here
	// Claim names the claim that identifies; a string or a whole number. Empty
	// means sub.
	Claim string
	// Algorithms may sign: any of RS256, RS384, RS512, PS256, PS384, PS512,
	// ES256, ES384, ES512, EdDSA. Empty means all of them.
	Algorithms []string
	// Leeway is the difference of clocks that is forgiven, up to 5 minutes. 0
	// means 30 seconds.
	Leeway time.Duration
	// Remembered is how many verified tokens are kept, some 200 bytes each. 0
	// means 16,384.
	Remembered int
}

// Verifier verifies bearer tokens. Use New. Its methods may be called from many
// goroutines.
type Verifier struct {
	keys       *Keys
	issuer     string
	audience   string
	claim      string
	algorithms []jose.SignatureAlgorithm
	leeway     int64 // seconds
	hash       siphash.Hash
	cache      cache
}

var _ identity.Verifier = (*Verifier)(nil)

// New checks the configuration and reports all of its problems at once.
func New(c Config) (*Verifier, error) {
	var problems []error
	fail := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("jwtidentity: "+format, args...))
	}
	v := &Verifier{keys: c.Keys, issuer: c.Issuer, audience: c.Audience, claim: c.Claim, cache: newCache(c.Remembered)}
	if c.Keys == nil {
		fail("Keys: missing; make them with NewKeys")
	}
	if c.Issuer == "" {
		fail("Issuer: missing; give the iss of the tokens, such as https://issuer.example/")
	}
	if c.Audience == "" {
		fail("Audience: missing; give the aud under which tokens are made for this service")
	}
	if v.claim == "" {
		v.claim = "sub"
	}
	for i, name := range c.Algorithms {
		if algorithms[jose.SignatureAlgorithm(name)] == nil {
			fail("Algorithms[%d]: %q may not sign; use RS256, PS256, ES256, EdDSA or their longer kin", i, name)
		}
		v.algorithms = append(v.algorithms, jose.SignatureAlgorithm(name))
	}
	if len(v.algorithms) == 0 {
		for alg := range algorithms {
			v.algorithms = append(v.algorithms, alg)
		}
		slices.Sort(v.algorithms)
	}
	if c.Leeway == 0 {
		c.Leeway = defaultLeeway
	}
	if c.Leeway < 0 || c.Leeway > maxLeeway {
		fail("Leeway: %v is out of range; use 1s to %v, or 0 for %v", c.Leeway, maxLeeway, defaultLeeway)
	}
	if c.Remembered < 0 || c.Remembered > maxRemembered {
		fail("Remembered: %d is out of range; use up to %d tokens, or 0 for %d", c.Remembered, maxRemembered, defaultRemembered)
	}
	v.leeway = int64((c.Leeway + time.Second - 1) / time.Second)
	var key [16]byte
	if _, err := rand.Read(key[:]); err != nil {
		fail("no random bytes: %w", err)
	}
	v.hash = siphash.New128(key)
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return v, nil
}

// VerifyAt returns the subject of a token that is valid at now. It never waits,
// and allocates nothing for a token that it remembers. See identity.Verifier.
func (v *Verifier) VerifyAt(now time.Time, token string) (subject string, ok bool) {
	set := v.keys.current.Load()
	if set == nil || len(token) > maxToken {
		return "", false
	}
	second := now.Unix()
	lo, hi := v.hash.Sum128(token)
	e := v.cache.find(lo, hi)
	if e == nil || e.keys != set {
		if e = v.check(second, set, token); e == nil {
			return "", false
		}
		e.lo, e.hi = lo, hi
		v.cache.keep(second, e)
	}
	if !e.validAt(second) {
		return "", false
	}
	return e.subject, true
}

// check verifies a token from the ground up. What costs least comes first, and
// the signature last: a token of another issuer, or an old one, is turned away
// without it.
func (v *Verifier) check(now int64, set *keySet, token string) *entry {
	parsed, err := jwt.ParseSigned(token, v.algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return nil
	}
	var unverified jwt.Claims
	if parsed.UnsafeClaimsWithoutVerification(&unverified) != nil || v.entry(now, &unverified) == nil {
		return nil
	}
	header := parsed.Headers[0]
	candidates := set.candidates(header.KeyID, jose.SignatureAlgorithm(header.Algorithm))
	if len(candidates) == 0 {
		v.keys.want()
		return nil
	}
	for i := range candidates {
		var claims jwt.Claims
		var all map[string]json.RawMessage
		if parsed.Claims(candidates[i].Key, &claims, &all) != nil {
			continue
		}
		e := v.entry(now, &claims)
		if e == nil {
			return nil
		}
		if e.subject = text(all[v.claim]); e.subject == "" {
			return nil
		}
		e.keys = set
		return e
	}
	return nil
}

// entry checks issuer, audience and time; nil means no.
func (v *Verifier) entry(now int64, c *jwt.Claims) *entry {
	if c.Issuer != v.issuer || !c.Audience.Contains(v.audience) || c.Expiry == nil {
		return nil
	}
	// The library reads no time beyond 2^62 seconds, so the leeway cannot run over.
	e := &entry{from: math.MinInt64, until: int64(*c.Expiry) + v.leeway}
	if c.NotBefore != nil {
		e.from = int64(*c.NotBefore) - v.leeway
	}
	if !e.validAt(now) {
		return nil
	}
	return e
}

// text returns a claim that can identify: a string or a whole number.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		if len(s) > maxSubject {
			return ""
		}
		return s
	}
	var n int64
	if json.Unmarshal(raw, &n) == nil {
		return strconv.FormatInt(n, 10)
	}
	return ""
}
