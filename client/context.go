package client

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/client/internal/operation"
	"github.com/comporta/comporta/client/retry"
)

// attemptContext is the context of one attempt. It is what context.WithDeadline
// would make, with three differences: its deadline can be moved (an attempt's
// share of the time ends with the response's head, the body has longer), it
// carries the mark of the operation without a context of its own for it, and the
// timer and channels exist only once somebody waits for its end. A transport
// that answers without looking costs nothing.
//
// What waits is a standard context, whose values and channel this one passes on,
// so that contexts derived from it find their parent without a goroutine.
type attemptContext struct {
	call *call // its caller's context is the parent

	waiting atomic.Pointer[waitingContext] // nil until somebody waits; written under mu

	mu     sync.Mutex
	until  time.Duration // the deadline, from the beginning of the call; 0: that of the parent
	handed bool          // the response is with the caller: what runs out now is the body's time
	over   bool          // it ended before anybody waited
}

// waitingContext is the part of an attemptContext that costs something.
type waitingContext struct {
	context.Context

	cancel context.CancelCauseFunc
	timer  *time.Timer // nil: no deadline, or the parent's is the earlier one; under mu
}

func (c *attemptContext) parent() context.Context { return c.call.caller.Context() }

// Deadline returns the earlier one of the attempt's and the parent's.
func (c *attemptContext) Deadline() (time.Time, bool) {
	c.mu.Lock()
	until := c.until
	c.mu.Unlock()
	own := c.call.began.Add(until)
	parents, ok := c.parent().Deadline()
	if until == 0 || (ok && parents.Before(own)) {
		return parents, ok
	}
	return own, true
}

// Done makes what others can wait for.
func (c *attemptContext) Done() <-chan struct{} {
	if w := c.waiting.Load(); w != nil {
		return w.Done()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waiting.Load()
	if w == nil {
		w = c.wait()
		c.waiting.Store(w)
	}
	return w.Done()
}

// wait is called with mu held.
func (c *attemptContext) wait() *waitingContext {
	w := &waitingContext{}
	w.Context, w.cancel = context.WithCancelCause(c.parent())
	if c.over {
		w.cancel(context.Canceled)
		return w
	}
	c.arm(w)
	return w
}

// arm sets the timer of w, which has none that runs; with mu held.
func (c *attemptContext) arm(w *waitingContext) {
	w.timer = nil
	if c.until == 0 {
		return
	}
	if parents, ok := c.parent().Deadline(); ok && !c.call.began.Add(c.until).Before(parents) {
		return
	}
	cause := retry.ErrAttemptTimeout
	if c.handed {
		cause = errBodyTimeout
	}
	w.timer = time.AfterFunc(c.until-c.call.since(), func() { w.cancel(cause) })
}

// Err is DeadlineExceeded when the attempt's time is over, as for a context with
// a deadline of its own.
func (c *attemptContext) Err() error {
	if w := c.waiting.Load(); w != nil {
		return errOf(w)
	}
	c.mu.Lock()
	until, over := c.until, c.over
	c.mu.Unlock()
	switch {
	case over:
		return context.Canceled
	case c.parent().Err() != nil:
		return c.parent().Err()
	case until != 0 && c.call.since() >= until:
		return context.DeadlineExceeded
	}
	return nil
}

// errOf compares the causes with the very values that the timer gave.
func errOf(w *waitingContext) error {
	err := w.Err()
	if err != nil && (context.Cause(w) == retry.ErrAttemptTimeout || context.Cause(w) == errBodyTimeout) { //nolint:errorlint // as said
		return context.DeadlineExceeded
	}
	return err
}

// errBodyTimeout is why a body is cut.
var errBodyTimeout error = bodyTimeoutError{}

// bodyTimeoutError is a timeout in the eyes of package net, and a deadline in
// those of package context.
type bodyTimeoutError struct{}

func (bodyTimeoutError) Error() string {
	return "client: the response's body was not read within the operation's time (Policy.Total); set Config.Streaming for bodies that take longer"
}

func (bodyTimeoutError) Timeout() bool { return true }

func (bodyTimeoutError) Temporary() bool { return true }

func (bodyTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Value answers for the operation; the rest is the parent's.
func (c *attemptContext) Value(key any) any {
	switch key.(type) {
	case operation.Key:
		return c.call.mark()
	case callKey:
		return c.call
	}
	if w := c.waiting.Load(); w != nil {
		return w.Value(key)
	}
	return c.parent().Value(key)
}

// move sets a new deadline, from the beginning of the call; 0 leaves the parent's.
// It reports false when the former one has passed and whoever waited was told.
func (c *attemptContext) move(until time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moved(until)
}

// hand is move for the time in which the caller reads the body.
func (c *attemptContext) hand(until time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handed = true
	c.moved(until)
}

// moved is called with mu held.
func (c *attemptContext) moved(until time.Duration) bool {
	c.until = until
	w := c.waiting.Load()
	if w == nil {
		return true
	}
	if w.Err() != nil {
		return false
	}
	if w.timer != nil && !w.timer.Stop() {
		return false
	}
	c.arm(w)
	return true
}

// end ends the context. A cause that came earlier stays.
func (c *attemptContext) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if w := c.waiting.Load(); w != nil {
		if w.timer != nil {
			w.timer.Stop()
		}
		w.cancel(cause)
	}
}

// timedOut reports whether the attempt's own time ran out.
func (c *attemptContext) timedOut() bool {
	if w := c.waiting.Load(); w != nil {
		return context.Cause(w) == retry.ErrAttemptTimeout //nolint:errorlint // as in errOf
	}
	return false
}
