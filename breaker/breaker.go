package breaker

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta"
)

// ErrOpen is what every refusal of a Breaker is, by errors.Is.
var ErrOpen = errors.New("breaker: open")

// OpenError is a refusal. It is shared between callers and must not be changed.
type OpenError struct {
	// RetryAfter is how long the breaker goes on refusing, in whole milliseconds
	// and never 0. While half open it is the longest that this may last: a probe
	// usually ends sooner.
	RetryAfter time.Duration
}

func (e *OpenError) Error() string { return fmt.Sprintf("breaker: open for %v", e.RetryAfter) }

// Is makes an OpenError answer to ErrOpen.
func (e *OpenError) Is(target error) bool { return target == ErrOpen }

// State is what a Breaker does with a call.
type State uint8

// The states. Their numbers are the values of the metric breaker_state.
const (
	Closed   State = iota // every call passes
	Open                  // none passes
	HalfOpen              // a few pass, to find out
	numStates
)

var stateNames = [numStates]string{"closed", "open", "half_open"}

func (s State) String() string {
	if s >= numStates {
		return "unknown"
	}
	return stateNames[s]
}

// Breaker guards one dependency. Make one with New; its methods may be called
// from many goroutines.
type Breaker struct {
	config  Config
	width   int64 // nanoseconds of a bucket
	longest int64 // nanoseconds; more than this left to wait means that the clock stepped back

	// era is replaced as a whole with every change of state, so that a call of an
	// earlier era cannot speak in a later one, and a closed breaker is one load.
	era     atomic.Pointer[era]
	refusal atomic.Pointer[OpenError] // the last one, for those who come in the same millisecond
}

// era is the time between two changes of state.
type era struct {
	state  State
	until  int64  // of an open era: the Unix nanosecond of its end
	window window // of a closed era
	trial  trial  // of a half-open era
}

// Permit is the right to call. It is a value, and the zero Permit stands for no
// call. Permits may be passed between goroutines.
type Permit struct {
	breaker *Breaker
	era     *era
	probe   uint64 // serial number among the probes of the era; 0 = no probe
}

// Allow is AllowAt for now.
func (b *Breaker) Allow() (Permit, error) { return b.AllowAt(time.Now()) }

// AllowAt lets a call pass, or refuses it with an *OpenError. Whoever gets a
// Permit owes it a DoneAt.
func (b *Breaker) AllowAt(now time.Time) (Permit, error) {
	for {
		e := b.era.Load()
		switch e.state {
		case Open:
			wait := e.until - now.UnixNano()
			switch {
			case wait > b.longest:
				b.era.CompareAndSwap(e, b.opened(now)) // or it would stay open until the clock is where it was
			case wait > 0:
				return Permit{}, b.refuse(now, wait)
			default:
				b.change(now, e, &era{state: HalfOpen}, Change{})
			}
		case HalfOpen:
			probe, wait := e.trial.enter(now.UnixNano(), b.config.Probes, int64(b.config.ProbeTimeout))
			switch {
			case probe != 0:
				return Permit{b, e, probe}, nil
			case wait > 0:
				return Permit{}, b.refuse(now, wait)
			default:
				b.reopen(now, e) // a probe had no answer in time
			}
		default:
			return Permit{b, e, 0}, nil
		}
	}
}

// refuse returns the refusal for a wait. A flood of refused calls shares one
// error a millisecond.
func (b *Breaker) refuse(now time.Time, wait int64) error {
	if b.config.Trace.Refused != nil {
		b.config.Trace.Refused(now)
	}
	const ms = int64(time.Millisecond)
	rounded := time.Duration((wait + ms - 1) / ms * ms)
	if e := b.refusal.Load(); e != nil && e.RetryAfter == rounded {
		return e
	}
	e := &OpenError{rounded}
	b.refusal.Store(e)
	return e
}

// Done is DoneAt for now.
func (p Permit) Done(o comporta.Outcome) { p.DoneAt(time.Now(), o) }

// DoneAt says what became of the call; see JudgeOutcome for what counts. It is
// to be called once. A call that began before the breaker last changed its state
// says nothing about the state now, and is ignored.
func (p Permit) DoneAt(now time.Time, o comporta.Outcome) {
	b, e := p.breaker, p.era
	if b == nil || b.era.Load() != e {
		return
	}
	verdict := JudgeOutcome(o)
	switch {
	case p.probe != 0:
		b.probed(now, e, p.probe, verdict)
	case verdict != Ignored:
		tick := b.tick(now)
		calls, failures := e.window.add(tick, verdict == Failure)
		if calls >= b.config.Minimum && float64(failures) >= b.config.Failures*float64(calls) {
			next := b.opened(now)
			b.change(now, e, next, Change{Calls: calls, Failures: failures, Open: time.Duration(next.until - now.UnixNano())})
		}
	}
}

// probed hears a probe.
func (b *Breaker) probed(now time.Time, e *era, probe uint64, verdict Verdict) {
	passed, known := e.trial.leave(probe, verdict == Success)
	switch {
	case !known: // told before
	case verdict == Failure:
		b.reopen(now, e)
	case passed >= b.config.Probes:
		b.change(now, e, &era{state: Closed}, Change{})
	}
}

func (b *Breaker) reopen(now time.Time, e *era) {
	next := b.opened(now)
	b.change(now, e, next, Change{Open: time.Duration(next.until - now.UnixNano())})
}

// opened returns an open era that begins now.
func (b *Breaker) opened(now time.Time) *era {
	random := b.config.Rand()
	if !(random > 0) { // so written, it catches NaN too
		random = 0
	}
	extra := b.config.Jitter * min(random, 1) * float64(b.config.Open)
	return &era{state: Open, until: now.UnixNano() + int64(b.config.Open) + int64(extra)}
}

// change moves from one era to the next, for one of the callers that try.
func (b *Breaker) change(now time.Time, from, to *era, c Change) {
	if b.era.CompareAndSwap(from, to) && b.config.Trace.Changed != nil {
		c.From, c.To = from.state, to.state
		b.config.Trace.Changed(now, c)
	}
}

func (b *Breaker) tick(now time.Time) uint32 { return uint32(now.UnixNano() / b.width) }

// Stats is a view of a Breaker for metrics and status pages.
type Stats struct {
	State State
	// Calls and Failures are those of the window; 0 unless closed.
	Calls, Failures int
	// RetryAfter is how long the breaker stays open; 0 unless open.
	RetryAfter time.Duration
}

// StatsAt returns what a call would meet now. An open breaker whose time is over
// is half open, although nobody has called yet.
func (b *Breaker) StatsAt(now time.Time) Stats {
	e := b.era.Load()
	s := Stats{State: e.state}
	switch e.state {
	case Closed:
		s.Calls, s.Failures = e.window.sum(b.tick(now))
	case Open:
		s.RetryAfter = time.Duration(min(e.until-now.UnixNano(), b.longest))
		if s.RetryAfter <= 0 {
			s = Stats{State: HalfOpen}
		}
	}
	return s
}
