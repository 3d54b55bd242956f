package retry

import (
	"context"
	"time"
)

// Option changes one call of Do.
type Option func(*call)

// NotIdempotent says that running the function twice may do twice what it does.
// It is then repeated only after faults that left the other side untouched, or
// when Check finds the attempt undone.
func NotIdempotent() Option { return func(c *call) { c.op.Idempotent = false } }

// Check makes a function that is not idempotent repeatable: before each repeat
// that could do something twice, after the wait, ask is called. FateDone ends Do
// with success; FateNotDone lets it go on; an error or FateUnknown ends it with
// the attempt's error. The context that ask gets ends with the time of the whole.
// It implies NotIdempotent.
func Check(ask func(context.Context) (Fate, error)) Option {
	return func(c *call) { c.op.Idempotent, c.op.Checkable, c.check = false, ask != nil, ask }
}

// Within replaces the runner's policy for this call. It is used as it is:
// impossible values are the caller's to avoid (see Policy.Check).
func Within(p Policy) Option {
	return func(c *call) { c.own = &p }
}

// Fate is what became of an attempt whose answer was lost.
type Fate uint8

// The fates.
const (
	FateUnknown Fate = iota // nobody knows: it is not repeated
	FateNotDone             // it had no effect: it may be repeated
	FateDone                // it had its effect: there is nothing left to do
)

// Ask calls check, which may be nil, and says what its answer means: done, or a
// reason not to repeat. The context that check gets ends at the deadline of the
// operation.
func Ask(ctx context.Context, deadline time.Time, check func(context.Context) (Fate, error)) (done bool, reason Reason) {
	if check == nil {
		return false, ReasonNotIdempotent
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	switch fate, err := check(ctx); {
	case err != nil || fate == FateUnknown || fate > FateDone:
		return false, ReasonNotIdempotent
	case fate == FateDone:
		return true, ReasonNone
	}
	return false, ReasonNone
}
