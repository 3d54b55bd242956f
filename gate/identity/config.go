package identity

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Config says how clients are told apart. The zero value trusts no proxy and
// reads X-Api-Key, then Authorization, then the network.
type Config struct {
	// TrustedProxies are the networks whose forwarding headers are believed.
	// Empty: none; the TCP peer is the client.
	TrustedProxies []netip.Prefix
	// Identify lists the sources of identity, the first that is present wins.
	// Empty means DefaultSources. A network is added where the last source is none.
	Identify []Source
	// Names maps readable names of known clients to a prefix, at least 8 hex
	// digits, of the SHA-256 of their credential: a header's value, a cookie's
	// without quotes and with its escapes read, what follows the scheme in
	// Authorization, user:password of Basic, the subject of a JWT, the name in a
	// certificate.
	Names map[string]string
	// MinimumVersion maps client names to the least version (semver) that may
	// enter. Names that are not listed have no minimum.
	MinimumVersion map[string]string
	// RequireVersion refuses requests without a readable Client-Version; else
	// they pass and are counted.
	RequireVersion bool
	// HashKey keys the names of clients. Replicas that share it agree on every
	// key. Zero means random: keys then end with the Identifier, and with them
	// what is proven.
	HashKey [16]byte
}

// Kind says where a Source looks.
type Kind uint8

// The kinds of source. The zero value is none, so that a forgotten Kind is an error.
const (
	KindHeader  Kind = iota + 1 // the value of Source.Header; claimed
	KindCookie                  // the value of Source.Cookie; claimed
	KindBasic                   // Authorization: Basic; claimed
	KindJWT                     // Authorization: Bearer, checked by Source.Verifier; verified
	KindMTLS                    // the client certificate; verified if its chain is
	KindNetwork                 // the network prefix of the address; always present, shared, anonymous
	numKinds
)

// Source is one place where a client's identity may stand.
type Source struct {
	Kind Kind
	// Header names the header of KindHeader, one that reaches the service as the
	// client sent it. Authorization is read with its scheme: `Bearer x` and
	// `bearer  x` are one credential.
	Header string
	// Cookie names the cookie of KindCookie: a secret of one user, such as a
	// session, that stays the same from one request to the next. The name is
	// compared as it stands.
	Cookie string
	// Verifier checks the tokens of KindJWT.
	Verifier Verifier
	// Issuer keeps the subjects of one issuer apart from another's (KindJWT). It
	// is part of the key, so it must be the same on all replicas.
	Issuer string
	// IPv4 and IPv6 are the prefix lengths of KindNetwork in bits; 0 means 32 and 64.
	IPv4, IPv6 int
	// Shared marks an identity that stands for many users, such as a partner's
	// one key. A network always is.
	Shared bool
}

// Verifier checks bearer tokens. VerifyAt returns the subject of a token that is
// valid at now, and false for any other. It is called on the path of a request:
// it must not wait for anything, nor allocate for a token it has seen before.
// It may be called from many goroutines.
type Verifier interface {
	VerifyAt(now time.Time, token string) (subject string, ok bool)
}

// DefaultSources returns the sources of a Config that lists none.
func DefaultSources() []Source {
	return []Source{
		{Kind: KindHeader, Header: "X-Api-Key"},
		{Kind: KindHeader, Header: headerAuthorization},
		{Kind: KindNetwork},
	}
}

const (
	headerAuthorization = "Authorization"
	maxNames            = 1<<16 - 2 // what a slot of the name cache can point to
	minNameDigits       = 8
)

// New compiles c. Proven outlives the Identifier: pass the same table to the
// next one on reload; nil means that no claimed identity is ever proven.
//
// The error joins all problems, each naming its field and what to do.
func New(c Config, proven *Proven) (*Identifier, error) {
	var problems []error
	fail := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("identity: "+format, args...))
	}
	id := &Identifier{proven: proven, key: c.HashKey}
	if id.key == [16]byte{} {
		// rand.Read never fails; it ends the program where it could.
		if _, err := rand.Read(id.key[:]); err != nil {
			fail("HashKey: no random bytes: %w", err)
		}
	}
	var err error
	if id.trusted, err = newPrefixSet(c.TrustedProxies); err != nil {
		problems = append(problems, err)
	}
	id.compileSources(c.Identify, fail)
	if id.names, err = newNames(c.Names); err != nil {
		problems = append(problems, err)
	}
	if id.floor, err = newFloor(c.MinimumVersion, c.RequireVersion); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	id.innocents = innocentsBut(id.credentials)
	return id, nil
}

