package front

import (
	"net/netip"
	"sync"
	"sync/atomic"
)

// ConnectionLimits bound open connections; 0 means no bound.
type ConnectionLimits struct {
	Total int // of all networks, also the exempt
	// Network bounds those of one network: an IPv4 address or an IPv6 /64.
	Network int
	// Exempt reports whether an address is outside the bound by network alone, as that of
	// a load balancer is, through which many networks come. nil exempts nobody.
	Exempt func(netip.Addr) bool
}

// Connections counts open connections, by network where that is bounded: the table
// holds one entry for each network with an open connection, and no other. Make one
// with NewConnections. Its methods may be called from many goroutines.
type Connections struct {
	limits atomic.Pointer[ConnectionLimits]

	mu       sync.Mutex
	networks map[netip.Prefix]int
	stats    ConnectionStats // but for what Stats fills in
}

// NewConnections returns counters at zero.
func NewConnections(limits ConnectionLimits) *Connections {
	c := &Connections{networks: map[netip.Prefix]int{}}
	c.SetLimits(limits)
	return c
}

// SetLimits changes the bounds. Connections that are open stay.
func (c *Connections) SetLimits(limits ConnectionLimits) { c.limits.Store(&limits) }

// Protocol is what a connection speaks.
type Protocol uint8

// The protocols of connections.
const (
	ProtocolHTTP1    Protocol = iota // also those that have not said anything yet
	ProtocolHTTP2                    // handed to net/http
	ProtocolUpgraded                 // taken over by a handler

	numProtocols = iota
)

// String returns the label of metrics.
func (p Protocol) String() string {
	return [numProtocols]string{"http1", "http2", "upgraded"}[p%numProtocols]
}

// ConnectionStats is what Connections has counted, the last three since the beginning.
type ConnectionStats struct {
	Open      int
	Protocols [numProtocols]int // of Open, by Protocol
	Networks  int               // entries of the table
	Total     int               // the bound of all together; 0: none

	Accepted       uint64 // also those whose PROXY header then named a network without room
	RefusedTotal   uint64 // there were too many in all
	RefusedNetwork uint64 // there were too many from one network
}

// Stats returns the counts.
func (c *Connections) Stats() ConnectionStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Networks, s.Total = len(c.networks), c.limits.Load().Total
	return s
}

// place is one open connection among the counted.
type place struct {
	c        *Connections
	network  netip.Prefix // invalid: not counted by network
	protocol Protocol
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
	c.mu.Lock()
	defer c.mu.Unlock()
	if limits.Total > 0 && c.stats.Open >= limits.Total {
		c.stats.RefusedTotal++
		return place{}, false
	}
	p.c = c
	if !p.join(addr, limits) {
		return place{}, false
	}
	c.stats.Accepted++
	c.stats.Open++
	c.stats.Protocols[p.protocol]++
	return p, true
}

// join counts the connection under the network of addr, if there is room for it. The
// caller holds c.mu.
func (p *place) join(addr netip.Addr, limits *ConnectionLimits) (ok bool) {
	if limits.Network <= 0 || !addr.IsValid() || limits.Exempt != nil && limits.Exempt(addr) {
		return true
	}
	c, network := p.c, networkOf(addr)
	if c.networks[network] >= limits.Network {
		c.stats.RefusedNetwork++
		return false
	}
	p.network = network
	c.networks[network]++
	return true
}

// found is told the address of a connection that entered without one. Where its
// network has no room, the place is given back.
func (p *place) found(addr netip.Addr) (ok bool) {
	c := p.c
	c.mu.Lock()
	ok = p.join(addr, c.limits.Load())
	c.mu.Unlock()
	if !ok {
		p.leave()
	}
	return ok
}

// become says what the connection speaks from now on.
func (p *place) become(to Protocol) {
	c := p.c
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Protocols[p.protocol]--
	p.protocol = to
	c.stats.Protocols[to]++
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
	c.stats.Open--
	c.stats.Protocols[p.protocol]--
	if p.network.IsValid() {
		if c.networks[p.network]--; c.networks[p.network] <= 0 {
			delete(c.networks, p.network)
		}
	}
}
