package calendar

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta"
)

// Load is how full the house is.
type Load struct {
	Inflight int // requests in flight, the one at hand included
	Limit    int // how many there may be
}

const (
	muWindow     = 16   // times with a full house that are remembered,
	fewAnswers   = 8    // of so many answers at least: fewer are chance
	busyShare    = 0.8  // of its places that a busy house holds
	luck         = 1.25 // how far the best of several times may lie above what all of them say
	minMu        = 0.1  // completions/s; a service slower than that cannot be scheduled
	outageBelow  = 0.10 // share of good answers
	overbookMin  = 1.2
	roundSeconds = 10 // clients that booked within one or two rounds share the places

	never = math.MinInt64

	shownPrior = 5 // slots: as if so many had been shown when the calendar began
	// dearest bounds what feedback makes of a place's cost upwards. At 4 a storm in
	// which everybody obeys drained in 20 min where 17 are the bound, at 1.5 in 18,
	// and its peak fell from 2.4x to 1.8x: admission guards what is too cheap,
	// nothing guards what is too dear.
	dearest = 1.5

	keepShown  = 0.9
	keepWait   = 0.8
	keepGood   = 0.5
	keepServed = 0.9999 // of the best second: halves in two hours

	// unseen is how much more than it was seen to do a service is trusted with
	// that was never saturated. Being optimistic is safe, since admission guards;
	// at 1 a service whose demand is all that was seen has nothing to spare.
	unseen = 1.25

	// What is slower than a second is watched for longer: a span of two answers'
	// length sees whoever was in the house when it began leave it, and what comes
	// in one batch is no rate until many times an answer's length has passed.
	spanAnswers  = 1
	freshAnswers = 16
	slowest      = 5 * 60. // seconds of a latency that is believed
	unknown      = 5.      // seconds, before the first
	fewSlots     = 20      // fewer of them say nothing of how many are refused
)

// scales are over how many seconds the fresh rate is averaged. All are kept, since
// a steady rate is the same on each: a latency that rises in an incident then
// changes what a batch is worth, and not what was learned.
var scales = [...]float64{6, 24, 96, 384}

var overbookMax = [sides]float64{believed: 2, others: 50}

// estimates are made once a second by whoever comes first in it; no ticker.
// What is read on each booking is atomic; the rest is guarded by mu.
type estimates struct {
	second atomic.Int64 // Unix seconds of the last estimate; never = none yet

	// Counts since then.
	arrivals                  atomic.Int64 // originals admitted, and believed originals refused
	done, good                atomic.Int64 // answers; those that were of use
	latency, timed            atomic.Int64 // nanoseconds, and useful answers that they are of
	held                      atomic.Int64 // nanoseconds in which they would have held all of the house
	redeemedIn, redeemedOut   atomic.Int64 // slots shown and admitted, and refused
	unreachable               atomic.Int64 // refusals because the service is not there
	peak                      atomic.Int64 // thousandths of the limit, since the last span
	taken                     atomic.Int64 // instants given out
	arrived                   [sides]atomic.Int64
	clientsRound, clientsLast [sides]atomic.Int64 // clients that booked in this round, and the one before
	asked                     [sides]atomic.Int64 // Unix second of the last booking

	// What follows from them.
	limit   atomic.Int64
	waiting atomic.Int64 // instants still to come
	outage  atomic.Bool
	spare   float
	shown   [sides]float
	cost    [sides]atomic.Int64 // nanoseconds of a place while the side is alone

	mu struct {
		sync.Mutex
		span         span
		full         [muWindow]work // the last times with a full house; that at next is not complete
		next         int
		arriving     [len(scales)]average // arrivals/s, by scale
		lambda       float64              // that of the scale which fits the service
		wait, answer average              // seconds; share of good answers
		due, seen    [sides]float64
		factor       float64
		drain        float64
		served       float64 // useful completions/s of the best second, saturated or not
		round        int64
	}
}

