package repeat

import "sync/atomic"

// MaxRoutes is the number of routes whose successes are remembered one by one.
// On a route with a higher index a 5xx never counts as the request's own doing.
const MaxRoutes = 1024

const (
	routeCells = 32
	// othersNeeded is the number of other fingerprints that must have succeeded
	// before a 5xx is put down to the request.
	othersNeeded = 10
	// othersWindow is how long ago they may have succeeded: 60 s.
	othersWindow = 240
	// cellRest is how long a cell keeps what it says before another fingerprint
	// may take it, so that a busy route does not write to it on every answer: 1 s.
	cellRest = 4
)

// route remembers how the latest requests of a route ended: a fingerprint always
// falls on the same cell, so that full cells are different fingerprints. Two that
// share a cell count once, which errs towards saying nothing.
//
// Failures are kept beside successes: in the first seconds of an outage there
// are still ten recent successes, and every failure would look like the
// request's own doing.
type route [routeCells]atomic.Uint64

// A cell holds tag (bits 63-37), tick (36-17), and in bit 0 whether it failed.
func cellWord(tag, at uint64, failed bool) uint64 {
	w := tag<<tagShift | at<<tickShift
	if failed {
		w |= 1
	}
	return w
}

// note remembers how a request with this tag ended.
func (r *route) note(tag, at uint64, failed bool) {
	cell := &r[tag%routeCells]
	was := cell.Load()
	now := cellWord(tag, at, failed)
	if was != 0 && (was^now)&1 == 0 && (at-word(was).tick())&tickMask < cellRest {
		return
	}
	cell.Store(now) // a lost race loses one of two notes of the same second
}

// healthy reports whether the route serves others than tag: ten of them or more
// succeeded within the minute, at least four times as many as failed, and one
// of them after since.
func (r *route) healthy(tag, since, at uint64) bool {
	minute := moment{at: at, window: othersWindow}
	succeeded, failed, later := 0, 0, false
	for i := range r {
		w := word(r[i].Load())
		if w.tag() == tag || !minute.fresh(w) {
			continue
		}
		if w&1 == 1 {
			failed++
			continue
		}
		succeeded++
		if d := (w.tick() - since) & tickMask; d > 0 && d <= othersWindow {
			later = true
		}
	}
	return succeeded >= othersNeeded && succeeded >= 4*failed && later
}
