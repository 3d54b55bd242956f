package retry

import (
	"time"

	"github.com/comporta/comporta/client/budget"
)

// Operation is what is being tried, and how far it has come. Whoever runs it
// fills it in; DecideAt moves Step.
type Operation struct {
	// Deadline ends the operation; see Policy.DeadlineAt.
	Deadline time.Time
	// Attempts is the number of attempts made so far.
	Attempts int
	// Step is how often the ceiling of the next wait has doubled.
	Step int
	// Idempotent: two executions are as good as one. True for safe methods, for
	// PUT and DELETE, and for a request with an Idempotency-Key.
	Idempotent bool
	// Checkable: somebody can find out what became of an attempt (see Check).
	Checkable bool
	// Replayable: the body, if any, can be sent a second time.
	Replayable bool
	// Nested: a layer above owns the operation and repeats it.
	Nested bool
	// Over: the caller's context has ended.
	Over bool
	// Blocked is how long the destination's breaker will stay open; 0 is closed.
	Blocked time.Duration
	// Budget pays for repeats; nil is no budget.
	Budget *budget.Bucket
}

// Decision is the answer to "again?".
type Decision struct {
	// Again says to make another attempt after Wait; a token of the budget has
	// been taken for it.
	Again bool
	Wait  time.Duration
	// Ask says to ask first what became of the attempts before (see Check).
	Ask bool
	// Reason says why not; ReasonNone for Again, and after success.
	Reason Reason
	// RetryAt is the instant that the server named, whatever was decided; zero
	// when it named none.
	RetryAt time.Time
}

// DeadlineAt returns when an operation that begins now is over: after Total, or
// at the caller's own deadline (zero: none) if that is earlier.
func (p Policy) DeadlineAt(now, callers time.Time) time.Time {
	d := now.Add(p.WithDefaults().Total)
	if !callers.IsZero() && callers.Before(d) {
		return callers
	}
	return d
}

// attemptShare is the part of the time left that one attempt may take, so that a
// second one fits when the first hangs.
const attemptShare = 0.6

// AttemptAt returns how long the next attempt may take: 60 % of what is left, at
// least MinAttempt; all of it when no other attempt can follow, because it is the
// last, a layer above repeats, its body cannot be sent again, or nobody could tell
// what became of it. It is 0 when the deadline has passed.
//
// What is not idempotent may all the same be repeated if it never reached the
// other side. So that there is time for that, whoever can tell should bound the
// way to a connection by what an idempotent operation would get.
func (p Policy) AttemptAt(now time.Time, o *Operation) time.Duration {
	orDefault(&p.MaxAttempts, DefaultMaxAttempts)
	orDefault(&p.MinAttempt, DefaultMinAttempt)
	left := max(o.Deadline.Sub(now), 0)
	if o.Nested || o.Attempts+1 >= p.MaxAttempts || !o.Replayable || (!o.Idempotent && !o.Checkable) {
		return left
	}
	return min(max(time.Duration(attemptShare*float64(left)), p.MinAttempt), left)
}

// DecideAt says whether to make another attempt. u, within [0, 1), is the draw
// for the wait.
//
// The first of these that holds ends the operation: the context is dead; the
// server said stop, or the failure is permanent; the request is not idempotent
// and may have had its effect; its body cannot be sent again; a layer above
// repeats; the attempts are spent; the wait is above RetryAfterMax; the wait and
// a useful attempt do not fit the deadline; the breaker is open; the budget is
// spent. So the cheapest and most certain come first, and nothing is taken from
// the budget for a repeat that something else forbids.
func (p Policy) DecideAt(now time.Time, o *Operation, s Sign, u float64) Decision {
	if s.OK {
		return Decision{}
	}
	p = p.WithDefaults()
	d := Decision{}
	if s.Wait > 0 {
		d.RetryAt = now.Add(s.Wait)
	}
	if d.Reason = p.forbids(o, s); d.Reason != ReasonNone {
		if s.Charge && o.Budget != nil {
			o.Budget.Withdraw() // an empty bucket is as good as a charged one
		}
		return d
	}
	d.Wait = p.wait(o, s, u)
	if late := now.Add(d.Wait + p.MinAttempt).Sub(o.Deadline); late > 0 && s.Wait > 0 {
		d.Wait = max(d.Wait-late, s.Wait, p.Floor) // less spread, if the named wait itself fits
	}
	switch {
	case s.Wait > p.RetryAfterMax:
		d.Reason = ReasonTooFar
	case now.Add(d.Wait + p.MinAttempt).After(o.Deadline):
		d.Reason = ReasonDeadline
	case o.Blocked > d.Wait:
		d.Reason = ReasonBreaker
	case o.Budget != nil && !o.Budget.Withdraw():
		d.Reason = ReasonBudget
	}
	if d.Reason != ReasonNone {
		d.Wait = 0
		return d
	}
	d.Again, d.Ask = true, !o.Idempotent && !s.Untouched
	o.Step++
	if s.Restart {
		o.Step = 0
	}
	return d
}

// forbids looks for what no wait would help against.
func (p Policy) forbids(o *Operation, s Sign) Reason {
	switch {
	case o.Over:
		return ReasonContext
	case s.Stop && s.Reason != ReasonNone:
		return s.Reason
	case s.Stop:
		return ReasonServer
	case !s.Retryable && !s.Again:
		return ReasonPermanent
	case !o.Idempotent && !s.Untouched && !o.Checkable:
		return ReasonNotIdempotent
	case !o.Replayable:
		return ReasonNotReplayable
	case o.Nested:
		return ReasonNested
	case o.Attempts >= p.MaxAttempts:
		return ReasonAttempts
	}
	return ReasonNone
}

// wait is the wait before the next attempt. What a server names is never
// shortened: spread only adds.
func (p Policy) wait(o *Operation, s Sign, u float64) time.Duration {
	u = min(max(u, 0), 1)
	if s.Wait <= 0 && !s.Named {
		return p.Floor + scale(p.ceiling(o.Step), u)
	}
	named := max(s.Wait, p.Floor)
	switch s.Spread {
	case SpreadNone:
		return named
	case SpreadTick:
		return named + scale(tick, u)
	default:
		return named + scale(named/10, u)
	}
}

func scale(d time.Duration, u float64) time.Duration { return time.Duration(u * float64(d)) }

// ceiling is Base doubled step times, at most Cap.
func (p Policy) ceiling(step int) time.Duration {
	if step < 0 || p.Base > p.Cap>>step { // so asked, no shift can overflow
		return p.Cap
	}
	return p.Base << step
}
