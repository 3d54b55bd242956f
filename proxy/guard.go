package proxy

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
)

// UnavailableError says that nobody was asked, and for how long nobody will be: the
// breaker of every upstream that could be asked is open.
type UnavailableError struct {
	RetryAfter time.Duration // the shortest wait until a call passes; never 0
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("proxy: no upstream is asked for %v: they mostly failed", e.RetryAfter)
}

// Is makes an UnavailableError answer to breaker.ErrOpen.
func (e *UnavailableError) Is(target error) bool { return target == breaker.ErrOpen }

// counts of an upstream. They only grow.
type counts struct {
	exhausted atomic.Uint64 // requests that got no connection because too many were in use
	opened    atomic.Uint64 // times that its breaker opened
	retries   atomic.Uint64 // requests that were sent to it again
}

// guards stop the calls to an upstream, or steer them elsewhere. Without breakers,
// the zero value, all calls pass.
type guards struct {
	// silence opens when an upstream mostly does not answer. No call passes then:
	// there is nothing to lose, and a hanging service takes all that waits for it.
	silence *breaker.Breaker
	// answers opens when an upstream mostly fails, whether it says so or not. Calls go
	// to others then, as long as there are any: to refuse in its place what the last
	// one would have answered, well or ill, helps nobody. nil for a single upstream.
	answers *breaker.Breaker
}

// leave is the right to ask an upstream, which settle gives back.
type leave struct{ silence, answers breaker.Permit }

// guard gives up its breakers. alone says that it is the only upstream.
func (up *upstream) guard(c *Config, alone bool) (err error) {
	if c.Breaker == nil {
		return nil
	}
	bc := *c.Breaker
	if bc.ProbeTimeout == 0 {
		bc.ProbeTimeout = max(breaker.DefaultProbeTimeout, c.Timeout) // an answer may take as long
	}
	trace := bc.Trace.Changed
	bc.Trace.Changed = func(now time.Time, change breaker.Change) {
		switch change.To {
		case breaker.Open:
			up.counts.opened.Add(1)
		case breaker.Closed:
			up.vitals.backAt(now)
		}
		if trace != nil {
			trace(now, change)
		}
		if c.Trace.Breaker != nil {
			c.Trace.Breaker(now, up.url, change)
		}
	}
	if up.guards.silence, err = breaker.New(bc); err == nil && !alone {
		up.guards.answers, err = breaker.New(bc)
	}
	return err
}

// allowAt asks the breakers. last says that nobody else can be asked.
func (up *upstream) allowAt(now time.Time, last bool) (leave, *breaker.OpenError) {
	var l leave
	g := &up.guards
	if g.silence == nil {
		return l, nil
	}
	var err error
	if g.answers != nil && !last {
		if l.answers, err = g.answers.AllowAt(now); err != nil {
			return leave{}, openOf(err)
		}
	}
	if l.silence, err = g.silence.AllowAt(now); err != nil {
		l.answers.DoneAt(now, notAsked)
		return leave{}, openOf(err)
	}
	return l, nil
}

// notAsked is the outcome of a call that was not made.
var notAsked = comporta.Outcome{Result: comporta.ResultRefused}

func openOf(err error) *breaker.OpenError {
	open, _ := errors.AsType[*breaker.OpenError](err) // it is nothing else
	return open
}

// stateAt returns the worse of the states of the breakers.
func (up *upstream) stateAt(now time.Time) breaker.State {
	state := breaker.Closed
	for _, b := range [...]*breaker.Breaker{up.guards.silence, up.guards.answers} {
		if b == nil {
			continue
		}
		switch s := b.StatsAt(now).State; s {
		case breaker.Open:
			return s
		case breaker.HalfOpen:
			state = s
		}
	}
	return state
}

// settle tells the breakers what became of a call.
func (x *exchange) settle(now time.Time, l leave, r *Report, f *failure) {
	o := comporta.Outcome{Status: r.Status, Result: r.Result, Latency: r.Latency}
	if f != nil && (f.stale || f.hurry || errors.Is(f.err, bulkhead.ErrFull)) {
		// A connection that has died says nothing of the service, and neither does a
		// caller who cannot wait: a few of them must not be able to stop it for all.
		o = notAsked
	}
	l.answers.DoneAt(now, o)
	if f == nil {
		o.Result = comporta.ResultSuccess // it answers
	}
	l.silence.DoneAt(now, o)
}
