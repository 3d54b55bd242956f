package sim

import (
	"time"

	"github.com/comporta/comporta/client/retry"
)

// operation is one thing that one user wants, with all attempts at it.
type operation struct {
	id       uint64  // names its draws
	name     uint64  // of what it asks for, its key; a repeat that looks new gets another
	begun    instant //
	until    instant // when its user gives up
	sent     instant // the attempt under way
	due      instant // when it was told to come; 0: it was not
	ended    instant // when the work under its name is done; 0: nobody works on it
	timeout  instant // of an attempt
	user     uint32
	ticket   uint32 // where the ticket of its last refusal lies, 0: nowhere
	attempts uint16 // made so far
	inGo     uint16 // made in this go
	marks    mark
	class    uint8
	step     uint8 // of the envelope's backoff
	answer   answer
	worked   bool // the service carried it out at least once
}

// mark is a set of things that are true of an operation.
type mark uint8

const (
	parked  mark = 1 << iota // began in the outage, and was kept for later
	unsent                   // and not sent before the wake
	obeys                    // waits as long as it is told
	lookup                   // reads: no key, so nothing to replay
	network                  // has no credential but its network
	counted                  // its work has helped somebody
	told                     // the answer at hand names an instant
)

// is reports whether one of the marks is set.
func (o *operation) is(m mark) bool { return o.marks&m != 0 }

func (o *operation) set(m mark, on bool) {
	if on {
		o.marks |= m
	} else {
		o.marks &^= m
	}
}

// answer is what an attempt learns.
type answer uint8

const (
	served   answer = iota
	failed          // by the service
	timedOut        // nobody answered in time
	refused         // by the defence, for now
	barred          // by the defence, for good
	withheld        // by the client itself: never sent
)

// obeyed reports whether the client does what the answer tells it.
func (o *operation) obeyed() bool {
	return (o.answer == refused || o.answer == failed) && o.is(told) && o.is(obeys)
}

// begin makes the operation of a number.
func (e *engine) begin(id uint64) uint32 {
	i := e.allocate()
	o := &e.ops[i]
	class := e.population.classOf(e.dice.of(askClass, id, 0))
	c := &e.s.Classes[class]
	*o = operation{id: id, name: id, begun: e.now, class: class}
	o.user = e.population.offsets[class] + uint32(e.dice.of(askUser, id, 0)*float64(e.population.counts[class]))
	who := uint64(o.user)
	o.set(network, c.NAT > 0 && e.dice.of(askNetwork, who, 0) < c.NAT)
	if c.Lookup > 0 && e.dice.of(askLookup, id, 0) < c.Lookup {
		o.set(lookup, true)
		e.pair(o, c)
	}
	patience := float64(c.Patience)
	if e.inOutage(e.now) && e.dice.of(askPark, id, 0) < e.s.Parking.Share {
		o.set(parked, true)
		o.set(unsent, e.dice.of(askUnsent, id, 0) < e.s.Parking.Unsent)
		patience = max(patience, float64(e.population.persistence))
	}
	o.until = e.now + instant(patience*e.dice.exponential(askPatience, id, 0))
	o.timeout = instant(float64(c.Timeout) * (0.5 + e.dice.of(askTimeout, who, 0)))
	obey := c.Obey
	if e.s.Obey >= 0 {
		obey = e.s.Obey
	}
	o.set(obeys, e.dice.of(askObey, who, 0) < obey)
	return i
}

func (p *population) classOf(u float64) uint8 {
	for i, upTo := range p.shares {
		if u < upTo {
			return uint8(i)
		}
	}
	return uint8(len(p.shares) - 1)
}

// glance is a request of a moment ago that another may equal.
type glance struct {
	name uint64
	user uint32
	at   instant
}

// pair makes o the twin of a lookup of seconds ago, now and then: an equal query
// that wants an answer of its own. Behind a network they are common, and not even
// of one person.
func (e *engine) pair(o *operation, c *Class) {
	share, place := e.s.Twins, uint32(0)
	if o.is(network) {
		share, place = e.s.TwinsNAT, 1+e.networkOf(o)
	}
	last := &e.lookups[place]
	age := e.now - last.at
	if last.name != 0 && age > instant(2*time.Second) && e.dice.of(askTwin, o.id, 0) < share/c.Lookup {
		o.name, o.user = last.name, last.user
	}
	if last.name == 0 || age > instant(4*time.Second) {
		*last = glance{o.name, o.user, e.now}
	}
}