// work is what a house did in a time that held several answers.
//
// Answers by the second are the rate of a house only if it was busy all along.
// Answers by the seconds that all its places were held are the same rate by
// Little's law (Little, "A proof for the queuing formula L = λW", 1961), and need
// no clock: a pause does not lower it, and chance moves it only as far as answers
// differ, not as far as arrivals do. But a house that is full for an instant
// answers faster than one that stays full. So the first is the estimate, and the
// second its bound.
type work struct {
	answers, held float64 // useful answers, and seconds in which they would have held all of the house
	busy, seconds float64 // useful answers while it was busy, and for how long it was
}

// span is the time between two looks at how full the house was, at least a second.
type span struct{ seconds, answers, held, done, good float64 }

func (p *span) add(q span) {
	p.seconds += q.seconds
	p.answers += q.answers
	p.held += q.held
	p.done += q.done
	p.good += q.good
}

// init makes the first estimates, of a service of which nothing is known.
func (s *State) init() {
	e := &s.estimates
	e.second.Store(never)
	e.mu.factor = 1
	for side := range sides {
		e.shown[side].store(1)
		e.asked[side].Store(never / 2)
	}
	s.publish(time.Time{})
}

// float is an atomic float64.
type float struct{ bits atomic.Uint64 }

func (f *float) load() float64   { return math.Float64frombits(f.bits.Load()) }
func (f *float) store(v float64) { f.bits.Store(math.Float64bits(v)) }

// average is an exponentially weighted mean that is not drawn to 0 at its beginning.
type average struct{ sum, weight float64 }

// add decays what was by keep, and adds a value with a weight.
func (a *average) add(value, weight, keep float64) {
	a.sum = a.sum*keep + value*weight
	a.weight = a.weight*keep + weight
}

func (a *average) value(otherwise float64) float64 {
	if a.weight < 1e-6 {
		return otherwise
	}
	return a.sum / a.weight
}

// rate is the mean as if half of the time had been quiet, until more than that was
// seen: what comes in the first second says little of the next.
func (a *average) rate() float64 { return a.sum / max(a.weight, 0.5) }

// AdmittedAt tells the calendar that r enters. It must follow LookAt for the same
// request. If the service then refuses r itself, BookAnsweredAt gives it its instant.
func (c *Calendar) AdmittedAt(now time.Time, r *comporta.Request) {
	s := c.state
	switch r.Slot.State {
	case comporta.SlotNone:
		if !r.Sighting.Kind.Repeat() {
			s.arrivals.Add(1)
		}
	case comporta.SlotRedeemed, comporta.SlotAged:
		s.redeemedIn.Add(1)
	case comporta.SlotEarly:
		c.enteredEarly(now, r)
	case comporta.SlotPlain:
	}
	s.rollAt(now)
}

// DoneAt tells the calendar what became of an admitted request. Answers that the
// service did not give (our own, and those of exempt routes) must not be told.
func (c *Calendar) DoneAt(now time.Time, o comporta.Outcome, load Load) {
	s := c.state
	s.rollAt(now) // first, so that answers which end together are of one second
	switch o.Result {
	case comporta.ResultSuccess, comporta.ResultDeterministic:
		s.done.Add(1)
		s.good.Add(1)
		if !o.Stream { // a stream has left the house long ago
			latency := int64(min(max(o.Latency, 0), MaxHorizon))
			s.timed.Add(1)
			s.latency.Add(latency)
			// More are in than fit where nobody is refused in earnest.
			s.held.Add(latency / int64(max(load.Limit, load.Inflight, 1)))
		}
	case comporta.ResultFailed, comporta.ResultTimeout, comporta.ResultUnreachable:
		s.done.Add(1)
	case comporta.ResultPending, comporta.ResultRefused, comporta.ResultAbandoned:
		// The service has not spoken.
	}
	s.note(load)
}

// note takes in how full the house is.
func (e *estimates) note(load Load) {
	if load.Limit <= 0 {
		e.peak.Store(1000) // unknown is not idle
		return
	}
	if limit := int64(load.Limit); e.limit.Load() != limit && e.limit.Swap(limit) == 0 {
		e.second.Store(never) // the first limit is worth an estimate at once
	}
	level := int64(max(load.Inflight, 0)) * 1000 / int64(load.Limit)
	for old := e.peak.Load(); level > old; old = e.peak.Load() {
		if e.peak.CompareAndSwap(old, level) {
			break
		}
	}
}

