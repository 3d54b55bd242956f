package sim

import (
	"math"
	"time"

	"github.com/comporta/comporta/client/budget"
	"github.com/comporta/comporta/client/retry"
)

// engine plays one scenario under one defence with one seed.
type engine struct {
	s      *Scenario
	dice   dice
	people people
	door   door
	filter filter // what the clients themselves do not send; nil: nothing
	agenda agenda
	now    instant

	outageAt, outageEnd, end instant

	ops   []operation
	spare []uint32 // places of operations that are over
	live  int
	count uint64  // operations begun
	clock float64 // when the last one began, with its fractions

	population population
	lookups    []glance
	budgets    map[uint32]*budget.Bucket
	station    *station
	replays    bool
	trip       instant // what an answer takes that costs no work
	// watch, if set, sees each attempt, and each operation that is served.
	watch func(o *operation, served bool)

	bins   []bin
	tally  tally
	faults faults
	events uint64
}

// people are those who ask.
type people interface {
	// arrive is when the next operation begins.
	arrive(e *engine) instant
	// begin makes the operation of a number.
	begin(e *engine, id uint64) uint32
	// reword may change what a repeat looks like.
	reword(e *engine, o *operation)
	// next is when an operation whose attempt failed is tried again; never if it is not.
	next(e *engine, o *operation) instant
}

// crowd is the population of a Scenario.
type crowd struct{}

func (crowd) arrive(e *engine) instant             { return e.untilNext() }
func (crowd) begin(e *engine, id uint64) uint32    { return e.begin(id) }
func (crowd) reword(e *engine, o *operation)       { e.reword(o) }
func (crowd) next(e *engine, o *operation) instant { return e.next(o) }

// population is what follows from the classes, computed once.
type population struct {
	shares          []float64 // of the classes, added up
	offsets, counts []uint32  // first user of each class, and how many it has
	gaps            []float64 // of the layers, in nanoseconds
	persistence     time.Duration
	layers          *Class // whose stack of layers what is parked goes through
}

func newPopulation(s *Scenario) population {
	p := population{}
	total, sum, users := 0.0, 0.0, uint32(0)
	for i := range s.Classes {
		total += s.Classes[i].Share
	}
	for i := range s.Classes {
		c := &s.Classes[i]
		sum += c.Share / total
		n := uint32(c.Keys)
		if n == 0 {
			n = uint32(math.Ceil(c.Users * s.Demand))
		}
		p.shares, p.offsets, p.counts = append(p.shares, sum), append(p.offsets, users), append(p.counts, n)
		users += n
		if c.Persistent {
			p.persistence = max(p.persistence, c.Patience)
		}
		if c.Manner == Layered && p.layers == nil {
			p.layers = c
		}
	}
	if p.layers == nil {
		p.layers = &Class{Attempts: 1, Innermost: 1}
	}
	l := &s.Layers
	for gap := float64(l.Gap); gap > 0 && gap < float64(l.Cap) && l.Growth > 1; gap *= l.Growth {
		p.gaps = append(p.gaps, gap)
	}
	p.gaps = append(p.gaps, float64(l.Cap))
	return p
}

func newEngine(s *Scenario, d *Defence, seed uint64) (*engine, error) {
	e := &engine{
		s: s, dice: dice{mix(seed)}, people: crowd{}, replays: d.replay, trip: roundTrip,
		outageAt: instant(s.Warmup), outageEnd: instant(s.outageEnd()), end: instant(s.Length),
		ops:        make([]operation, 1, 1<<14), // 0 is no operation
		population: newPopulation(s),
		lookups:    make([]glance, s.Networks+1),
		station:    newStation(s.slots(), s.queue()),
		bins:       make([]bin, int(s.Length/time.Duration(binLength))+1),
	}
	if s.Fixes.BudgetSDK {
		e.budgets = make(map[uint32]*budget.Bucket)
	}
	if d.filter != nil {
		e.filter = d.filter(e)
	}
	var err error
	e.door, err = d.open(e)
	return e, err
}

// slots is the service's size, queue how many may wait before it.
func (s *Scenario) slots() int { return max(int(math.Round(s.Service.Slots*s.Demand)), 1) }

func (s *Scenario) queue() int {
	return int(float64(s.Service.Queue) / float64(s.Service.Latency) * float64(s.slots()))
}

// limit is the capacity that defences are told.
func (e *engine) limit() int { return max(int(math.Round(e.s.Estimate*float64(e.s.slots()))), 1) }

func (e *engine) inOutage(t instant) bool { return t >= e.outageAt && t < e.outageEnd }

// away reports whether the dependency is.
func (e *engine) away(t instant) bool { return e.s.Surge == 0 && e.inOutage(t) }

// epoch is the moment of the wall clock at which every run begins.
var epoch = time.Unix(1_800_000_000, 0)

func (e *engine) time(t instant) time.Time { return epoch.Add(time.Duration(t)) }

