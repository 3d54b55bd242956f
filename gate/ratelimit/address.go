package ratelimit

import (
	"net/netip"
	"strings"
)

// The prefixes by which addresses are told apart, unless a key says otherwise.
// One IPv6 subscriber commonly owns a /64 and often a /48, so that single
// addresses of a /64 mean nothing, and the /48 is what a subnet of neighbours is
// to IPv4.
const (
	addressBits4, addressBits6 = 32, 64
	subnetBits4, subnetBits6   = 24, 48
)

// ParseAddr reads the address out of what net/http calls a RemoteAddr: with or
// without port, brackets and zone. An IPv4 address mapped into IPv6 is itself.
// ok is false for everything else; such a caller is then told apart by
// something else than a network, never put together with others.
func ParseAddr(s string) (addr netip.Addr, ok bool) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return plain(ap.Addr()), true
	}
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		s = s[1 : len(s)-1]
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return plain(a), true
}

// plain is the form under which an address is known here.
func plain(a netip.Addr) netip.Addr {
	if a.Is4() {
		return a
	}
	return a.Unmap().WithZone("")
}

// appendPrefix appends a family, a length and the bytes of the prefix.
func appendPrefix(dst []byte, a netip.Addr, bits4, bits6 int) []byte {
	if a = plain(a); a.Is4() {
		b := a.As4()
		mask(b[:], bits4)
		return append(append(dst, 4, byte(bits4)), b[:]...)
	}
	b := a.As16()
	mask(b[:], bits6)
	return append(append(dst, 6, byte(bits6)), b[:]...)
}

// mask clears all bits of an address after the first n.
func mask(b []byte, n int) {
	for i := range b {
		switch keep := n - 8*i; {
		case keep <= 0:
			b[i] = 0
		case keep < 8:
			b[i] &= 0xff << (8 - keep)
		}
	}
}
