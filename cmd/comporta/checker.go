package main

import (
	"context"
	"sync"
	"time"

	"github.com/comporta/comporta/internal/admin"
	"github.com/comporta/comporta/proxy"
)

// upstreams tells the operator how those of the present configuration do.
func (a *app) upstreams() []admin.Upstream {
	var list []admin.Upstream
	stats := a.current.Load().proxy.StatsAt(time.Now())
	for i := range stats.Upstreams {
		u := &stats.Upstreams[i]
		list = append(list, admin.Upstream{
			URL: u.Upstream.Redacted(), Healthy: u.Healthy, Breaker: u.Breaker.String(), Share: u.Share, Inflight: u.InFlight, Waiting: u.Waiting,
		})
	}
	return list
}

// checker runs the health checks of the proxy that serves. The zero value runs none.
type checker struct {
	mu     sync.Mutex
	cancel context.CancelCauseFunc // nil while none run
	wg     sync.WaitGroup
}

// change runs the checks of p, nil for none, in the place of those before, for which
// it waits.
func (c *checker) change(p *proxy.Proxy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel(errReplaced)
		c.cancel = nil
		c.wg.Wait()
	}
	if p == nil {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	c.cancel = cancel
	c.wg.Go(func() { p.Run(ctx) })
}
