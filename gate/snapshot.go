package gate

import (
	"time"

	"github.com/comporta/comporta/gate/admission/seek"
	"github.com/comporta/comporta/gate/calendar"
	"github.com/comporta/comporta/gate/ratelimit"
)

// Stats is how the gate stands at one moment: what the gauges show.
type Stats struct {
	Inflight, Capacity, Waiting, Streams int
	Rate, Drain                          float64 // requests that leave per second, and that could
	Traffic                              Traffic
	Verdict                              Verdict
	Level                                Level
	Slots                                calendar.Stats
	Estimates                            calendar.Estimates
	Learned                              *seek.Snapshot // nil: static capacity
	SightingsEvicted, ProvenEvicted      uint64
	BufferedBytes                        int64
	RatesCrowded                         uint64 // requests whose keys found no room in the table of rate rules
	Exempt, VersionAbsent                uint64
	// SharedLimits is how each shared store of rate rules fares, by its name.
	SharedLimits map[string]ratelimit.SharedStats
}

// StatsAt returns how the gate stands.
func (g *Gate) StatsAt(now time.Time) Stats {
	a, s := g.admission.StatsAt(now), g.state
	stats := Stats{
		Inflight: a.InFlight, Capacity: a.Limit, Waiting: a.Waiting, Streams: a.Streams, Rate: a.Rate, Drain: a.Drain,
		Traffic: s.watch.trafficAt(now), Verdict: s.watch.verdictAt(now), Level: g.LevelAt(now),
		Slots: s.slots.Stats(), Estimates: s.slots.Estimates(),
		SightingsEvicted: g.table.Evictions(), ProvenEvicted: s.proven.Evicted(),
		BufferedBytes: s.buffered.Load(), Exempt: s.counters.exempt.Load(), VersionAbsent: s.counters.versionAbsent.Load(),
	}
	if g.rates != nil {
		stats.RatesCrowded = g.rates.Crowded()
	}
	stats.SharedLimits = g.sharedLimitsAt(now)
	if g.learned != nil {
		l := g.learned.Snapshot()
		stats.Learned = &l
	}
	return stats
}
