package proxy

import (
	"net/url"
	"time"

	"github.com/comporta/comporta/breaker"
)

// Stats is a view of a Proxy for metrics and status pages.
type Stats struct {
	Upstreams []UpstreamStats
	// Panic is set when the checks say that no upstream can serve. All are asked then.
	Panic bool
	// RetriesRefused are the retries that the budget had no room for.
	RetriesRefused uint64
}

// UpstreamStats is a view of one upstream.
type UpstreamStats struct {
	Upstream *url.URL // as configured; not to be modified
	InFlight int64
	// Healthy is what the checks say; true without checks.
	Healthy bool
	// Share is the part of its traffic that it gets: below 1 during its slow start.
	Share float64
	// Breaker is the state of its breaker, and Opened how often it has opened.
	Breaker breaker.State
	Opened  uint64
	// Waiting are the requests that wait for a connection, and Exhausted those that
	// got none in time because all were in use. Both are 0 for HTTP/2.
	Waiting   int
	Exhausted uint64
	// Idle are the unused connections, Dialed those that were ever made, Stale those
	// that were found dead before they were used. All are 0 for HTTP/2 and TLS.
	Idle          int
	Dialed, Stale uint64
	// Retries are the requests that were sent to it again.
	Retries uint64
}

// StatsAt returns the present counts.
func (p *Proxy) StatsAt(now time.Time) Stats {
	s := Stats{Panic: p.panicking(), RetriesRefused: p.retries.refused.Load()}
	for _, up := range p.upstreams {
		u := UpstreamStats{
			Upstream: up.url, InFlight: up.inFlight.Load(),
			Healthy: !up.vitals.out.Load(), Share: up.vitals.shareAt(now, p.config.SlowStart),
			Breaker: up.stateAt(now), Opened: up.counts.opened.Load(),
			Exhausted: up.counts.exhausted.Load(), Retries: up.counts.retries.Load(),
		}
		if up.pool != nil {
			pool := up.pool.Stats()
			u.Idle, u.Dialed, u.Stale = pool.Idle, pool.Dialed, pool.Stale
			u.Waiting = up.places.Stats().Waiting
		}
		s.Upstreams = append(s.Upstreams, u)
	}
	return s
}
