package admission

import (
	"time"

	"github.com/comporta/comporta"
)

// owedEvery: one permit in so many goes to repeats at their booked instant even
// while originals wait. That is 5 %, and bounds their wait.
const owedEvery = 20

// dispatch hands free permits to those who wait, best first. It returns the rank
// of the waiter that did not fit, numRanks if there is none: a newcomer of that
// rank or below may not pass it. Waiters that only their own route keeps out are
// in nobody's way. State.mu is held.
func (s *State) dispatch(now time.Time) (barred rank) {
	s.expire(now)
	for s.queue.n > 0 {
		w, jumps := s.next()
		if w == nil {
			break
		}
		if !s.serve(w, now) {
			return w.rank
		}
		s.account(w, jumps)
	}
	return numRanks
}

// next picks who is served next: the first of the best rank, or a repeat at its
// instant that is owed a permit before them (jumps).
func (s *State) next() (w *Waiter, jumps bool) {
	q := &s.queue
	for k := range numRanks {
		if w = q.first(k); w != nil {
			break
		}
	}
	if w == nil || w.rank.isBooked() {
		return w, false
	}
	for k := w.rank + 1; k < numRanks; k++ {
		if !k.isBooked() {
			continue
		}
		if b := q.first(k); b != nil {
			if q.credit >= (owedEvery-1)*b.route.weight {
				return b, true
			}
			break
		}
	}
	return w, false
}

// first returns the first waiter of a rank that its own route does not keep out.
func (q *queue) first(k rank) *Waiter {
	for _, w := range q.ranks[k] {
		if limit, weight := w.ctl.size(w.route); !w.route.full(w.route.most(limit, weight)) {
			return w
		}
	}
	return nil
}

// account keeps the debt to repeats at their instant. It grows with each permit
// that an original got from the queue, and is bounded by a twentieth of the limit
// (or one request of the heaviest route): a long time without such repeats does
// not end in a burst of them.
func (s *State) account(w *Waiter, jumps bool) {
	q := &s.queue
	switch {
	case jumps:
		q.credit -= (owedEvery - 1) * w.route.weight
	case !w.rank.isBooked():
		most := (owedEvery - 1) * max(w.ctl.heaviest, w.ctl.Limit()/owedEvery)
		q.credit = min(q.credit+w.route.weight, most)
	}
}

// serve hands a permit to w if there is room for it.
func (s *State) serve(w *Waiter, now time.Time) bool {
	limit, weight := w.ctl.size(w.route)
	if !w.route.enter(weight, w.route.most(limit, weight)) {
		return false
	}
	inflight, ok := s.enter(weight, limit-weight, true)
	if !ok {
		w.route.word.inflight.Add(int64(-weight))
		return false
	}
	s.unqueue(w, true)
	g := Grant{Queued: queued(w.since, now)}
	w.ctl.issue(&g.Permit, w.route, weight)
	w.settle(g)
	w.ctl.started(now, inflight)
	return true
}

// unqueue takes w out of the queue and out of the count of waiters.
func (s *State) unqueue(w *Waiter, served bool) {
	s.queue.remove(w, served)
	s.word.Add(^uint64(oneWaiter - 1)) // two's complement: a subtraction
}

// dismiss ends a wait without a permit. The limit is to blame only if the house
// is full: a waiter may have stood before its own route.
func (s *State) dismiss(w *Waiter, now time.Time) {
	s.unqueue(w, false)
	w.settle(Grant{Reason: comporta.CapacityExhausted, Queued: queued(w.since, now)})
	limit, weight := w.ctl.size(w.route)
	if inflight, _ := s.count(); inflight > limit-weight {
		s.markFull(now)
		w.ctl.refused(now)
	}
}

// expire dismisses those whose deadline has passed: their callers are as good as
// gone, and a permit for them would be dead work. Usually they leave by
// themselves before; the cap of the queue must not depend on it.
func (s *State) expire(now time.Time) {
	q := &s.queue
	if q.n == 0 || !now.After(q.soon) {
		return
	}
	var soon time.Time
	for k := range q.ranks {
		for i := 0; i < len(q.ranks[k]); {
			w := q.ranks[k][i]
			if now.After(w.deadline) {
				s.dismiss(w, now)
				continue
			}
			if soon.IsZero() || w.deadline.Before(soon) {
				soon = w.deadline
			}
			i++
		}
	}
	q.soon = soon
}