// run plays the scenario to its end, and lets those leave who are inside.
func (e *engine) run() {
	e.agenda.add(e.people.arrive(e), evBegin, 0)
	for !e.agenda.empty() {
		ev := e.agenda.next()
		if ev.at >= e.end && ev.kind != evDone {
			continue
		}
		e.now = ev.at
		e.events++
		switch ev.kind {
		case evBegin:
			e.beginNext()
		case evSend:
			e.send(ev.ref)
		case evAnswer:
			e.answered(ev.ref)
		case evDone:
			e.door.done(e, ev.ref)
		case evQueue:
			e.door.late(e, ev.ref)
		}
	}
	e.checkEnd()
}

// untilNext is when the next operation begins: a Poisson stream whose rate falls
// after the outage, in a straight line.
func (e *engine) untilNext() instant {
	rate := e.s.Demand
	switch {
	case e.s.Surge > 0 && e.inOutage(e.now):
		rate *= e.s.Surge
	case e.s.Outage > 0 && e.now > e.outageEnd:
		rate *= max(1-e.s.Decline*time.Duration(e.now-e.outageEnd).Hours(), 0.05)
	}
	e.clock += e.dice.exponential(askGap, e.count, 0) / rate * float64(time.Second)
	return instant(e.clock)
}

func (e *engine) beginNext() {
	e.count++
	e.live++
	e.bin().begun++
	i := e.people.begin(e, e.count)
	if e.s.Operations == 0 || e.count < uint64(e.s.Operations) {
		e.agenda.add(e.people.arrive(e), evBegin, 0)
	}
	if o := &e.ops[i]; o.is(unsent) {
		e.agenda.add(e.wake(o), evSend, i)
		return
	}
	e.send(i)
}

func (e *engine) allocate() uint32 {
	if n := len(e.spare); n > 0 {
		i := e.spare[n-1]
		e.spare = e.spare[:n-1]
		return i
	}
	e.ops = append(e.ops, operation{})
	return uint32(len(e.ops) - 1)
}

// roundTrip is what an answer takes that costs no work, over the Internet.
const roundTrip = instant(20 * time.Millisecond)

// send makes an attempt.
func (e *engine) send(i uint32) {
	o := &e.ops[i]
	if o.attempts > 0 {
		if o.answer == barred {
			e.fault("an operation went on after an answer that ends it")
		}
		e.people.reword(e, o)
	}
	e.tally.attempts++
	o.attempts++
	o.inGo++
	o.sent = e.now
	if e.filter != nil && !e.filter.allow(e, o) {
		o.set(told, false)
		e.settle(i, withheld, e.now+1)
		return
	}
	if e.watch != nil {
		e.watch(o, false)
	}
	b := e.bin()
	switch {
	case o.attempts == 1:
		b.originals++
	case o.due != 0:
		b.returns++
	default:
		b.repeats++
	}
	if e.replays && !o.is(lookup) && o.ended != 0 {
		e.again(i)
		return
	}
	e.door.arrive(e, i)
}

// reword gives a repeat another name, now and then: a person fills the form in anew.
func (e *engine) reword(o *operation) {
	c := &e.s.Classes[o.class]
	if c.NewKey == 0 || o.is(lookup|parked) || e.dice.of(askNewKey, o.id, int(o.attempts)) >= c.NewKey {
		return
	}
	o.name = mix(o.id<<20 + uint64(o.attempts))
	o.ended, o.due = 0, 0
	o.set(counted, false)
}

// again answers a key that was seen before: with what became of it, or that the
// first one still runs (409).
func (e *engine) again(i uint32) {
	o := &e.ops[i]
	if o.ended <= e.now {
		e.useful(o)
		e.settle(i, served, e.now+e.trip)
		return
	}
	o.due = 0
	o.set(told, false)
	e.settle(i, refused, e.now+e.trip)
}

// settle tells an operation what became of its attempt, at an instant.
func (e *engine) settle(i uint32, a answer, at instant) {
	e.ops[i].answer = a
	e.agenda.add(at, evAnswer, i)
}

// refuse answers in the place of the service. due is when to come back; 0 says
// nothing of it.
func (e *engine) refuse(i uint32, due instant) {
	o := &e.ops[i]
	e.bin().refused++
	o.due = due
	o.set(told, due != 0)
	if e.s.RejectCost > 0 && !e.station.full(e.now) { // even a no is work
		start := e.station.start(e.now)
		e.station.take(e.now, start, start+instant(e.s.RejectCost*float64(e.s.Service.Latency)))
	}
	e.settle(i, refused, e.now+e.trip)
}

// bar refuses for good.
func (e *engine) bar(i uint32) {
	o := &e.ops[i]
	e.bin().refused++
	o.set(told, false)
	e.tally.barred[o.class]++
	e.settle(i, barred, e.now+e.trip)
}

// passage is what became of an attempt that was let in.
type passage struct {
	start, done instant // when its work begins and ends
	ok          bool    // the service carried it out
}

