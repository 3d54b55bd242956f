package idempotency

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/store"
)

// trip keeps requests from waiting for a store that is down: while they wait they
// hold a permit each, and the house would be full of them. After a few failures
// in a row it fails at once for a while; then one call tries again.
type trip struct {
	failures atomic.Int64
	until    atomic.Int64 // Unix ns at which the next call may try; 0: never failed
}

const (
	tripAfter = 3
	tripFor   = time.Second
)

// errDown: the store has failed several times in a row and is left alone.
var errDown = errors.New("idempotency: the store is down")

// allow reports whether a call may try.
func (t *trip) allow(now time.Time) bool {
	if t.failures.Load() < tripAfter {
		return true
	}
	until := t.until.Load()
	// One of those who come after the pause tries for all.
	return now.UnixNano() >= until && t.until.CompareAndSwap(until, now.Add(tripFor).UnixNano())
}

// tell learns how a call went. What the store says is no failure of it.
func (t *trip) tell(now time.Time, err error) {
	switch {
	case err == nil, errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrLost),
		errors.Is(err, store.ErrTooLarge), errors.Is(err, store.ErrInvalid):
		t.failures.Store(0)
	default:
		if t.failures.Add(1) >= tripAfter {
			t.until.Store(now.Add(tripFor).UnixNano())
		}
	}
}
