package identity

import (
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
// order being one list, and returns the first hop that is not trusted. Where
// the chain ends, or cannot be read, it returns the last hop that could be.
//
// cut takes the last hop off a line. It returns what is left of the line, and an
// invalid address for a hop that cannot be read.
func walk(trusted *prefixSet, remote netip.Addr, lines []string, cut func(line string) (rest string, hop netip.Addr, empty bool)) netip.Addr {
	last, hops := remote, 0
	for _, line := range slices.Backward(lines) {
		for line != "" {
			hops++
			if hops > maxHops {
				return last
			}
			rest, hop, empty := cut(line)
			line = rest
			switch {
			case empty: // RFC 9110, 5.6.1: empty elements of a list are ignored
				continue
			case !hop.IsValid():
				return last
			case !trusted.contains(hop):
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
