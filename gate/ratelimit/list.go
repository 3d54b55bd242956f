package ratelimit

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/comporta/comporta"
)

// List names clients and networks that no rule is asked about. The zero value is
// empty.
type List struct {
	Networks []netip.Prefix
	Clients  []string // readable names, Client.Name
	Keys     []uint64 // Client.Key
}

// ParseNetworks reads addresses and prefixes ("10.0.0.0/8", "2001:db8::1").
func ParseNetworks(texts ...string) ([]netip.Prefix, error) {
	var problems []error
	networks := make([]netip.Prefix, 0, len(texts))
	for _, s := range texts {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			var a netip.Addr
			if a, err = netip.ParseAddr(s); err == nil {
				p = netip.PrefixFrom(plain(a), plain(a).BitLen())
			}
		}
		if err != nil || p.Addr().Zone() != "" {
			problems = append(problems, fmt.Errorf("ratelimit: network %q: write an address or a prefix, like 10.0.0.0/8", s))
			continue
		}
		networks = append(networks, p.Masked())
	}
	return networks, errors.Join(problems...)
}

// list is a List made ready: a look-up costs one map access a prefix length.
type list struct {
	bits4, bits6 []int
	networks     map[netip.Prefix]struct{}
	clients      map[string]struct{}
	keys         map[uint64]struct{}
}

func (l List) compile() (list, error) {
	c := list{
		networks: make(map[netip.Prefix]struct{}, len(l.Networks)),
		clients:  make(map[string]struct{}, len(l.Clients)),
		keys:     make(map[uint64]struct{}, len(l.Keys)),
	}
	var problems []error
	for _, p := range l.Networks {
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		if !p.IsValid() {
			problems = append(problems, fmt.Errorf("network %v is invalid", p))
			continue
		}
		bits := &c.bits6
		if p.Addr().Is4() {
			bits = &c.bits4
		}
		if !slices.Contains(*bits, p.Bits()) {
			*bits = append(*bits, p.Bits())
		}
		c.networks[p.Masked()] = struct{}{}
	}
	for _, name := range l.Clients {
		if name == "" {
			problems = append(problems, errors.New("a client without a name would be everybody: leave it out"))
		}
		c.clients[name] = struct{}{}
	}
	for _, key := range l.Keys {
		if key == 0 {
			problems = append(problems, errors.New("key 0 is no client: leave it out"))
		}
		c.keys[key] = struct{}{}
	}
	return c, errors.Join(problems...)
}

func (l *list) holds(r *comporta.Request) bool {
	c := &r.Client
	if len(l.keys) > 0 {
		if _, ok := l.keys[c.Key]; ok {
			return true
		}
	}
	if len(l.clients) > 0 && c.Name != "" {
		if _, ok := l.clients[c.Name]; ok {
			return true
		}
	}
	return len(l.networks) > 0 && l.holdsAddr(plain(addressOf(r)))
}

func (l *list) holdsAddr(a netip.Addr) bool {
	bits := l.bits6
	if a.Is4() {
		bits = l.bits4
	}
	for _, n := range bits {
		p, err := a.Prefix(n)
		if err != nil {
			return false // no address
		}
		if _, ok := l.networks[p]; ok {
			return true
		}
	}
	return false
}
