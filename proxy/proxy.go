package proxy

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/target"
)

// Proxy forwards requests; it is an http.Handler. Its methods may be called from
// many goroutines. It starts no goroutine that outlives its requests and kept
// connections; Close ends the latter.
type Proxy struct {
	config    Config
	upstreams []*upstream
	preloads  bool // short bodies are read ahead
	retries   purse
}

// New returns a Proxy. The error names every problem of the configuration.
func New(c Config) (*Proxy, error) {
	if err := c.problems(); err != nil {
		return nil, err
	}
	making := makingOf(&c)
	c.withDefaults()
	making.withDefaults()
	p := &Proxy{config: c}
	alone := len(c.Upstreams) == 1
	for _, u := range c.Upstreams {
		up := c.Keep.kept(u, &making, p.upstreams, alone)
		if up == nil {
			var err error
			if up, err = newUpstream(u, &making, alone); err != nil {
				return nil, err
			}
		}
		p.upstreams = append(p.upstreams, up)
		p.preloads = p.preloads || up.transport == nil || c.Retries != nil
	}
	if c.Retries != nil {
		p.retries.saved.Store(int64(c.Retries.Burst) * wholeRetry)
	}
	for _, up := range p.upstreams {
		up.owner.Store(p)
		if c.Health == nil {
			up.vitals.out.Store(false) // nobody would bring it back
		}
	}
	p.config.Keep = nil // or the first would live as long as the last
	return p, nil
}

// Close closes the kept connections that no request uses. A Proxy that a reload
// has replaced is closed when its last request has ended; one that is used again
// afterwards dials anew. What another keeps of it (Config.Keep) stays as it is.
func (p *Proxy) Close() {
	for _, up := range p.upstreams {
		if up.owner.Load() == p {
			up.closeIdle()
		}
	}
}

// ServeHTTP forwards r and relays the answer. It panics with
// http.ErrAbortHandler when the caller can no longer be given a complete answer;
// see the package comment.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		p.config.Fail(w, r, comporta.MethodNotAllowed, errors.New("proxy: CONNECT is not forwarded"))
		return
	}
	if _, err := target.Canonical(r.URL); err != nil {
		p.config.Fail(w, r, comporta.MalformedRequest, err)
		return
	}
	x := newExchange(p, w, r)
	defer x.end()
	a, f := x.ask()
	if f != nil {
		x.fail(f)
		return
	}
	if status, _ := a.head(); status == http.StatusSwitchingProtocols {
		if err := x.tunnel(a); err != nil {
			x.fail(&failure{reason: comporta.UpstreamFailed, err: err})
		}
		return
	}
	x.relay(a)
}

// spent reports whether a deadline leaves less than the millisecond in which it
// can be told to an upstream.
func spent(ctx context.Context, now time.Time) bool {
	deadline, ok := ctx.Deadline()
	return ok && deadline.Sub(now) < time.Millisecond
}
