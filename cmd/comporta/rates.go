package main

import (
	"errors"
	_ "time/tzdata" // quotas begin by the clocks of a place, also in an image that has no files

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/internal/config"
)

// ratesOf is the gate's rate rules, without the store of those that are shared.
func ratesOf(c *config.Config) (gate.RateLimits, error) {
	var g gate.RateLimits
	var problems []error
	for i := range c.RateLimits {
		rule, err := c.RateLimits[i].Rule(c.Routes)
		problems = append(problems, err)
		if c.RateLimits[i].Store == config.StoreRedis {
			rule.Store, rule.LocalShare = config.StoreRedis, 1/float64(c.Redis.Gateways)
		}
		g.Rules = append(g.Rules, rule)
	}
	return g, errors.Join(problems...)
}
