package jwtidentity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

const (
	maxKeys    = 256
	minRSABits = 2048
	maxRSABits = 8192
	maxTries   = 4 // keys that are tried on a token which names none
)

// algorithms are all that may sign: asymmetric, each bound to a kind of key.
var algorithms = map[jose.SignatureAlgorithm]func(key any) bool{
	jose.RS256: isRSA, jose.RS384: isRSA, jose.RS512: isRSA,
	jose.PS256: isRSA, jose.PS384: isRSA, jose.PS512: isRSA,
	jose.ES256: onCurve(256), jose.ES384: onCurve(384), jose.ES512: onCurve(521),
	jose.EdDSA: func(key any) bool { _, ok := key.(ed25519.PublicKey); return ok },
}

func isRSA(key any) bool { _, ok := key.(*rsa.PublicKey); return ok }

func onCurve(bits int) func(key any) bool {
	return func(key any) bool {
		k, ok := key.(*ecdsa.PublicKey)
		return ok && k.Curve.Params().BitSize == bits
	}
}

// keySet is one published set of keys. It is immutable, and its address stands
// for its content: what was verified with one set is not with another.
type keySet struct{ keys []jose.JSONWebKey }

// parseKeySet reads a JWKS document. Keys that cannot be used are passed over, as
// RFC 7517, 5 asks: kinds of key that are new must not break the old ones.
func parseKeySet(body []byte) (*keySet, error) {
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return nil, fmt.Errorf("not a key set: %w", err)
	}
	if len(document.Keys) > maxKeys {
		return nil, fmt.Errorf("%d keys, more than %d", len(document.Keys), maxKeys)
	}
	set := &keySet{}
	for _, raw := range document.Keys {
		var k jose.JSONWebKey
		if err := k.UnmarshalJSON(raw); err == nil && usable(&k) {
			set.keys = append(set.keys, k)
		}
	}
	if len(set.keys) == 0 {
		return nil, errors.New("no usable key in the set")
	}
	return set, nil
}

// usable reports whether k is meant for signatures and strong enough. Private and
// symmetric keys fit no algorithm of the table, so they are not.
func usable(k *jose.JSONWebKey) bool {
	if !k.Valid() || k.Use != "" && k.Use != "sig" {
		return false
	}
	if r, ok := k.Key.(*rsa.PublicKey); ok && (r.N.BitLen() < minRSABits || r.N.BitLen() > maxRSABits) {
		return false
	}
	for alg, fits := range algorithms {
		if fits(k.Key) && (k.Algorithm == "" || k.Algorithm == string(alg)) {
			return true
		}
	}
	return false
}

// candidates returns the keys that may have signed with alg: those named kid, or
// where the token names none, the first few that fit.
func (s *keySet) candidates(kid string, alg jose.SignatureAlgorithm) []jose.JSONWebKey {
	fits := algorithms[alg]
	if fits == nil {
		return nil
	}
	var found []jose.JSONWebKey
	for _, k := range s.keys {
		if (kid == "" || k.KeyID == kid) && fits(k.Key) && (k.Algorithm == "" || k.Algorithm == string(alg)) {
			if found = append(found, k); len(found) == maxTries {
				break
			}
		}
	}
	return found
}
