package admission

import (
	"context"
	"time"

	"github.com/comporta/comporta"
)

// Waiter is a request that stands in the queue. Whoever got it ends the wait in
// one of three ways: Await; or AnswerAt once Ready is closed or the Deadline has
// come; or AbandonAt. A hand-over and a goodbye at the same moment are settled
// under a lock: the permit is either used or passed on, never lost.
type Waiter struct {
	ctl      *Controller
	route    *route
	rank     rank
	client   uint64
	seq      uint64 // order of arrival
	start    uint64 // place among the clients of its rank, in virtual time
	since    time.Time
	deadline time.Time
	ready    chan struct{} // closed under State.mu when the answer is there

	answered bool // guarded by State.mu, as is what follows
	answer   Grant
}

// Ready is closed when AnswerAt has an answer.
func (w *Waiter) Ready() <-chan struct{} { return w.ready }

// Deadline is when the wait ends without a permit.
func (w *Waiter) Deadline() time.Time { return w.deadline }

// AnswerAt returns what became of the wait: a permit, or a refusal when the
// deadline has come or another client had more right to the place. ok is false
// while the request still stands in the queue. Every call returns the same answer.
func (w *Waiter) AnswerAt(now time.Time) (g Grant, ok bool) {
	s := w.ctl.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.answered && !now.Before(w.deadline) {
		s.dispatch(now) // a limit that rose meanwhile told nobody
		if !w.answered {
			s.dismiss(w, now)
			s.dispatch(now) // it may have stood in the way of lighter ones
		}
	}
	return w.answer, w.answered
}

// AbandonAt is for a caller that has gone: it leaves the queue, or gives back
// the permit that was handed over already.
func (w *Waiter) AbandonAt(now time.Time) {
	s := w.ctl.state
	s.mu.Lock()
	if !w.answered {
		s.unqueue(w, false)
		w.settle(Grant{Reason: comporta.CapacityExhausted, Queued: queued(w.since, now)})
		s.dispatch(now)
	}
	permit := w.answer.Permit
	s.mu.Unlock()
	permit.ReleaseAt(now, comporta.Outcome{Result: comporta.ResultAbandoned})
}

// Await blocks until there is an answer, in real time. When ctx ends first it
// abandons the wait and returns the cause; no permit is held then.
func (w *Waiter) Await(ctx context.Context) (Grant, error) {
	timer := time.NewTimer(time.Until(w.deadline))
	defer timer.Stop()
	for {
		select {
		case <-w.ready:
		case <-timer.C:
		case <-ctx.Done():
			w.AbandonAt(time.Now())
			return Grant{}, context.Cause(ctx)
		}
		now := time.Now()
		if g, ok := w.AnswerAt(now); ok {
			return g, nil
		}
		timer.Reset(w.deadline.Sub(now)) // the wall clock stepped back under a deadline without a monotonic reading
	}
}

// settle gives the answer. State.mu is held.
func (w *Waiter) settle(g Grant) {
	w.answered, w.answer = true, g
	close(w.ready)
}

// queued is how long a wait lasted; a clock that stepped back makes it none.
func queued(since, now time.Time) time.Duration { return max(now.Sub(since), 0) }