func (e *engine) networkOf(o *operation) uint32 {
	if e.s.Networks == 0 {
		return 0
	}
	return o.user % uint32(e.s.Networks)
}

// clientOf names whom a server holds the operation to come from.
func (e *engine) clientOf(o *operation) uint64 {
	if o.is(network) {
		return 1<<40 | uint64(e.networkOf(o))
	}
	return uint64(o.user)
}

// next is when the operation is tried again; never if it is not.
func (e *engine) next(o *operation) instant {
	at, c := never, &e.s.Classes[o.class]
	switch stored := o.is(parked) || c.Persistent; {
	case o.answer == barred:
	case o.obeyed() && (stored || c.Manner != SDK):
		at = o.due + instant(e.dice.of(askJitter, o.id, int(o.attempts))*float64(time.Second))
	case stored || c.Manner == Layered:
		at = e.layered(o, c)
	case c.Manner == SDK:
		at = e.envelope(o)
	case e.dice.of(askReload, o.id, int(o.attempts)) < c.Reload:
		at = e.now + instant((1+4*e.dice.of(askThink, o.id, int(o.attempts)))*float64(time.Second))
	}
	if at > o.until {
		return never // the user has given up by then
	}
	return at
}

// layered is when a stack of layers makes its next attempt: the innermost one at
// once, the others after gaps that grow; and when all have given up, or the device
// wakes before, the stack from its start.
//
// An operation of a persistent class that fails when it is new is parked at once.
// What was parked in the outage by a class that is not goes through the layers
// once, after the wake; but under a ceiling, which ends a go within seconds, it
// goes back to its queue until the next.
func (e *engine) layered(o *operation, c *Class) instant {
	l, layers := &e.s.Layers, c
	if c.Manner != Layered {
		layers = e.population.layers
	}
	attempts, innermost := layers.Attempts, layers.Innermost
	ceiling := e.ceiling(c)
	if ceiling > 0 {
		attempts = min(attempts, ceiling)
	}
	waits := o.is(parked) && e.now < e.outageEnd
	at, wake, n := never, never, int(o.inGo)
	if c.Persistent || waits || ceiling > 0 && o.is(parked) {
		wake = e.wake(o)
	}
	switch {
	case waits, n >= attempts:
	case c.Persistent && !o.is(parked) && o.attempts == 1 && wake != never:
	case ceiling > 0: // one layer, with full jitter
		most := min(float64(retry.DefaultBase)*float64(int(1)<<min(n-1, 8)), float64(retry.DefaultCap))
		at = e.now + instant(most*e.dice.of(askJitter, o.id, int(o.attempts)))
	case n%innermost != 0:
		at = e.now + instant(l.Quick)
	default:
		gap := e.population.gaps[min(n/innermost-1, len(e.population.gaps)-1)]
		at = e.now + instant(gap*(1+l.Jitter*(2*e.dice.of(askJitter, o.id, int(o.attempts))-1)))
	}
	if wake <= at && wake != never {
		o.inGo = 0
		return wake
	}
	return at
}

// ceiling is how many attempts the owner of a class allows in one go; 0: any.
func (e *engine) ceiling(c *Class) int {
	f := &e.s.Fixes
	switch {
	case f.SwitchAfter > 0 && c.SDK && e.now >= e.outageAt+instant(f.SwitchAfter):
		return 1
	case f.CeilingSDK > 0 && c.SDK:
		return f.CeilingSDK
	}
	return f.CeilingAll
}

// wake is the next moment at which what is parked is sent.
func (e *engine) wake(o *operation) instant {
	p := &e.s.Parking
	if p.Period <= 0 || e.s.Outage == 0 {
		return never
	}
	n := 0
	if e.now >= e.outageEnd {
		n = int((e.now-e.outageEnd)/instant(p.Period)) + 1
	}
	spread := p.Spread
	if e.s.Fixes.Spread > 0 {
		spread = e.s.Fixes.Spread
	}
	return e.outageEnd + instant(n)*instant(p.Period) + instant(e.dice.of(askWake, o.id, n)*float64(spread))
}
