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
	parent context.Context //nolint:containedctx // a context has a parent
	call   *call

	waiting atomic.Pointer[waitingContext] // nil until somebody waits; written under mu

	mu       sync.Mutex
	deadline time.Time // zero: that of the parent
	over     error     // cause of the end, if it came before anybody waited
}

// waitingContext is the part of an attemptContext that costs something.
type waitingContext struct {
	context.Context

	cancel context.CancelCauseFunc
	timer  *time.Timer // nil: no deadline, or the parent's is the earlier one; under mu
}

// Deadline returns the earlier one of the attempt's and the parent's.
func (c *attemptContext) Deadline() (time.Time, bool) {
	c.mu.Lock()
	own := c.deadline
	c.mu.Unlock()
	parents, ok := c.parent.Deadline()
	if own.IsZero() || (ok && parents.Before(own)) {
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
	w.Context, w.cancel = context.WithCancelCause(c.parent)
	if c.over != nil {
		w.cancel(c.over)
		return w
	}
	c.arm(w)
	return w
}

// arm sets the timer of w, which has none that runs; with mu held.
func (c *attemptContext) arm(w *waitingContext) {
	w.timer = nil
	if parents, ok := c.parent.Deadline(); !c.deadline.IsZero() && (!ok || c.deadline.Before(parents)) {
		w.timer = time.AfterFunc(time.Until(c.deadline), func() { w.cancel(retry.ErrAttemptTimeout) })
	}
}

// Err is DeadlineExceeded when the attempt's time is over, as for a context with
// a deadline of its own.
func (c *attemptContext) Err() error {
	if w := c.waiting.Load(); w != nil {
		return errOf(w)
	}
	c.mu.Lock()
	deadline, over := c.deadline, c.over
	c.mu.Unlock()
	switch {
	case over != nil:
		return context.Canceled
	case c.parent.Err() != nil:
		return c.parent.Err()
	case !deadline.IsZero() && !time.Now().Before(deadline):
		return context.DeadlineExceeded
	}
	return nil
}

func errOf(w *waitingContext) error {
	err := w.Err()
	if err != nil && context.Cause(w) == retry.ErrAttemptTimeout { //nolint:errorlint // the very value that the timer gave
		return context.DeadlineExceeded
	}
	return err
}

// Value answers for the operation; the rest is the parent's.
func (c *attemptContext) Value(key any) any {
	switch key.(type) {
	case operation.Key:
		return &c.call.mark
	case callKey:
		return c.call
	}
	if w := c.waiting.Load(); w != nil {
		return w.Value(key)
	}
	return c.parent.Value(key)
}

// move sets a new deadline; zero leaves the parent's. It reports false when the
// former one has passed and whoever waited was told.
func (c *attemptContext) move(deadline time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = deadline
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
	if c.over == nil {
		c.over = cause
	}
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