// enter passes the attempt on to the service.
func (e *engine) enter(i uint32) passage {
	o := &e.ops[i]
	o.due = 0
	o.set(told, false)
	if e.station.full(e.now) {
		e.bin().refused++
		e.settle(i, failed, e.now+e.trip)
		return passage{e.now, e.now, false}
	}
	p := passage{start: e.station.start(e.now)}
	p.ok = !e.away(p.start)
	if f := e.s.Service.Fails; f > 0 && e.dice.of(askFails, o.id, int(o.attempts)) < f {
		p.ok = false
	}
	took := instant(e.s.Service.FailsIn)
	if p.ok {
		took = e.s.Service.took(e.dice.of(askService, o.id, int(o.attempts)))
	}
	p.done = p.start + took
	e.station.take(e.now, p.start, p.done)
	deadline := o.sent + o.timeout
	if p.ok {
		e.worked(o, p.done, p.done <= deadline)
	}
	switch { // a nanosecond later, so that its permit is back when the client knows
	case p.done > deadline:
		e.settle(i, timedOut, deadline)
	case p.ok:
		e.settle(i, served, p.done+1)
	default:
		e.settle(i, failed, p.done+1)
	}
	return p
}

// worked counts what the service carries out, and whether somebody still waits.
func (e *engine) worked(o *operation, done instant, waited bool) {
	e.tally.work++
	e.bin().work++
	if e.replays && o.ended != 0 && !o.is(lookup) {
		e.fault("a key was carried out twice")
	}
	if o.worked {
		e.tally.duplicates++
	}
	o.worked = true
	if o.ended == 0 || done < o.ended {
		o.ended = done
	}
	if waited {
		e.useful(o)
	}
}

// useful counts work that somebody was glad of, once.
func (e *engine) useful(o *operation) {
	if !o.is(counted) {
		o.set(counted, true)
		e.bin().useful++
		e.tally.useful++
	}
}

// answered lets the client decide what to do next.
func (e *engine) answered(i uint32) {
	o := &e.ops[i]
	if e.filter != nil && o.answer != withheld {
		e.filter.learn(e, o)
	}
	if o.answer == served {
		e.close(i, true)
		return
	}
	at := e.people.next(e, o)
	if at == never {
		e.close(i, false)
		return
	}
	e.agenda.add(max(at, e.now+1), evSend, i)
}

// close ends an operation.
func (e *engine) close(i uint32, ok bool) {
	o := &e.ops[i]
	e.live--
	e.tally.begun[o.class]++
	e.tally.most[o.class] = max(e.tally.most[o.class], o.attempts)
	if !ok {
		e.tally.lost++
		e.spare = append(e.spare, i)
		return
	}
	e.tally.done++
	if e.watch != nil {
		e.watch(o, true)
	}
	e.bin().served++
	if e.now-o.begun <= freshWithin {
		e.bins[o.begun/binLength].fresh++
	}
	if e.inOutage(o.begun) && e.now >= e.outageEnd {
		e.tally.drained = append(e.tally.drained, e.now)
	}
	if e.budgets != nil {
		e.pay(o)
	}
	e.spare = append(e.spare, i)
}

// pay gives the budget of a client back what a success earns.
func (e *engine) pay(o *operation) {
	b := e.budgets[o.user]
	switch {
	case b == nil:
	case o.attempts == 1:
		b.Deposit()
	default:
		b.Refund()
	}
}

// budgetOf returns the budget of a client that has one.
func (e *engine) budgetOf(o *operation) *budget.Bucket {
	if e.budgets == nil || !e.s.Classes[o.class].SDK {
		return nil
	}
	if b, ok := e.budgets[o.user]; ok {
		return b
	}
	all, err := budget.New(budget.Config{})
	if err != nil {
		return nil // the zero value is valid
	}
	b := all.Of("service")
	e.budgets[o.user] = b
	return b
}

// envelope is when the SDK tries again, by its own core.
func (e *engine) envelope(o *operation) instant {
	op := retry.Operation{
		Deadline: e.time(o.begun).Add(retry.DefaultTotal), Attempts: int(o.attempts), Step: int(o.step),
		Idempotent: true, Replayable: true, Budget: e.budgetOf(o),
	}
	sign := retry.Sign{Retryable: true}
	if o.obeyed() {
		sign.Again, sign.Wait = true, time.Duration(o.due-e.now)
		if o.ticket != 0 {
			sign.Spread = retry.SpreadTick
		}
	}
	policy := retry.Policy{}
	if n := e.ceiling(&e.s.Classes[o.class]); n > 0 {
		policy.MaxAttempts = min(n, retry.DefaultMaxAttempts)
	}
	d := policy.DecideAt(e.time(e.now), &op, sign, e.dice.of(askBackoff, o.id, int(o.attempts)))
	if !d.Again {
		return never
	}
	o.step = uint8(min(op.Step, math.MaxUint8))
	return e.now + instant(d.Wait)
}
