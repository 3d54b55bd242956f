package store

import "time"

// Steady measures the instants that an engine without a clock of its own is
// given. Within the process it goes by the monotonic clock, so that a step of
// the wall clock ends no lease early and keeps none alive; the wall clock is read
// once, when the engine is opened, to place instants among those of earlier
// processes. The zero value takes instants as they come.
type Steady struct{ base time.Time }

// SteadyFrom returns a Steady that was opened at now.
func SteadyFrom(now time.Time) Steady { return Steady{base: now} }

// At returns now as the wall clock would show it, had nobody touched that since
// the engine was opened.
func (s Steady) At(now time.Time) time.Time {
	if s.base.IsZero() {
		return now.Round(0)
	}
	return s.base.Round(0).Add(now.Sub(s.base))
}
