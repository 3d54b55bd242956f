// Package target reads the path of a request so that nobody can read it
// otherwise.
//
// # Basics
//
// A gateway decides by the path and forwards a path. When the two come from
// different readings, a caller picks a spelling that is harmless here and
// something else there. So the gate matches on [Canonical], the proxy forwards
// the caller's own bytes, and a path for which the two could disagree about
// where it leads is an error and answered with 400.
//
// # Caveats
//
// An encoded slash (%2F) is a character of its segment here, as in
// net/http.ServeMux; a service that decodes it before it routes sees two
// segments. Signed or nested addresses need it to pass, so it does.
package target

import (
	"errors"
	"net/url"
	"strings"
)

// The faults of a request target. All mean comporta.MalformedRequest.
var (
	ErrRelative   = errors.New("target: the path does not begin with a slash")
	ErrFragment   = errors.New("target: the target holds a fragment")
	ErrDotSegment = errors.New("target: the path holds a dot segment")
	ErrControl    = errors.New("target: the path holds a control character")
	ErrEscape     = errors.New("target: the path holds an invalid escape")
)

// Canonical returns the one spelling of u's path under which policy knows it:
// every escape that needs none is decoded, every other is in upper case, and
// empty segments are dropped, so that "//a/%62" is "/a/b". A trailing slash stays.
// Two paths have the same canonical form exactly when their segments, decoded, are
// the same. "*" (of OPTIONS) is its own form.
//
// It refuses dot segments in every dress that a service behind may take for
// one: "..", "%2e%2e", "..;x", "..%2F", "..%5C". Clients resolve those before they
// ask; what arrives here was sent by hand.
//
// A path that is canonical already is returned as it is, without allocating.
func Canonical(u *url.URL) (string, error) {
	if u.RawPath == "" && u.Fragment == "" && u.Opaque == "" && isCanonical(u.Path) && u.Path != "" && u.Path[0] == '/' && strings.IndexByte(u.RawQuery, '#') < 0 {
		return u.Path, nil // nearly every request
	}
	if strings.IndexByte(u.RawPath, '#') >= 0 || strings.IndexByte(u.RawQuery, '#') >= 0 || u.Fragment != "" {
		return "", ErrFragment
	}
	raw := u.EscapedPath()
	if raw == "*" && u.Opaque == "" {
		return raw, nil
	}
	if u.Opaque != "" || raw == "" || raw[0] != '/' {
		return "", ErrRelative
	}
	if isCanonical(raw) {
		return raw, nil
	}
	return rewrite(raw)
}

// isCanonical reports whether raw surely is its own canonical form. A false is no
// verdict: rewrite finds out.
func isCanonical(raw string) bool {
	for i := range len(raw) {
		c := raw[i]
		switch {
		case c == '/':
			if i+1 < len(raw) && (raw[i+1] == '/' || raw[i+1] == '.') {
				return false
			}
		case !plain[c]:
			return false
		}
	}
	return true
}

func rewrite(raw string) (string, error) {
	var out strings.Builder
	out.Grow(len(raw))
	segment := make([]byte, 0, 64)
	for s := range strings.SplitSeq(raw[1:], "/") {
		if s == "" {
			continue
		}
		var err error
		if segment, err = decode(segment[:0], s); err != nil {
			return "", err
		}
		if hidesDots(segment) {
			return "", ErrDotSegment
		}
		out.WriteByte('/')
		encode(&out, segment)
	}
	if raw[len(raw)-1] == '/' {
		out.WriteByte('/')
	}
	return out.String(), nil
}

// decode appends the bytes that s stands for.
func decode(dst []byte, s string) ([]byte, error) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			if i+2 >= len(s) {
				return nil, ErrEscape
			}
			high, low := unhex(s[i+1]), unhex(s[i+2])
			if high > 15 || low > 15 {
				return nil, ErrEscape
			}
			c = high<<4 | low
			i += 2
		}
		if c < ' ' || c == 0x7f {
			return nil, ErrControl
		}
		dst = append(dst, c)
	}
	return dst, nil
}

func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}

const upperHex = "0123456789ABCDEF"

func encode(out *strings.Builder, segment []byte) {
	for _, c := range segment {
		if plain[c] {
			out.WriteByte(c)
			continue
		}
		out.WriteByte('%')
		out.WriteByte(upperHex[c>>4])
		out.WriteByte(upperHex[c&15])
	}
}

// hidesDots reports whether a decoded segment is a dot segment, or would become
// one where encoded slashes, backslashes or path parameters are understood.
func hidesDots(segment []byte) bool {
	start := 0
	for i := 0; i <= len(segment); i++ {
		if i < len(segment) && segment[i] != '/' && segment[i] != '\\' {
			continue
		}
		name, _, _ := strings.Cut(string(segment[start:i]), ";")
		if name == "." || name == ".." {
			return true
		}
		start = i + 1
	}
	return false
}

// plain holds the characters that stand for themselves in the canonical form:
// those that RFC 3986 allows in a segment.
var plain = func() (t [256]bool) {
	for c := range t {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			t[c] = true
		default:
			t[c] = c < 0x80 && strings.IndexByte("-._~!$&'()*+,;=:@", byte(c)) >= 0
		}
	}
	return t
}()
