package admission

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	// idleAfter is how long no original must have come before repeats may use
	// most of what is reserved for them.
	idleAfter = 5 * time.Second
	// idleCeiling is what they may use then. The rest lets the first original in
	// that shows up again.
	idleCeiling = 0.95
)

// idleReserve remembers whether the reserve of PolicyReserve stands idle.
type idleReserve struct {
	originalAt atomic.Int64 // when an original last came, Unix ns; 0 before the first decision
	lifted     atomic.Bool
}

// sawOriginal notes an original.
func (i *idleReserve) sawOriginal(now int64) { remember(&i.originalAt, now) }

// refusedOriginal takes the lift back: somebody misses the room.
func (i *idleReserve) refusedOriginal() {
	if i.lifted.Load() {
		i.lifted.Store(false)
	}
}

// liftedAt reports whether repeats may use the reserve.
func (i *idleReserve) liftedAt(now int64) bool {
	if i.lifted.Load() {
		return true
	}
	last := i.originalAt.Load()
	if last == 0 || now < last { // just started, or the clock stepped back: count from here
		i.originalAt.CompareAndSwap(last, now)
		return false
	}
	if now-last < int64(idleAfter) {
		return false
	}
	i.lifted.Store(true)
	return true
}

// repeatCeiling returns the weight up to which repeats enter under PolicyReserve.
func (c *Controller) repeatCeiling(now time.Time, limit int) int {
	share := 1 - c.reserve
	if share < idleCeiling && c.state.idle.liftedAt(now.UnixNano()) {
		share = idleCeiling
	}
	return int(math.Floor(share*float64(limit) + 1e-9)) // 0.7 × 10 is 7, whatever the rounding
}
