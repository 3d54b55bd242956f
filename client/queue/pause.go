package queue

import (
	"math"
	"time"
)

// cause says why nothing is sent. Their numbers are in the file.
type cause uint8

const (
	causeNone    cause = iota
	causeSpread        // the network is back
	causeOffline       // no server was reached
	causeBackoff       // a server failed, or the budget is empty
	causeServer        // a server named the wait
)

// pause is a time without sending. It is kept as its beginning and its length,
// not as its end: a clock that steps back can then be told from a long wait.
type pause struct {
	at    int64
	wait  time.Duration
	cause cause
}

// leftAt returns how much of the pause is left. If the clock has stepped back
// behind the beginning, the pause begins now: it is never longer than it was.
func (p *pause) leftAt(now time.Time) time.Duration {
	if p.cause == causeNone {
		return 0
	}
	unix := now.UnixNano()
	p.at = min(p.at, unix)
	gone := unix - p.at
	if gone < 0 { // beyond what 64 bits hold
		gone = math.MaxInt64
	}
	return max(p.wait-time.Duration(gone), 0)
}

func (p *pause) record(failures uint32) record {
	return record{kind: kindPause, id: uint64(p.cause), at: p.at, wait: p.wait, number: failures}
}

// portion returns the part u of d; u outside 0 to 1 counts as the nearer end.
func portion(u float64, d time.Duration) time.Duration {
	if !(u > 0) { // so written, it catches NaN too
		return 0
	}
	return time.Duration(min(u, 1) * float64(d))
}

// spread is the window in which the first of n items is sent.
func (c *Config) spread(n int) time.Duration {
	if n >= int(c.MaxSpread/c.PerItem) {
		return c.MaxSpread
	}
	return time.Duration(n) * c.PerItem
}

// ceiling bounds the random wait after a number of failures in a row.
func (c *Config) ceiling(failures uint32) time.Duration {
	wait := c.BaseWait
	for range failures - min(failures, 1) {
		if wait > c.MaxWait/2 {
			return c.MaxWait
		}
		wait *= 2
	}
	return min(wait, c.MaxWait)
}

// pauseAfter is the pause after an attempt that did not succeed.
//
// A wait with a ticket is this client's own instant, already spread: it is kept
// exactly, plus at most a second. Without one the same wait may have been told to
// a thousand clients, so up to a tenth is added, and a server that asks for less
// than the back-off does not lift it.
func (c *Config) pauseAfter(now time.Time, r *Result, failures uint32, u float64) pause {
	p := pause{at: now.UnixNano(), wait: portion(u, c.ceiling(failures)), cause: causeBackoff}
	named := min(max(r.Wait, 0), LargestWait)
	switch {
	case r.Fate == Offline:
		p.cause = causeOffline
	case validTicket(r.Ticket) && named > 0:
		p.wait, p.cause = named+portion(u, min(time.Second, named)), causeServer
	case named > 0:
		p.wait, p.cause = max(p.wait, named+portion(u, named/10)), causeServer
	}
	return p
}