// rollAt makes the estimates if the second is a new one. Whoever finds another
// at it goes on with the old ones.
func (s *State) rollAt(now time.Time) {
	sec := now.Unix()
	if s.second.Load() == sec || !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	last := s.second.Swap(sec)
	if last == sec {
		return
	}
	elapsed := sec - max(last, 0)
	switch {
	case last == never:
		s.mu.round = sec / roundSeconds
	case elapsed < 0 || elapsed > int64(MaxHorizon/time.Second):
		s.forget() // the clock stepped, or nobody came: what was counted has no rate
	default:
		s.count(last, sec)
	}
	s.turnRound(sec / roundSeconds)
	s.publish(now)
}

func (s *State) forget() {
	for _, n := range []*atomic.Int64{
		&s.arrivals, &s.done, &s.good, &s.latency, &s.timed, &s.held,
		&s.redeemedIn, &s.redeemedOut, &s.unreachable, &s.peak, &s.arrived[believed], &s.arrived[others],
	} {
		n.Store(0)
	}
	s.mu.span = span{}
}

// count turns the counts of the seconds [last, sec) into estimates.
func (s *State) count(last, sec int64) {
	m, seconds := &s.mu, float64(sec-last)
	keep := func(k float64) float64 { return math.Pow(k, seconds) }

	done, good := float64(s.done.Swap(0)), float64(s.good.Swap(0))
	m.answer.add(ratio(good, done), done, keep(keepGood))
	outage := s.unreachable.Swap(0) > 0 && good == 0
	if m.answer.weight >= 1 {
		outage = outage || m.answer.value(1) < outageBelow
	} else {
		outage = outage || s.outage.Load() // nothing was asked: nothing is known to be better
	}
	s.outage.Store(outage)

	// A second in which much failed says how fast the service fails: the last good
	// answers of a service that has just gone down are not its capacity.
	if good > 0 && good >= 0.9*done {
		m.served = max(m.served*keep(keepServed), good/seconds)
	}
	timed, held := float64(s.timed.Swap(0)), float64(s.held.Swap(0))/1e9
	if latency := float64(s.latency.Swap(0)) / 1e9; timed > 0 {
		m.wait.add(latency/timed, 1-keepWait, keepWait)
	}
	s.countFresh(float64(s.arrivals.Swap(0))/seconds, seconds, outage)

	due := s.due.between(last*1000, sec*1000)
	for side := range sides {
		m.due[side] = m.due[side]*keep(keepShown) + float64(due[side])
		m.seen[side] = m.seen[side]*keep(keepShown) + float64(s.arrived[side].Swap(0))
		s.shown[side].store(min(max((m.seen[side]+shownPrior)/(m.due[side]+shownPrior), 1/overbookMax[others]), 1))
	}
	m.span.add(span{seconds, timed, held, done, good})
	if m.span.seconds >= spanAnswers*s.slowness() {
		s.countWaiting(sec * 1000) // since the last estimate their instants may have passed
		s.look(m.span, outage)
		m.span = span{}
	}
}

// slowness is how long an answer takes, in seconds.
func (s *State) slowness() float64 { return min(s.mu.wait.value(unknown), slowest) }

// countFresh averages the rate of those who come for the first time. In an outage
// nobody enters, and what the unbelieved would bring cannot be counted: what came
// when it began is the best guess for its end.
func (s *State) countFresh(fresh, seconds float64, outage bool) {
	m := &s.mu
	fits := 0
	for i, scale := range scales {
		if a := &m.arriving[i]; !outage || fresh > a.rate() {
			keep := math.Exp(-seconds / scale)
			a.add(fresh, 1-keep, keep)
		}
		if scale < freshAnswers*s.slowness() {
			fits = min(i+1, len(scales)-1)
		}
	}
	m.lambda = m.arriving[fits].rate()
}

// look learns from a span that has ended. One that never saw a full house says
// nothing of what a full one does, and one in which much failed says how fast the
// service fails.
func (s *State) look(p span, outage bool) {
	peak, m := s.peak.Swap(0), &s.mu
	if peak >= 900 && p.good > 0.9*p.done && !outage {
		w := &m.full[m.next]
		w.answers += p.answers
		w.held += p.held
		if p.held >= busyShare*p.seconds {
			w.busy += p.good
			w.seconds += p.seconds
		}
		if w.answers >= fewAnswers {
			m.next = (m.next + 1) % muWindow
			m.full[m.next] = work{}
		}
	}
	s.heal(p.seconds, peak < 800, outage)
}

