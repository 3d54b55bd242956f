package identity

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

const (
	headerXFF       = "X-Forwarded-For"
	headerForwarded = "Forwarded"

	// maxHops bounds the walk: nobody has that many proxies of his own.
	maxHops = 64
	// maxElement is the longest element of Forwarded that is read, in bytes.
	maxElement = 1024
)

// walk goes through the chain of hops from the right, all header lines in their
// order being one list, and returns the first hop that is not in the set. Where
// the chain ends, or cannot be read, it returns the last hop that could be.
//
// cut takes the last hop off a line. It returns what is left of the line, and an
// invalid address for a hop that cannot be read.
func (t *prefixSet) walk(remote netip.Addr, lines []string, cut func(line string) (rest string, hop netip.Addr, empty bool)) netip.Addr {
	last, hops := remote, 0
	for i := len(lines) - 1; i >= 0; i-- {
		for line := lines[i]; line != ""; {
			if hops++; hops > maxHops {
				return last
			}
			rest, hop, empty := cut(line)
			line = rest
			switch {
			case empty: // RFC 9110, 5.6.1: empty elements of a list are ignored
				continue
			case !hop.IsValid():
				return last
			case !t.contains(hop):
				return hop
			}
			last = hop
		}
	}
	return last
}

// cutXFF takes the last hop off a line of X-Forwarded-For.
func cutXFF(line string) (rest string, hop netip.Addr, empty bool) {
	element := line
	if i := strings.LastIndexByte(line, ','); i >= 0 {
		rest, element = line[:i], line[i+1:]
	}
	if element = strings.Trim(element, " \t"); element == "" {
		return rest, netip.Addr{}, true
	}
	hop, _ = parseHop(element) // invalid when not ok
	return rest, hop, false
}

// cutForwarded takes the last element off a line of Forwarded (RFC 7239) and
// reads its "for".
//
// It reads from the right, so that an open quote which a client left on the
// left cannot swallow what the proxies appended.
func cutForwarded(line string) (rest string, hop netip.Addr, empty bool) {
	start, quoted := len(line), false
	for start > 0 && (quoted || line[start-1] != ',') {
		start--
		switch {
		case line[start] == '"':
			quoted = !quoted
		case line[start] == '\\' || len(line)-start > maxElement:
			// No node needs an escape; where one is, the quotes cannot be
			// told apart from this side.
			return "", netip.Addr{}, false
		}
	}
	if quoted {
		return "", netip.Addr{}, false
	}
	element := strings.Trim(line[start:], " \t")
	if start > 0 {
		rest = line[:start-1]
	}
	if element == "" {
		return rest, netip.Addr{}, true
	}
	hop, _ = forwardedFor(element) // invalid when not ok
	return rest, hop, false
}

// forwardedFor reads the address of the one "for" of an element.
func forwardedFor(element string) (hop netip.Addr, ok bool) {
	found := false
	for element != "" {
		var pair string
		pair, element = cutPair(element)
		name, value, _ := strings.Cut(pair, "=")
		if !strings.EqualFold(strings.Trim(name, " \t"), "for") {
			continue
		}
		if found {
			return netip.Addr{}, false
		}
		found = true
		value = strings.Trim(value, " \t")
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		hop, ok = parseHop(value)
	}
	return hop, ok
}

// cutPair takes the first name=value off an element. Quotes are balanced and
// without escapes: cutForwarded saw to that.
func cutPair(element string) (pair, rest string) {
	quoted := false
	for i := range len(element) {
		switch {
		case element[i] == '"':
			quoted = !quoted
		case element[i] == ';' && !quoted:
			return element[:i], element[i+1:]
		}
	}
	return element, ""
}

// parseHop reads an address as proxies write it: IPv4 or IPv6, the latter in
// brackets or bare, with or without a port; a zone is dropped. "unknown" and
// obfuscated names are no addresses.
func parseHop(s string) (netip.Addr, bool) {
	if s == "" || len(s) > 64 {
		return netip.Addr{}, false
	}
	if s[0] == '[' {
		inner, port, closed := strings.Cut(s[1:], "]")
		if !closed || strings.IndexByte(inner, ':') < 0 || port != "" && (port[0] != ':' || !validPort(port[1:])) {
			return netip.Addr{}, false
		}
		s = inner
	} else if i := strings.IndexByte(s, ':'); i >= 0 && i == strings.LastIndexByte(s, ':') {
		if !validPort(s[i+1:]) {
			return netip.Addr{}, false
		}
		s = s[:i]
	}
	s, _, _ = strings.Cut(s, "%")
	for i := range len(s) { // before ParseAddr, whose errors allocate
		c := s[i] | 0x20
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && s[i] != ':' && s[i] != '.' {
			return netip.Addr{}, false
		}
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return plain(a), true
}

// validPort accepts a number, or an obfuscated port of RFC 7239.
func validPort(s string) bool {
	if s == "" {
		return false
	}
	if s[0] == '_' {
		return len(s) > 1
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) <= 5
}

// prefixSet is a set of addresses as sorted ranges that do not touch, so that
// the published lists of large providers cost a binary search.
type prefixSet struct{ ranges []addrRange }

type addrRange struct{ from, to netip.Addr }

func newPrefixSet(prefixes []netip.Prefix) (prefixSet, error) {
	var problems []error
	ranges := make([]addrRange, 0, len(prefixes))
	for i, p := range prefixes {
		if p.IsValid() && p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		switch {
		case !p.IsValid():
			problems = append(problems, fmt.Errorf("identity: TrustedProxies[%d]: not a network; write one such as 10.0.0.0/8", i))
		case p.Bits() == 0:
			problems = append(problems, fmt.Errorf("identity: TrustedProxies[%d]: %v trusts everybody to name any client; list your proxies' networks", i, p))
		default:
			ranges = append(ranges, addrRange{p.Masked().Addr(), lastAddr(p)})
		}
	}
	slices.SortFunc(ranges, func(a, b addrRange) int { return a.from.Compare(b.from) })
	merged := ranges[:0]
	for _, r := range ranges {
		if n := len(merged); n > 0 && r.from.Compare(merged[n-1].to) <= 0 {
			if merged[n-1].to.Less(r.to) {
				merged[n-1].to = r.to
			}
			continue
		}
		merged = append(merged, r)
	}
	return prefixSet{merged}, errors.Join(problems...)
}

// lastAddr returns the highest address of a prefix.
func lastAddr(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr()
	b := a.AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(b) // 4 or 16 bytes, as AsSlice made them
	return last
}

// contains reports whether a, in plain form, is in the set.
func (t *prefixSet) contains(a netip.Addr) bool {
	if len(t.ranges) == 0 || !a.IsValid() {
		return false
	}
	lo, hi := 0, len(t.ranges)
	for lo < hi {
		if mid := (lo + hi) / 2; t.ranges[mid].to.Less(a) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(t.ranges) && t.ranges[lo].from.Compare(a) <= 0
}
