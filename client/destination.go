package client

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/client/budget"
)

// destination is what the client knows of a host.
type destination struct {
	name     string
	budget   *budget.Bucket
	breaker  *breaker.Breaker   // nil: none
	bulkhead *bulkhead.Bulkhead // nil: none
	// refused is the version that the destination takes no calls from: the
	// client's pointer at that time, so that it is over when the version changes.
	refused atomic.Pointer[value]
}

// blockedAt is how long the breaker will stay open.
func (d *destination) blockedAt(now time.Time) time.Duration {
	if d.breaker == nil {
		return 0
	}
	return d.breaker.StatsAt(now).RetryAfter
}

// destinations keeps those that were asked lately, in two generations: when the
// newer one is full it becomes the older one, and those that are asked again
// move up. So at most twice the limit are kept, and none that is in use is lost.
type destinations struct {
	config  *Config
	budgets *budget.Budgets
	limit   int

	last atomic.Pointer[destination] // of the generations below: most programs ask one host again and again

	mu    sync.RWMutex
	newer map[string]*destination
	older map[string]*destination
}

func newDestinations(c *Config, budgets *budget.Budgets) *destinations {
	limit := c.Budget.Destinations
	if limit == 0 {
		limit = budget.DefaultDestinations
	}
	return &destinations{config: c, budgets: budgets, limit: limit, newer: make(map[string]*destination)}
}

// of finds a host, however it is spelt.
func (t *destinations) of(name string) *destination {
	if d := t.last.Load(); d != nil && d.name == name {
		return d
	}
	name = strings.ToLower(name)
	t.mu.RLock()
	d := t.newer[name]
	t.mu.RUnlock()
	if d == nil {
		d = t.add(name)
	}
	t.last.Store(d)
	return d
}

func (t *destinations) add(name string) *destination {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.newer[name]
	if d != nil {
		return d
	}
	if d = t.older[name]; d == nil {
		name = strings.Clone(name) // the caller's may be part of a long URL
		d = &destination{name: name}
		d.budget = t.budgets.Of(name)
		if t.config.Breaker != nil {
			d.breaker, _ = breaker.New(*t.config.Breaker) // checked by New
		}
		if t.config.Bulkhead != nil {
			d.bulkhead, _ = bulkhead.New(*t.config.Bulkhead) // as above
		}
	}
	if len(t.newer) >= t.limit {
		t.older, t.newer = t.newer, make(map[string]*destination)
		t.last.Store(nil) // so that it is looked up, and moves up, once a generation
	}
	t.newer[d.name] = d
	return d
}
