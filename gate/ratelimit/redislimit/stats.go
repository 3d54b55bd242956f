package redislimit

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/gate/ratelimit"
)

// tally is the counters of a store.
type tally struct {
	trips, asked, fromLease, fromDebt, denied atomic.Uint64
	leased, returned, reported                atomic.Uint64
	errors, refused, busy, late, missed       atomic.Uint64
	crowded, learned, overshot                atomic.Uint64

	mu    sync.Mutex
	peaks [2]peak // of this minute and the one before
}

// peak is the highest overshoot of a minute.
type peak struct {
	minute int64
	ratio  float64
}

// Stats is a view of a Store for metrics.
type Stats struct {
	Nodes   int64 // that live, by the last count
	Breaker breaker.State

	Trips  uint64 // calls of the script
	Asked  uint64 // questions that went with them
	Leases uint64 // debits paid from a lease, without a question
	Cold   uint64 // debits paid from a key's allowance, without a question
	Denied uint64 // calls denied from memory, without a question

	LeasedUnits   uint64 // that Redis lent
	ReturnedUnits uint64 // of leases and of requests that another rule denied
	ReportedUnits uint64 // granted here first and charged later
	// ForgottenUnits were granted here and never charged: their key was evicted,
	// or the call that told of them failed.
	ForgottenUnits uint64

	Errors  uint64 // calls of the script that failed
	Refused uint64 // questions that the open breaker refused
	Busy    uint64 // questions that found the queue full
	Late    uint64 // callers that left before the answer
	Missed  uint64 // heartbeats that failed
	Crowded uint64 // questions about keys that found no room in the memory
	Learned uint64 // times that grants were halved because Redis may have forgotten

	// OvershotUnits were granted here and charged to a bucket that was empty by
	// then.
	OvershotUnits uint64
	// OvershootRatio is the most that a bucket was overdrawn within this minute and
	// the one before, as a part of what the bound allows, min(N·L, r·T): above 1
	// the bound did not hold. Costs charged afterwards count too.
	OvershootRatio float64
}

// StatsAt reads the counters.
func (s *Store) StatsAt(now time.Time) Stats {
	t := &s.tally
	return Stats{
		Nodes: s.nodes.Load(), Breaker: s.breaker.StatsAt(now).State,
		Trips: t.trips.Load(), Asked: t.asked.Load(), Leases: t.fromLease.Load(), Cold: t.fromDebt.Load(), Denied: t.denied.Load(),
		LeasedUnits: t.leased.Load(), ReturnedUnits: t.returned.Load(), ReportedUnits: t.reported.Load(),
		ForgottenUnits: s.memory.forgotten.Load(),
		Errors:         t.errors.Load(), Refused: t.refused.Load(), Busy: t.busy.Load(), Late: t.late.Load(), Missed: t.missed.Load(),
		Crowded: t.crowded.Load(), Learned: t.learned.Load(),
		OvershotUnits: t.overshot.Load(), OvershootRatio: t.ratioAt(now),
	}
}

// SharedStatsAt implements ratelimit.Shared: the part of Stats that any shared
// store has.
func (s *Store) SharedStatsAt(now time.Time) ratelimit.SharedStats {
	st := s.StatsAt(now)
	return ratelimit.SharedStats{
		Available: !s.health.lost.Load(), Nodes: st.Nodes,
		Asked: st.Asked, Spared: st.Leases + st.Cold + st.Denied,
		Failed: st.Errors + st.Late, Refused: st.Refused, Busy: st.Busy, Crowded: st.Crowded,
		ForgottenUnits: st.ForgottenUnits, OvershotUnits: st.OvershotUnits, OvershootRatio: st.OvershootRatio,
	}
}

// overshot notes how far a settlement found, or left, its bucket overdrawn.
func (s *Store) overshot(it *item) {
	m := it.meter
	s.tally.overshot.Add(uint64(it.lease))
	if over := it.debt - m.window; over > 0 && m.interval > 0 && !m.policy.Penalty {
		s.tally.note(s.clock(), float64(over)/float64(m.interval)/s.fleet().bound(m))
	}
}

// bound is the last term of the bound: the units that all nodes together may
// have admitted beyond the limit.
func (f fleet) bound(m *meter) float64 {
	n := float64(f.nodes)
	return min(n*float64(f.lease(m)), max(m.rate*float64(f.period), n))
}

func (t *tally) note(now time.Time, ratio float64) {
	minute := now.Unix() / 60
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &t.peaks[minute&1]
	if p.minute != minute {
		*p = peak{minute: minute}
	}
	p.ratio = max(p.ratio, ratio)
}

func (t *tally) ratioAt(now time.Time) float64 {
	minute, ratio := now.Unix()/60, 0.0
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.peaks {
		if minute-p.minute <= 1 && p.minute <= minute {
			ratio = max(ratio, p.ratio)
		}
	}
	return ratio
}
