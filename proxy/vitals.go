package proxy

import (
	"sync"
	"sync/atomic"
	"time"
)

// vitals are what the checks know of an upstream, and when it came back.
type vitals struct {
	out  atomic.Bool  // the checks say that it cannot serve
	back atomic.Int64 // Unix nanoseconds of its return; 0 = it was never away

	mu      sync.Mutex
	inARow  int  // checks with the same result, the last one included
	last    bool // that result
	checked bool // there was one
}

// checkedAt takes the result of a check, and reports whether it changes the state.
func (v *vitals) checkedAt(now time.Time, good bool, h *Health) (changed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.inARow++; !v.checked || good != v.last {
		v.inARow = 1
	}
	v.checked, v.last = true, good
	out := v.out.Load()
	switch {
	case out && good && v.inARow >= h.Healthy:
		v.backAt(now)
		v.out.Store(false)
	case !out && !good && v.inARow >= h.Unhealthy:
		v.out.Store(true)
	default:
		return false
	}
	return true
}

// backAt begins the slow start of an upstream that takes part again.
func (v *vitals) backAt(now time.Time) { v.back.Store(now.UnixNano()) }

// coldShare is the share of its traffic with which an upstream begins that has come
// back.
const coldShare = 0.1

// shareAt returns how much of its share of the traffic an upstream gets: less than 1
// during its slow start. A service that has just begun has cold caches and no
// connections, and a full load at once would send it away again.
func (v *vitals) shareAt(now time.Time, slow time.Duration) float64 {
	back := v.back.Load()
	if back == 0 || slow <= 0 {
		return 1
	}
	since := now.UnixNano() - back
	if since < 0 || since >= int64(slow) { // a clock that was set back ends it
		v.back.CompareAndSwap(back, 0)
		return 1
	}
	return coldShare + (1-coldShare)*float64(since)/float64(slow)
}
