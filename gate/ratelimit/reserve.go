package ratelimit

import (
	"errors"
	"fmt"
	"time"
)

// The reasons for which nothing is reserved.
var (
	ErrNever        = errors.New("ratelimit: the cost is above the burst: no waiting makes it affordable")
	ErrTooLong      = errors.New("ratelimit: the wait is longer than allowed")
	ErrTooManyWait  = errors.New("ratelimit: too many callers wait already")
	errNoRoomToWait = fmt.Errorf("%w: the table has no room for the key", ErrTooLong)
)

// TooLongError says how long the wait would have been. It is an ErrTooLong.
type TooLongError struct{ Wait time.Duration }

// Error implements error.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("ratelimit: the units come in %v, which is longer than allowed", e.Wait)
}

// Is makes errors.Is(err, ErrTooLong) true.
func (*TooLongError) Is(target error) bool { return target == ErrTooLong }

// Reservation is units that were taken ahead of their time. It belongs to one
// goroutine.
type Reservation struct {
	Wait time.Duration // until the holder may act; 0: at once

	bucket *Bucket
	name   uint64
	units  int64
	due    time.Time
}

// ReserveAt takes n units for key although they may come only later, by at most
// maxWait. A refusal takes nothing, however often it happens. The errors are
// ErrNever, a *TooLongError, ErrNegativeCost and ErrEmptyKey.
func (b *Bucket) ReserveAt(now time.Time, key string, n int64, maxWait time.Duration) (Reservation, error) {
	if err := checkCall(key, n); err != nil {
		return Reservation{}, err
	}
	name := b.policy.nameOfString(key)
	wait, err := b.table.reserve(stampOf(now), b.policy, name, n, min(maxWait, b.maxWait))
	if err != nil {
		return Reservation{}, err
	}
	return Reservation{Wait: wait, bucket: b, name: name, units: n, due: now.Add(wait)}, nil
}

// CancelAt gives the units back to whoever comes next. It does nothing once the
// instant has come, because the holder may have acted, and nothing the second time.
func (r *Reservation) CancelAt(now time.Time) {
	if r.bucket == nil || !now.Before(r.due) {
		return
	}
	r.giveBack(now)
}

func (r *Reservation) giveBack(now time.Time) {
	r.bucket.table.giveBack(stampOf(now), r.bucket.policy, r.name, r.units)
	r.bucket = nil
}

func (t *Table) reserve(now stamp, p *Policy, name uint64, n int64, maxWait time.Duration) (time.Duration, error) {
	if n > p.Units() || p.Units() == 0 {
		return 0, ErrNever
	}
	if n == 0 {
		return 0, nil
	}
	s := &t.shards[t.shardOf(name)]
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.lines[p.family]
	where := pairOf(lines, name)
	c := where.find(name)
	var was uint64
	if c != nil {
		was = c.word
	}
	j := p.judge(now, was, n)
	if j.wait > max(maxWait, 0) {
		p.deny(n)
		return 0, &TooLongError{j.wait}
	}
	floor, known := dead(p.family, now), p.Unseen.none()
	if c == nil {
		if c = where.room(lines, known, floor); c == nil {
			t.crowded.Add(1)
			return 0, errNoRoomToWait
		}
	}
	if !known && was < floor {
		if wait, ok := p.takeAggregate(now, n); !ok {
			p.deny(n)
			return 0, &TooLongError{wait} // nobody stands in line for a bucket of strangers
		}
	}
	c.name, c.word = name, j.after
	return j.wait, nil
}
