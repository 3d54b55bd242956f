package front

import (
	"net/netip"
	"sync"
	"sync/atomic"
)

// ConnectionLimits bound open connections; 0 means no bound.
type ConnectionLimits struct {
	Total int
	// Network bounds those of one network: an IPv4 address or an IPv6 /64.
	Network int
	// Exempt reports whether an address is outside the bound by network, as that of
	// a load balancer is, through which many networks come. nil exempts nobody.
	Exempt func(netip.Addr) bool
}

// Connections counts open connections, by network where that is bounded: the table
// holds one entry for each network with an open connection, and no other. Make one
// with NewConnections. Its methods may be called from many goroutines.
type Connections struct {
	limits atomic.Pointer[ConnectionLimits]

	mu       sync.Mutex
	total    int
	networks map[netip.Prefix]int
	refused  uint64
}

// NewConnections returns counters at zero.
func NewConnections(limits ConnectionLimits) *Connections {
	c := &Connections{networks: map[netip.Prefix]int{}}
	c.SetLimits(limits)
	return c
}

// SetLimits changes the bounds. Connections that are open stay.
func (c *Connections) SetLimits(limits ConnectionLimits) { c.limits.Store(&limits) }

// ConnectionStats is what Connections has counted.
type ConnectionStats struct {
	Open     int
	Networks int    // entries of the table
	Refused  uint64 // since the beginning
}

// Stats returns the counts.
func (c *Connections) Stats() ConnectionStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ConnectionStats{c.total, len(c.networks), c.refused}
}

// place is one open connection among the counted.
type place struct {
	c       *Connections
	network netip.Prefix // invalid: not counted by network
}

// networkOf returns what an address is counted under.
func networkOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap()
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	p, err := addr.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{} // no address at all
	}
	return p
}

// enter counts a connection from addr, if there is room for it.
func (c *Connections) enter(addr netip.Addr) (p place, ok bool) {
	limits := c.limits.Load()
	p.c = c
	c.mu.Lock()
	defer c.mu.Unlock()
	if limits.Total > 0 && c.total >= limits.Total {
		c.refused++
		return place{}, false
	}
	if limits.Network > 0 && addr.IsValid() && (limits.Exempt == nil || !limits.Exempt(addr)) {
		p.network = networkOf(addr)
		if c.networks[p.network] >= limits.Network {
			c.refused++
			return place{}, false
		}
		c.networks[p.network]++
	}
	c.total++
	return p, true
}

// leave gives the place back, once.
func (p *place) leave() {
	c := p.c
	if c == nil {
		return
	}
	p.c = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	if p.network.IsValid() {
		if c.networks[p.network]--; c.networks[p.network] <= 0 {
			delete(c.networks, p.network)
		}
	}
}
