package grpcclient

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/client/budget"
)

// destination is what the client knows of a target.
type destination struct {
	name     string
	budget   *budget.Bucket
	breaker  *breaker.Breaker   // nil: none
	bulkhead *bulkhead.Bulkhead // nil: none
	// refused is the version that the destination takes no calls from: the
	// client's pointer at that time, so that it is over when the version changes.
	refused atomic.Pointer[string]
}

// blockedAt is how long the breaker will stay open.
func (d *destination) blockedAt(now time.Time) time.Duration {
	if d.breaker == nil {
		return 0
	}
	return d.breaker.StatsAt(now).RetryAfter
}

// destinations keeps those that were asked lately, by the target that a
// connection was made for, in two generations: when the newer one is full it
// becomes the older one, and those that are asked again move up. So at most
// twice the limit are kept, and none that is in use is lost.
type destinations struct {
	config  *Config
	budgets *budget.Budgets
	limit   int

	mu    sync.RWMutex
	newer map[string]*destination
	older map[string]*destination
}

func newDestinations(c *Config, budgets *budget.Budgets) destinations {
	limit := c.Budget.Destinations
	if limit == 0 {
		limit = budget.DefaultDestinations
	}
	return destinations{config: c, budgets: budgets, limit: limit, newer: make(map[string]*destination)}
}

func (t *destinations) of(target string) *destination {
	t.mu.RLock()
	d := t.newer[target]
	t.mu.RUnlock()
	if d != nil {
		return d
	}
	return t.add(target)
}

func (t *destinations) add(target string) *destination {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.newer[target]
	if d != nil {
		return d
	}
	if d = t.older[target]; d == nil {
		d = t.make(target)
	}
	if len(t.newer) >= t.limit {
		t.older, t.newer = t.newer, make(map[string]*destination)
	}
	t.newer[target] = d
	return d
}

func (t *destinations) make(target string) *destination {
	d := &destination{name: endpoint(target)}
	d.budget = t.budgets.Of(d.name)
	if t.config.Breaker != nil {
		d.breaker, _ = breaker.New(*t.config.Breaker) // checked by New
	}
	if t.config.Bulkhead != nil {
		d.bulkhead, _ = bulkhead.New(*t.config.Bulkhead) // as above
	}
	return d
}

// endpoint is what a target ("dns:///orders:443") is called in reports, budgets
// and limits: the part that the resolver looks up, as the host of a URL is for
// HTTP.
func endpoint(target string) string {
	_, rest, found := strings.Cut(target, "://")
	if !found {
		return target
	}
	if _, name, found := strings.Cut(rest, "/"); found && name != "" {
		return name
	}
	return target
}
