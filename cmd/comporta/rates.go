package main

import (
	"errors"
	_ "time/tzdata" // quotas begin by the clocks of a place, also in an image that has no files

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/internal/config"
)

// ratesOf is the gate's rate rules.
func ratesOf(c *config.Config) (gate.RateLimits, error) {
	var g gate.RateLimits
	var problems []error
	for i := range c.RateLimits {
		rule, err := c.RateLimits[i].Rule(c.Routes)
		problems = append(problems, err)
		g.Rules = append(g.Rules, rule)
	}
	return g, errors.Join(problems...)
}
