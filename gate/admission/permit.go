package admission

import (
	"sync/atomic"
	"time"

	"github.com/comporta/comporta"
)

// Permit is the right to be in flight. It is a value: copies are the same
// permit, and it is released once however many of them are. The zero Permit
// holds nothing. Its methods may be called from many goroutines.
type Permit struct {
	hold   *hold
	serial uint64
	ctl    *Controller
	route  *route
	weight int
}

// hold is the part of a permit that its copies share. It is used again for later
// permits: a release makes it ready for the next serial number, by which older
// copies know that they are over.
type hold struct {
	state atomic.Uint64 // serial<<1 | phase
	_     [56]byte      // holds are taken and given back by different cores
}

const (
	phaseGate   = 0
	phaseStream = 1
)

// issue writes a new permit to p.
func (c *Controller) issue(p *Permit, r *route, weight int) {
	h, _ := c.state.holds.Get().(*hold)
	if h == nil {
		h = new(hold)
	}
	p.hold, p.serial, p.ctl, p.route, p.weight = h, h.state.Load()>>1, c, r, weight
}

// Held reports whether the permit has not been released yet.
func (p Permit) Held() bool {
	return p.hold != nil && p.hold.state.Load()>>1 == p.serial
}

// end takes the permit out of a phase for good, for exactly one caller, and
// keeps its hold for another.
func (p Permit) end(phase uint64) bool {
	if !p.hold.state.CompareAndSwap(p.serial<<1|phase, (p.serial+1)<<1|phaseGate) {
		return false
	}
	p.ctl.state.holds.Put(p.hold)
	return true
}

// ReleaseAt gives the permit back, before the last byte of the answer is
// written, whatever way the request ended. What became of it teaches the Learner.
// Only the first call does anything; released reports whether this was it.
func (p Permit) ReleaseAt(now time.Time, o comporta.Outcome) (released bool) {
	if p.hold == nil {
		return false
	}
	switch {
	case p.end(phaseGate):
		p.leave(now, &o)
		return true
	case p.end(phaseStream):
		p.ctl.state.streams.Add(-1)
		return true
	}
	return false
}

// StreamAt moves a long exchange (an upgrade, an event stream, a gRPC stream)
// out of the gate: it no longer counts against the limit but against
// Config.Streams, until ReleaseAt. It returns false when too many
// streams live, or the permit is over; the permit stays as it was, and the
// caller should end the exchange.
func (p Permit) StreamAt(now time.Time) bool {
	if p.hold == nil {
		return false
	}
	s := p.ctl.state
	if p.hold.state.Load() == p.serial<<1|phaseStream {
		return true // it is one already
	}
	if n := s.streams.Add(1); n > int64(p.ctl.maxStreams()) && !p.ctl.observe {
		s.streams.Add(-1)
		return false
	}
	if !p.hold.state.CompareAndSwap(p.serial<<1|phaseGate, p.serial<<1|phaseStream) {
		s.streams.Add(-1)
		return false
	}
	p.leave(now, &comporta.Outcome{Stream: true})
	return true
}

// leave takes the request out of the gate and lets those who wait in. The route
// comes first: who sees the room in the house must see that in the route.
func (p Permit) leave(now time.Time, o *comporta.Outcome) {
	c, s := p.ctl, p.ctl.state
	p.route.word.inflight.Add(int64(-p.weight))
	inflight := s.leave(p.weight)
	s.meter.departAt(now.UnixNano(), p.weight, o.Latency)
	if c.learner != nil {
		if counts, drop := sample(o); counts {
			c.learner.DoneAt(now, inflight, o.Latency, drop)
		} else {
			c.learner.IgnoreAt(now, inflight)
		}
	}
	// Read again: a waiter may have come meanwhile, and the limit may have risen.
	if _, waiting := s.count(); waiting > 0 {
		s.mu.Lock()
		s.dispatch(now)
		s.mu.Unlock()
	}
}

// maxStreams returns how many streams may live.
func (c *Controller) maxStreams() int {
	if c.streams > 0 {
		return c.streams
	}
	return max(10*c.Limit(), 1000)
}
