package ratelimit

import (
	"errors"
	"fmt"
	"time"
)

// Limit is a token bucket: it holds at most Burst units and regains them at
// Rate. In every window of length W at most Burst + Rate·W are admitted.
//
// The zero value denies everything.
type Limit struct {
	Rate Rate
	// Burst is the units of a full bucket, and the highest cost of one request;
	// 0 means Rate.Count: what the rate gives in its own time. A Burst without a
	// rate denies everything as well: what is never regained is a quota.
	Burst int64
}

// none reports whether nothing was written.
func (l Limit) none() bool { return l == Limit{} }

// size is the units of a full bucket.
func (l Limit) size() int64 {
	if l.Rate.Count <= 0 {
		return 0
	}
	if l.Burst == 0 {
		return l.Rate.Count
	}
	return l.Burst
}

// Window is the time in which an empty bucket fills; 0 when it never does.
func (l Limit) Window() time.Duration {
	if l.Rate.Count <= 0 || l.Rate.Per <= 0 {
		return 0
	}
	us := mulDivCeil(uint64(max(l.size(), 0)), uint64(l.Rate.Per.Microseconds()), uint64(l.Rate.Count))
	return micros(us)
}

// check reports every fault, or nil.
func (l Limit) check() error {
	err := l.Rate.check()
	if l.Burst < 0 {
		err = errors.Join(err, fmt.Errorf("burst %d is negative: leave it out to mean what the rate gives in its time", l.Burst))
	}
	if err == nil && l.Window() > maxWindow {
		err = fmt.Errorf("a burst of %d takes more than %v to refill at %v: lower the burst", l.size(), maxWindow, l.Rate)
	}
	return err
}
