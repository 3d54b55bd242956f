package front

import "strings"

// What an octet of a head may be.
const (
	octToken  = 1 << iota // of a method or a name (RFC 9110, 5.6.2)
	octText               // of a value: visible, space, tab, or above ASCII
	octTarget             // of a request target: visible ASCII but # (RFC 3986)
	octHost               // of a host that is a name or an IPv4 address
	octHex
	octLower
	octUpper
)

var octets = func() (t [256]uint8) {
	for c := range t {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		digit := c >= '0' && c <= '9'
		ascii := c < 0x80
		if letter || digit || ascii && strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0 {
			t[c] |= octToken
		}
		if c == '\t' || c >= ' ' && c != 0x7f {
			t[c] |= octText
		}
		if c > ' ' && c < 0x7f && c != '#' {
			t[c] |= octTarget
		}
		if letter || digit || ascii && strings.IndexByte("-._~", byte(c)) >= 0 {
			t[c] |= octHost
		}
		if digit || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' {
			t[c] |= octHex
		}
		if c >= 'a' && c <= 'z' {
			t[c] |= octLower
		}
		if c >= 'A' && c <= 'Z' {
			t[c] |= octUpper
		}
	}
	return t
}()

// all reports whether every octet of b is of a class.
func all(b []byte, class uint8) bool {
	for _, c := range b {
		if octets[c]&class == 0 {
			return false
		}
	}
	return true
}

// canonicalName puts a header name into the form of net/http, in place: letters
// after the beginning and after a dash are upper case, the others lower. It reports
// whether the name is a token.
func canonicalName(b []byte) bool {
	upper := true
	for i, c := range b {
		class := octets[c]
		if class&octToken == 0 {
			return false
		}
		switch {
		case upper && class&octLower != 0, !upper && class&octUpper != 0:
			b[i] = c ^ 0x20
		}
		upper = c == '-'
	}
	return len(b) > 0
}

// text reports whether b may stand in a header value. Eight octets are looked at a
// time: a head is mostly values.
func text(b []byte) bool {
	for len(b) >= 8 {
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		// An octet below the space borrows from its top bit; one that is 0x7f turns
		// to zero first. Both tests may also meet a neighbour: the table then decides.
		below := (w - lowest*' ') &^ w & highest
		del := w ^ lowest*0x7f
		del = (del - lowest) &^ del & highest
		if below|del != 0 && !all(b[:8], octText) {
			return false
		}
		b = b[8:]
	}
	return all(b, octText)
}

const (
	lowest  = 0x0101010101010101
	highest = 0x8080808080808080
)