// compileSources checks and compiles the sources. The network is kept apart from
// them: it is what remains when none of them is present.
func (id *Identifier) compileSources(list []Source, fail func(string, ...any)) {
	if len(list) == 0 {
		list = DefaultSources()
	}
	network := Source{Kind: KindNetwork}
	for i := range list {
		s := &list[i]
		problem := s.problem()
		switch {
		case problem != "":
			fail("Identify[%d]: %s", i, problem)
		case s.Kind == KindNetwork && i < len(list)-1:
			fail("Identify[%d]: a network is always present, so the sources after it are never read; make it the last", i)
		case s.Kind == KindNetwork:
			network = *s
		default:
			id.sources = append(id.sources, compileSource(id.key, s))
			if s.Kind == KindHeader {
				id.credentials = append(id.credentials, http.CanonicalHeaderKey(s.Header))
			}
		}
	}
	id.networks = compileNetworks(id.key, network.IPv4, network.IPv6)
}

// problem says what is wrong with the source, or nothing.
func (s *Source) problem() string {
	switch {
	case s.Kind == 0 || s.Kind >= numKinds:
		return "Kind is missing or unknown; use one of KindHeader, KindCookie, KindBasic, KindJWT, KindMTLS, KindNetwork"
	case s.Kind == KindHeader && !token(s.Header):
		return fmt.Sprintf("Header %q is no header name; use one such as X-Api-Key", s.Header)
	case s.Kind == KindHeader && unseen(s.Header) != "":
		return fmt.Sprintf("Header %q %s, so the service never sees the client's; use one that reaches it, such as X-Api-Key", s.Header, unseen(s.Header))
	case s.Kind != KindHeader && s.Header != "":
		return "Header belongs to KindHeader; leave it empty"
	case s.Kind == KindCookie && !token(s.Cookie): // never repeated: who misreads the field puts the value there
		return "Cookie is empty or more than a name; use the name alone, such as session"
	case s.Kind != KindCookie && s.Cookie != "":
		return "Cookie belongs to KindCookie; leave it empty"
	case s.Kind == KindJWT && s.Verifier == nil:
		return "KindJWT needs a Verifier, such as jwtidentity.Verifier"
	case s.Kind != KindJWT && (s.Verifier != nil || s.Issuer != ""):
		return "Verifier and Issuer belong to KindJWT; leave them empty"
	case s.Kind != KindNetwork && (s.IPv4 != 0 || s.IPv6 != 0):
		return "IPv4 and IPv6 belong to KindNetwork; leave them 0"
	case s.IPv4 < 0 || s.IPv4 > 32:
		return fmt.Sprintf("IPv4: %d is no prefix length; use 1 to 32, or 0 for 32", s.IPv4)
	case s.IPv6 < 0 || s.IPv6 > 128:
		return fmt.Sprintf("IPv6: %d is no prefix length; use 1 to 128, or 0 for 64", s.IPv6)
	}
	return ""
}

// token reports whether s is what names of headers and of cookies are made of
// (RFC 9110, 5.6.2), and of a sane length.
func token(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return true
}

// KeyString renders a client's key for logs and for `comporta who`: 16 hex digits.
func KeyString(key uint64) string {
	var b [8]byte
	for i := range b {
		b[i] = byte(key >> (56 - 8*i))
	}
	return hex.EncodeToString(b[:])
}

// ParseKey reads what KeyString wrote.
func ParseKey(s string) (key uint64, ok bool) {
	if len(s) != 16 {
		return 0, false
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		return 0, false
	}
	for _, c := range b {
		key = key<<8 | uint64(c)
	}
	return key, true
}
