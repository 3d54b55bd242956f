package identity

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/identity/internal/siphash"
)

// The first word of every name says what kind of credential follows, so that no
// two kinds can be given one name. Changing a value changes every key of its
// kind: replicas of two versions would no longer agree.
const (
	wordHeader uint64 = iota + 1
	wordAuthorization
	wordBasic
	wordSubject
	wordCertificate
	wordUnverified
	wordNetwork
	wordCookie
)

// source is a compiled Source. hash has absorbed all that its names begin with.
type source struct {
	kind     Kind
	header   string // canonical
	cookie   string
	shared   bool
	verifier Verifier
	hash     siphash.Hash
	bearer   siphash.Hash // Authorization: hash and the scheme
	basic    siphash.Hash // one for all sources: a credential is the same wherever it is read
	other    siphash.Hash // unverified certificates
}

func compileSource(key [16]byte, s *Source) source {
	start := siphash.New(key)
	c := source{kind: s.Kind, shared: s.Shared, verifier: s.Verifier, basic: start.Word(wordBasic)}
	switch s.Kind {
	case KindHeader:
		c.header = http.CanonicalHeaderKey(s.Header)
		c.hash = start.Word(wordHeader).Part(c.header)
		if c.header == headerAuthorization {
			c.hash = start.Word(wordAuthorization)
			c.bearer = c.hash.Part("bearer")
		}
	case KindCookie:
		c.cookie, c.hash = s.Cookie, start.Word(wordCookie).Part(s.Cookie)
	case KindJWT:
		c.hash = start.Word(wordSubject).Part(s.Issuer)
	case KindMTLS:
		c.hash, c.other = start.Word(wordCertificate), start.Word(wordUnverified)
	default: // Basic has its own, and networks are compiled apart
	}
	return c
}

// identify writes Key, Class and Name of r.Client if the source is present.
func (s *source) identify(now time.Time, r *comporta.Request, names *names) bool {
	c := &r.Client
	switch s.kind {
	case KindHeader:
		v := single(r.Header, s.header)
		switch {
		case v == "":
			return false
		case s.header == headerAuthorization:
			return s.authorization(v, c, names)
		}
		c.Key = nonzero(s.hash.Sum64(v))
		c.Name = names.of(c.Key, v)
		return true
	case KindCookie:
		return s.session(cookieOf(r.Header[headerCookie], s.cookie), c, names)
	case KindBasic:
		scheme, credential := cutScheme(single(r.Header, headerAuthorization))
		return strings.EqualFold(scheme, "basic") && s.userPassword(credential, c, names)
	case KindJWT:
		scheme, token := cutScheme(single(r.Header, headerAuthorization))
		if token == "" || !strings.EqualFold(scheme, "bearer") {
			return false
		}
		subject, ok := s.verifier.VerifyAt(now, token)
		if !ok || subject == "" {
			return false
		}
		c.Key, c.Class = nonzero(s.hash.Sum64(subject)), comporta.ClassVerified
		c.Name = names.of(c.Key, subject)
		return true
	case KindMTLS:
		return s.certificate(r.TLS, c, names)
	default: // never compiled
		return false
	}
}

// authorization reads the Authorization header as a claimed credential. The
// spelling of the scheme is not part of it: a client could else have 64
// identities with one token, all of them proven.
func (s *source) authorization(v string, c *comporta.Client, names *names) bool {
	scheme, credential := cutScheme(v)
	switch {
	case credential == "":
		c.Key = nonzero(s.hash.Part("").Sum64(v))
		c.Name = names.of(c.Key, v)
		return true
	case strings.EqualFold(scheme, "bearer"):
		c.Key = nonzero(s.bearer.Sum64(credential))
	case strings.EqualFold(scheme, "basic") && s.userPassword(credential, c, names):
		return true
	default:
		c.Key = nonzero(s.hash.Part(lowered(scheme)).Sum64(credential))
	}
	c.Name = names.of(c.Key, credential)
	return true
}

// maxBasic is the longest Basic credential that is decoded, in bytes on the
// wire. A longer one is named as it stands.
const maxBasic = 512

// userPassword reads what follows `Basic` (RFC 7617). The password is part of
// the identity: with the user alone, a guess would ride on the proof of the
// true one. It decodes, because one text has many spellings in base64.
func (s *source) userPassword(encoded string, c *comporta.Client, names *names) bool {
	if len(encoded) > maxBasic {
		c.Key = nonzero(s.basic.Word(0).Sum64(encoded))
		c.Name = names.of(c.Key, encoded)
		return true
	}
	var in, out [maxBasic]byte // on the stack: nothing of a credential stays behind
	n, ok := decodeBasic(out[:], in[:copy(in[:], encoded)])
	if !ok {
		return false
	}
	plain := out[:n]
	// The colon cannot occur in the user, so the text needs no lengths; the word
	// keeps it apart from what was not decoded.
	h := s.basic.Word(1)
	c.Key = nonzero(h.SumBytes(plain))
	if name, known := names.cached(c.Key); known {
		c.Name = name
	} else {
		c.Name = names.learn(c.Key, string(plain))
	}
	return true
}

// decodeBasic decodes base64, with or without padding, into dst, which is at
// least as long as src. ok is false for anything but user, colon and password,
// and when both are empty.
func decodeBasic(dst, src []byte) (n int, ok bool) {
	src = bytes.TrimRight(src, "=")
	n, err := base64.RawStdEncoding.Decode(dst, src)
	if err != nil || n < 2 {
		return 0, false
	}
	return n, bytes.IndexByte(dst[:n], ':') >= 0
}

// single returns the value of a header that occurs exactly once, without white
// space around it, and else nothing: of two credentials, the service might
// honour the one that is not counted here.
func single(h http.Header, canonical string) string {
	if vs := h[canonical]; len(vs) == 1 {
		return trim(vs[0])
	}
	return ""
}

// trim is strings.TrimSpace for the white space of header fields, kept small for
// the common case that there is none.
func trim(v string) string {
	if n := len(v); n > 0 && v[0] > ' ' && v[n-1] > ' ' {
		return v
	}
	return strings.Trim(v, " \t")
}

// cutScheme splits Authorization into scheme and credential.
func cutScheme(v string) (scheme, credential string) {
	scheme, credential, _ = strings.Cut(v, " ")
	return scheme, strings.TrimLeft(credential, " ")
}

// lowered is strings.ToLower for ASCII that does not allocate for short words.
// Schemes are tokens, so there is nothing else to fold.
func lowered(s string) string {
	for i := range len(s) {
		if s[i] >= 'A' && s[i] <= 'Z' {
			return strings.ToLower(s)
		}
	}
	return s
}
