package ratelimit

import "time"

// Shared is a Store that several processes share. Beside judging it counts what
// its policies did in this process, and says how it fares. Package redislimit has
// one.
type Shared interface {
	Store

	// Counts is what a policy did here, across reloads; zero when it is unknown.
	Counts(p *Policy) Counts
	// SharedStatsAt reads the counters.
	SharedStatsAt(now time.Time) SharedStats
}

// SharedStats is how a shared store fares, for metrics. The counters only grow.
type SharedStats struct {
	Available bool  // it is asked; false while a breaker keeps calls away
	Nodes     int64 // processes that share, by the last count

	Asked   uint64 // decisions that needed the store
	Spared  uint64 // decisions that this process could make by itself
	Failed  uint64 // calls that failed, or whose answer came too late
	Refused uint64 // decisions that were not asked for, since the breaker was open
	Busy    uint64 // decisions that found too many others waiting
	Crowded uint64 // of Asked: about keys that found no room in this process's memory

	// ForgottenUnits were granted here and never charged: to keys that strangers
	// invented, or because the call that told of them failed.
	ForgottenUnits uint64
	// OvershotUnits were granted beyond a limit: the price of deciding here.
	OvershotUnits uint64
	// OvershootRatio is the most that a key was overdrawn lately, as a part of what
	// the store's bound allows. Above 1 the bound did not hold.
	OvershootRatio float64
}

// countsOf is what a policy and its stand-in did, whoever keeps their buckets.
func (l *Limiter) countsOf(r *rule, c *charged) Counts {
	counts := c.policy.Counts()
	if s, ok := l.stores[r.store].(Shared); ok {
		counts = s.Counts(c.policy)
	}
	if c.local != nil {
		local := c.local.Counts()
		counts.Denied += local.Denied
		counts.WouldDeny += local.WouldDeny
		counts.Crowded += local.Crowded
	}
	return counts
}
