package redislimit

import (
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/breaker"
)

// Trace is told when Redis goes and comes. Nil fields are not called. They are
// called from the goroutine that noticed, outside all locks, and must not block.
type Trace struct {
	// Lost is called when a heartbeat fails or the breaker opens. cause is nil when
	// only the breaker's count of failures speaks.
	Lost func(now time.Time, cause error)
	// Found is called when a heartbeat succeeds or the breaker closes after that.
	Found func(now time.Time)
}

// health is what is known of Redis beside the breaker's count.
type health struct {
	trace Trace
	lost  atomic.Bool // as Trace was told
	// silent: the last round trip brought nothing. Until the next one does, nothing
	// is granted here that Redis would have to be told of: a closed rule would let
	// callers in, and a local one would count them twice.
	silent atomic.Bool
}

// spoke notes the end of a round trip.
func (h *health) spoke(err error) {
	if silent := err != nil; h.silent.Load() != silent {
		h.silent.Store(silent)
	}
}

// beat notes the end of a heartbeat.
func (h *health) beat(now time.Time, err error) {
	h.spoke(err)
	if err != nil {
		h.lose(now, err)
	} else {
		h.find(now)
	}
}

// changed follows the breaker.
func (h *health) changed(now time.Time, c breaker.Change) {
	switch c.To {
	case breaker.Open:
		h.lose(now, nil)
	case breaker.Closed:
		h.find(now)
	default:
	}
}

func (h *health) lose(now time.Time, cause error) {
	if h.lost.CompareAndSwap(false, true) && h.trace.Lost != nil {
		h.trace.Lost(now, cause)
	}
}

func (h *health) find(now time.Time) {
	if h.lost.CompareAndSwap(true, false) && h.trace.Found != nil {
		h.trace.Found(now)
	}
}