// sustained is the best rate of a busy house, as far as the length of its answers
// bears it out; 0 where none was seen.
func (s *State) sustained() (best float64) {
	var answers, held float64
	for i := range s.mu.full {
		w := &s.mu.full[i]
		answers += w.answers
		held += w.held
		if w.answers >= fewAnswers && w.seconds > 0 {
			best = max(best, w.busy/w.seconds)
		}
	}
	if best == 0 {
		return 0
	}
	return min(best, luck*answers/held)
}

// heal moves the cost of a place by what came of the last ones: a wrong rate
// shows as slots that are redeemed and refused, or as a house with room.
func (s *State) heal(seconds float64, idle, outage bool) {
	m := &s.mu
	in, out := s.redeemedIn.Load(), s.redeemedOut.Load()
	judged := in+out >= fewSlots
	if judged || outage || s.waiting.Load() == 0 {
		s.redeemedIn.Add(-in)
		s.redeemedOut.Add(-out)
	}
	switch {
	case outage: // refusals say nothing of the rate now
	case judged && 20*out > in+out && (s.waiting.Load() > 0 || seconds < roundSeconds): // more than 5 %, and not long ago
		m.factor *= 1.25
	case s.waiting.Load() == 0:
		m.factor += (1 - m.factor) * (1 - math.Pow(0.75, seconds)) // the next incident begins without prejudice
	case idle:
		m.factor *= 0.8
	}
	m.factor = min(max(m.factor, 0.25), dearest)
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func (s *State) turnRound(round int64) {
	m := &s.mu
	if round == m.round {
		return
	}
	for side := range sides {
		n := s.clientsRound[side].Swap(0)
		if round != m.round+1 {
			n = 0 // longer ago
		}
		s.clientsLast[side].Store(n)
	}
	m.round = round
}

// publish computes what bookings read.
func (s *State) publish(now time.Time) {
	m := &s.mu
	m.drain = s.sustained()
	if m.drain == 0 { // never seen saturated: what the limit lets through, or a little more than what was seen
		limit, wait := float64(max(s.limit.Load(), 1)), m.wait.value(0)
		m.drain = limit / max(wait, 1)
		if wait > 0 {
			m.drain = max(m.drain, min(m.served*unseen, limit/wait))
		}
	}
	m.drain = max(m.drain, minMu)
	spare := max(0.05*m.drain, 0.95*m.drain-m.lambda)
	s.spare.store(spare)
	for side := range sides {
		overbook := min(max(1/s.shown[side].load(), overbookMin), overbookMax[side])
		s.cost[side].Store(max(int64(1e9*m.factor/(spare*overbook)), 1))
	}
	s.taken.Store(0)
	s.countWaiting(now.UnixMilli())
}

func (s *State) countWaiting(ms int64) {
	n := s.due.between(ms, min(ms+farthest, s.quiet.Load()+quarter)) // beyond quiet there is none
	s.waiting.Store(n[believed] + n[others] + n[lanePlain])
}

// Estimates is what the calendar believes, for metrics and for the curious.
type Estimates struct {
	Drain   float64 // completions/s that the service sustains
	Fresh   float64 // originals/s that are to be served first
	Spare   float64 // completions/s left for returns
	Factor  float64 // of the cost of a place, from feedback; 1/4 to 1.5
	Shown   float64 // share of the believed that come at their instants
	Waiting int     // instants still to come
	Outage  bool    // the service is taken to be down: rates are those before
}

// Estimates returns the estimates of the last second.
func (s *State) Estimates() Estimates {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Estimates{
		Drain: s.mu.drain, Fresh: s.mu.lambda, Spare: s.spare.load(), Factor: s.mu.factor,
		Shown: s.shown[believed].load(), Waiting: int(s.waiting.Load() + s.taken.Load()), Outage: s.outage.Load(),
	}
}
