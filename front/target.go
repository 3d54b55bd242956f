package front

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// readTarget reads a request target into u, with what net/http makes of it: the
// path decoded, RawPath where that loses something. host is the valid Host.
//
// A target in absolute form must name the host that Host names, as RFC 9112, 3.2
// asks of every client. RFC 9112, 3.2.2 lets the target win over a Host that
// differs; whoever reads Host would then serve another site than we admitted to.
func readTarget(u *url.URL, method, target, host string) *Fault {
	switch {
	case target == "*":
		*u = url.URL{Path: "*"}
		if method != http.MethodOptions {
			return errAsterisk
		}
		return nil
	case target[0] != '/':
		return absolute(u, target, host)
	}
	path, query, _ := strings.Cut(target, "?")
	if plainPath(path) {
		*u = url.URL{Path: path, RawQuery: query, ForceQuery: query == "" && len(path) < len(target)}
		return nil
	}
	parsed, err := url.ParseRequestURI(target)
	if err != nil {
		return errTarget
	}
	*u = *parsed
	return nil
}

func absolute(u *url.URL, target, host string) *Fault {
	parsed, err := url.ParseRequestURI(target)
	if err != nil || parsed.Opaque != "" || parsed.User != nil || parsed.Host == "" {
		return errTarget
	}
	standard := ":80"
	switch parsed.Scheme {
	case "http":
	case "https":
		standard = ":443"
	default:
		return errTarget
	}
	if !validHost(parsed.Host) {
		return errTarget
	}
	if !strings.EqualFold(strings.TrimSuffix(parsed.Host, standard), strings.TrimSuffix(host, standard)) {
		return errTargetHost
	}
	if parsed.Path == "" {
		parsed.Path = "/"
	}
	*u = *parsed
	return nil
}

// plainPath reports whether a path means what it says: no escapes, and nothing that
// net/url would write in another way.
func plainPath(path string) bool {
	for i := range len(path) {
		if !plain[path[i]] {
			return false
		}
	}
	return true
}

var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = octets[c]&octHost != 0 || c < 0x80 && strings.IndexByte("$&+,/:;=@", byte(c)) >= 0
	}
	return t
}()

// validHost reports whether host is a name, an IPv4 address or an IPv6 address in
// brackets, with or without a port. Of what RFC 3986 allows in a name, that is what
// names of the Internet are made of and the underscore.
func validHost(host string) bool {
	if strings.HasPrefix(host, "[") {
		end := strings.IndexByte(host, ']')
		if end < 0 {
			return false
		}
		addr, err := netip.ParseAddr(host[1:end])
		return err == nil && addr.Is6() && addr.Zone() == "" && validPort(host[end+1:])
	}
	name, port := host, ""
	if colon := strings.IndexByte(host, ':'); colon >= 0 {
		name, port = host[:colon], host[colon:]
	}
	return validName(name) && validPort(port)
}

func validName(name string) bool {
	for i := range len(name) {
		if octets[name[i]]&octHost == 0 {
			return false
		}
	}
	return name != ""
}

// validPort reports whether port is empty, or a colon and up to five digits.
func validPort(port string) bool {
	if port == "" {
		return true
	}
	if port[0] != ':' || len(port) > len(":65535") {
		return false
	}
	for i := 1; i < len(port); i++ {
		if port[i]-'0' > 9 {
			return false
		}
	}
	return true
}
