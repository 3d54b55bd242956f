package idempotency

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"net/http"

	"github.com/comporta/comporta/store"
)

// Scope is all that a key is bound to: the same key of another client, method or
// route is another key.
type Scope struct {
	Client []byte // names the client, the same in every process; not kept
	Method string
	Route  string // pattern
	Host   string // lower case, without port
	Key    string
	// Credentials holds the fields that tell apart the people behind one client,
	// where many share it; else nil. See CredentialsOf.
	Credentials http.Header
}

// The fields by which people behind one network are told apart.
var credentials = [...]string{"Authorization", "Cookie"}

// CredentialsOf returns the fields of a request that tell apart the people behind
// a shared client. Nobody behind a common address gets another's answer.
func CredentialsOf(h http.Header) http.Header {
	c := http.Header{}
	for _, name := range credentials {
		if vs := h[name]; len(vs) > 0 {
			c[name] = vs
		}
	}
	return c
}

// name is a keyed hash (HMAC-SHA256) over the parts, each with its length before
// it, so that no two scopes are written alike.
func (s *Scope) name(secret []byte) (n store.Name) {
	h := hmac.New(sha256.New, secret)
	part(h, string(s.Client))
	for _, p := range [...]string{s.Method, s.Route, s.Host, s.Key} {
		part(h, p)
	}
	for _, name := range credentials {
		if s.Credentials == nil {
			break
		}
		count(h, len(s.Credentials[name]))
		for _, v := range s.Credentials[name] {
			part(h, v)
		}
	}
	h.Sum(n[:0])
	return n
}

func part(h hash.Hash, s string) {
	count(h, len(s))
	_, _ = h.Write([]byte(s)) // a hash takes everything
}

func count(h hash.Hash, n int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	_, _ = h.Write(b[:])
}
