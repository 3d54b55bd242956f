package admission

import (
	"time"

	"github.com/comporta/comporta"
)

// Learner finds the limit from what admission tells it. Its methods are called
// from many goroutines, and must not call back. inflight is the weight in flight
// after the event; events of different goroutines may arrive out of order.
type Learner interface {
	// Limit returns the weight that may be in flight now. It is called for each decision.
	Limit() int
	// StartAt tells of a request that entered.
	StartAt(now time.Time, inflight int)
	// DoneAt tells of an answer that says something about the service: a success
	// with its latency, or a drop (a timeout, 504, or no connection).
	DoneAt(now time.Time, inflight int, latency time.Duration, drop bool)
	// IgnoreAt tells of a request that left and says nothing about the service.
	IgnoreAt(now time.Time, inflight int)
	// RefusedAt tells of a request that the limit kept out.
	RefusedAt(now time.Time)
}

// sample says what an outcome means to the learner. Only answers of the service
// itself count: cancels, streams, and errors other than timeouts say nothing
// about how much it can carry at once, and a fast error would look like health.
func sample(o *comporta.Outcome) (counts, drop bool) {
	switch {
	case o.Stream:
		return false, false
	case o.Result == comporta.ResultTimeout, o.Result == comporta.ResultUnreachable:
		return true, true
	case o.Status == 504 && o.Result != comporta.ResultAbandoned:
		return true, true
	case o.Result == comporta.ResultSuccess && o.Latency > 0:
		return true, false
	}
	return false, false
}
