package main

import (
	"context"
	"sync"

	"github.com/comporta/comporta/proxy"
)

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
