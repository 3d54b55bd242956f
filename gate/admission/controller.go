package admission

import (
	"time"

	"github.com/comporta/comporta"
)

// Controller admits requests up to the limit at once, and decides who goes first
// when that is not enough. Make one with New; it is immutable, all that changes
// lies in its State. Methods may be called from many goroutines.
type Controller struct {
	state     *State
	observe   bool
	policy    Policy
	capacity  int
	learner   Learner // nil: capacity is the limit
	ceiling   int
	reserve   float64
	queueWait time.Duration
	streams   int
	routes    []route
	heaviest  int // weight of the heaviest route
}

// View is what a decision needs to know of the world outside admission.
type View struct {
	// Attack says that what is refused is a flood of clients never seen before,
	// not accumulated demand: then those who are believed go first.
	Attack bool
}

// Grant is the answer to a request: exactly one of a held Permit, a Waiter and a
// Reason is there.
type Grant struct {
	Permit Permit          // held when the request is admitted
	Waiter *Waiter         // not nil when it stands in the queue
	Reason comporta.Reason // why it is refused: CapacityExhausted or RetryDeferred
	// WouldRefuse is the reason for which the request would have been refused,
	// were it not for ModeObserve.
	WouldRefuse comporta.Reason
	Queued      time.Duration // how long it stood in the queue
}

// Admitted reports whether the request may go on. Its Permit must be released.
func (g *Grant) Admitted() bool { return g.Reason == comporta.ReasonNone && g.Waiter == nil }

// Limit returns the weight that may be in flight now.
func (c *Controller) Limit() int {
	if c.learner == nil {
		return c.capacity
	}
	return min(max(c.learner.Limit(), 0), c.ceiling)
}

// Full reports whether an original that arrived now could neither enter nor wait:
// a hint for stages that would read its body first.
func (c *Controller) Full() bool {
	inflight, waiting := c.state.count()
	limit := c.Limit()
	if c.observe || inflight < limit {
		return false
	}
	return !c.queues() || limit <= 0 || waiting >= capOf(lineOriginals, limit)
}

// queues reports whether requests can wait at all.
func (c *Controller) queues() bool { return c.policy == PolicyPriority && c.queueWait > 0 }

// size returns the limit and what a request of the route takes of it. A learned
// limit below the weight of a request makes it take the whole house.
func (c *Controller) size(r *route) (limit, weight int) {
	limit, weight = c.Limit(), r.weight
	if c.learner != nil && weight > 1 {
		weight = min(weight, max(portion(r.share, limit), 1))
	}
	return limit, weight
}

// arrival is a request at the door.
type arrival struct {
	rank      rank
	client    uint64
	route     *route
	limit     int
	weight    int
	most      int // weight in flight at which it still enters
	routeMost int // the same within its route
}

// measure fills a in place: returned by value, it would cost as much again as the
// rest of the decision.
func (c *Controller) measure(a *arrival, now time.Time, r *comporta.Request, v View) {
	i := r.Route
	if i < 0 || i >= len(c.routes) {
		i = 0
	}
	a.rank, a.client, a.route = rankOf(r, v.Attack), r.Client.Key, &c.routes[i]
	a.limit, a.weight = c.size(a.route)
	a.most = a.limit - a.weight
	a.routeMost = a.most
	if a.route.bounded() {
		a.routeMost = a.route.most(a.limit, a.weight)
	}
	if c.policy == PolicyReserve {
		if a.rank.isOriginal() {
			c.state.idle.sawOriginal(now.UnixNano())
		} else {
			a.most = min(a.most, c.repeatCeiling(now, a.limit)-a.weight)
		}
		return
	}
	if a.rank == rankDisobedient || r.Slot.State == comporta.SlotEarly && !a.rank.isOriginal() {
		a.most = min(a.most, below(earlyLine, a.limit))
	}
}

// AdmitAt decides on r, which the stages before have written on. An admitted
// request holds the permit of the grant. It does not allocate unless the request
// has to wait.
func (c *Controller) AdmitAt(now time.Time, r *comporta.Request, v View) (g Grant) {
	var a arrival
	c.measure(&a, now, r, v)
	if c.observe {
		return c.observeAt(now, &a)
	}
	inflight, waiting := c.state.count()
	if waiting == 0 && inflight <= a.most {
		if c.enter(&g.Permit, now, &a, false) {
			return g
		}
		c.yield(now)
		inflight, waiting = c.state.count()
	}
	waits := c.queues() && a.limit > 0 && a.rank.mayWait() && !a.route.sheddable
	// Most of a storm ends here, without a lock: repeats at a full house.
	if !waits && (inflight > a.limit-a.weight || waiting == 0 && (inflight > a.most || a.route.full(a.routeMost))) {
		return c.refuse(now, &a, inflight)
	}
	return c.admitSlow(now, r, &a, waits)
}

// enter writes a permit to p if there is one and, unless passing, nobody waits.
// Only whoever holds State.mu and outranks those who wait passes them.
func (c *Controller) enter(p *Permit, now time.Time, a *arrival, passing bool) bool {
	if !a.route.enter(a.weight, a.routeMost) {
		return false
	}
	inflight, ok := c.state.enter(a.weight, a.most, passing)
	if !ok {
		a.route.word.inflight.Add(int64(-a.weight))
		return false
	}
	c.started(now, inflight)
	c.issue(p, a.route, a.weight)
	return true
}

