package proxy

import (
	"net/url"
	"slices"

	"github.com/comporta/comporta/breaker"
)

// makingOf returns the part of a configuration that an upstream is made from. The
// rest belongs to a Proxy, which an upstream may outlive.
func makingOf(c *Config) Config {
	return Config{
		Timeout: c.Timeout, ConnectTimeout: c.ConnectTimeout, IdleTimeout: c.IdleTimeout, MaxConnections: c.MaxConnections,
		Breaker: c.Breaker, TLS: c.TLS, DialContext: c.DialContext, Trace: c.Trace, ownDial: c.DialContext != nil,
	}
}

// kept returns the upstream of p at u if one that is made from c would be the same,
// and is not among those that are kept already.
func (p *Proxy) kept(u *url.URL, c *Config, already []*upstream, alone bool) *upstream {
	if p == nil || alone != (len(p.upstreams) == 1) { // one that stands alone has other guards
		return nil
	}
	for _, up := range p.upstreams {
		if *up.url == *u && up.making.same(c) && !slices.Contains(already, up) {
			return up
		}
	}
	return nil
}

// same reports whether two makings give the same upstream. Functions cannot be
// compared: one that dials in its own way is made anew.
func (c *Config) same(o *Config) bool {
	return !c.ownDial && !o.ownDial && c.TLS == o.TLS &&
		c.Timeout == o.Timeout && c.ConnectTimeout == o.ConnectTimeout && c.IdleTimeout == o.IdleTimeout &&
		c.MaxConnections == o.MaxConnections && sameBreaker(c.Breaker, o.Breaker)
}

func sameBreaker(a, b *breaker.Config) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Window == b.Window && a.Minimum == b.Minimum && a.Failures == b.Failures &&
		a.Open == b.Open && a.Jitter == b.Jitter && a.Probes == b.Probes && a.ProbeTimeout == b.ProbeTimeout
}
