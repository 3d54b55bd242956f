package config

import (
	"net"
	"net/netip"
	"strings"
)

// binding is an address that a listener needs for itself.
type binding struct {
	path, addr string
	host       netip.Addr // zero: a name, which is not looked up
	name       string     // host as it is compared
	port       int
	every      bool // every address of the machine, of both families
}

// bindingOf reads an address that checkAddr has accepted.
func bindingOf(path, addr string) binding {
	b := binding{path: path, addr: addr}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return b
	}
	if n, bad := parseInt(port); bad == nil {
		b.port = n
	}
	b.name = strings.ToLower(host)
	if a, err := netip.ParseAddr(host); err == nil {
		b.host = a.Unmap()
		b.name = b.host.String()
	}
	// net.Listen takes 0.0.0.0 for both families too, where the machine has them.
	b.every = host == "" || b.host.IsUnspecified()
	return b
}

// clashes reports whether only one of two can be bound. Port 0 is a free port each
// time, of which only the address is told.
func (b *binding) clashes(o *binding) bool {
	if b.port != o.port {
		return false
	}
	return b.name == o.name || b.port != 0 && (b.every || o.every)
}

// checkBinding returns the bindings with b, unless it clashes with one of them.
func (l *loader) checkBinding(bound []binding, b binding) []binding {
	for i := range bound {
		first := &bound[i]
		switch {
		case !first.clashes(&b):
			continue
		case first.every && first.addr != b.addr:
			l.wrongf(b.path, "give it another port, or "+first.path+" a host", "%s listens on %s already, which is every address of the machine", first.path, show(first.addr))
		case b.every && first.addr != b.addr:
			l.wrongf(b.path, "give it another port or a host", "%s listens on %s already, and this is every address of the machine", first.path, show(first.addr))
		default:
			l.wrongf(b.path, "each listener has an address of its own", "%s listens on %s already", first.path, show(first.addr))
		}
		return bound
	}
	return append(bound, b)
}