// yield looks after waiters that a claim on a route, taken and undone at once, may
// have turned away.
func (c *Controller) yield(now time.Time) {
	s := c.state
	if _, waiting := s.count(); waiting > 0 {
		s.mu.Lock()
		s.dispatch(now)
		s.mu.Unlock()
	}
}

// admitSlow decides where somebody waits, or this one would.
func (c *Controller) admitSlow(now time.Time, r *comporta.Request, a *arrival, waits bool) Grant {
	s := c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	barred := s.dispatch(now)
	if a.rank < barred {
		var g Grant
		if c.enter(&g.Permit, now, a, true) {
			return g
		}
	}
	if !waits {
		inflight, _ := s.count()
		return c.refuse(now, a, inflight)
	}
	wait := c.longestWait()
	if r.Patience > 0 {
		wait = min(wait, r.Patience)
	}
	if !s.makeRoom(now, a, wait) {
		inflight, _ := s.count()
		return c.refuse(now, a, inflight)
	}
	w := &Waiter{
		ctl: c, route: a.route, rank: a.rank, client: a.client,
		since: now, deadline: now.Add(wait), ready: make(chan struct{}),
	}
	s.queue.push(w)
	s.word.Add(oneWaiter)
	if inflight, _ := s.count(); inflight > a.most {
		s.markFull(now) // not only its own route kept it out
	}
	// Look again: whoever left before the count of waiters rose told nobody.
	s.dispatch(now)
	if w.answered {
		return w.answer
	}
	return Grant{Waiter: w}
}

// mostStretch is for how long a request may stand in the queue of a service that is
// slow. Where an answer takes a second, a hundred milliseconds are too few for
// permits to come back: the queue would be a tenth of what it may hold.
const mostStretch = 500 * time.Millisecond

// longestWait is how long a request may stand in the queue.
func (c *Controller) longestWait() time.Duration {
	return max(c.queueWait, min(c.state.meter.taken()/2, mostStretch))
}

// makeRoom reports whether a place in the queue is worth having: one that is
// reached in time, in a line that is not full or where somebody has less right
// to stand. State.mu is held.
func (s *State) makeRoom(now time.Time, a *arrival, wait time.Duration) bool {
	q := &s.queue
	place := q.ahead(a.rank, a.client, a.weight) + 1
	if drain := s.meter.drain(a.limit); drain > 0 && float64(place)/drain > wait.Seconds() {
		return false
	}
	l := lineOf(a.rank)
	standing, places := q.lines[l].n, capOf(l, a.limit)
	if standing != places {
		return standing < places // more than places after a cut of the limit: no exchange then
	}
	w := q.weakest(a.rank, a.client)
	if w == nil {
		return false
	}
	s.dismiss(w, now)
	return true
}

// refuse says why not, inflight being what was seen.
func (c *Controller) refuse(now time.Time, a *arrival, inflight int) Grant {
	reason := c.reason(a, inflight)
	if c.policy == PolicyReserve && a.rank.isOriginal() {
		c.state.idle.refusedOriginal()
	}
	if inflight > a.most || reason == comporta.RetryDeferred {
		c.state.markFull(now)
	}
	// A repeat from which a free permit was withheld, or a request of a route that
	// has its share, does not say that the limit is too low: told so, it would grow.
	if inflight > a.limit-a.weight {
		c.refused(now)
	}
	return Grant{Reason: reason}
}

// reason names a refusal: RetryDeferred if a permit was free and withheld from a
// repeat, CapacityExhausted if there was none for anybody, in the house or in
// the route.
func (c *Controller) reason(a *arrival, inflight int) comporta.Reason {
	if !a.rank.isOriginal() && inflight <= a.limit-a.weight && !a.route.full(a.routeMost) {
		return comporta.RetryDeferred
	}
	return comporta.CapacityExhausted
}

// observeAt decides, and lets in all the same.
func (c *Controller) observeAt(now time.Time, a *arrival) Grant {
	s := c.state
	inflight, _ := s.count()
	var g Grant
	if inflight > a.most && !c.wouldWait(a, inflight) || a.route.full(a.routeMost) {
		g = c.refuse(now, a, inflight)
		g.WouldRefuse, g.Reason = g.Reason, comporta.ReasonNone
	}
	a.route.word.inflight.Add(int64(a.weight))
	inflight, _ = unpack(s.word.Add(uint64(a.weight)))
	c.started(now, inflight)
	c.issue(&g.Permit, a.route, a.weight)
	return g
}

// wouldWait reports whether an original would have had a place in the queue.
// Nobody queues in observe mode: what is in flight above the limit stands for
// the queue.
func (c *Controller) wouldWait(a *arrival, inflight int) bool {
	if !c.queues() || a.limit <= 0 || !a.rank.isOriginal() || a.route.sheddable {
		return false
	}
	place := inflight + a.weight - a.limit
	if place > capOf(lineOriginals, a.limit) {
		return false
	}
	drain := c.state.meter.drain(a.limit)
	return drain == 0 || float64(place)/drain <= c.longestWait().Seconds()
}

func (c *Controller) started(now time.Time, inflight int) {
	if c.learner != nil {
		c.learner.StartAt(now, inflight)
	}
}

func (c *Controller) refused(now time.Time) {
	if c.learner != nil {
		c.learner.RefusedAt(now)
	}
}
