package retry

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Report tells the story of an operation.
type Report struct {
	// Destination is the host that was asked, or the name that Do was given.
	Destination string
	// Version is what the client says it runs, if it says so.
	Version string
	// Attempts is the number of calls made; 0 when something local refused.
	Attempts int
	// Hedges is how many of them ran beside another.
	Hedges int
	// Waits are the waits between attempts, in order.
	Waits []time.Duration
	// Elapsed is the time from the beginning to the answer's head, or the error.
	Elapsed time.Duration
	// Repeating is how much of Elapsed went by after the first attempt: in waits
	// and in further attempts.
	Repeating time.Duration
	// Status is the last status of HTTP, 0 without one.
	Status int
	// Reason says why it was not tried again; ReasonNone after success.
	Reason Reason
	// RetryAt is the instant that the server last named; zero without one.
	RetryAt time.Time
	// Nested says that a layer above owns the operation.
	Nested bool
}

// Succeeded reports whether the operation ended well.
func (r *Report) Succeeded() bool { return r.Reason == ReasonNone && r.Attempts > 0 }

// Waited is the sum of the waits.
func (r *Report) Waited() time.Duration {
	sum := time.Duration(0)
	for _, w := range r.Waits {
		sum += w
	}
	return sum
}

var (
	// ErrGaveUp is what every *Error is, by errors.Is.
	ErrGaveUp = errors.New("retry: gave up")
	// ErrNested is what a strict layer returns below one that already repeats.
	ErrNested = errors.New("retry: a layer above already repeats this operation; turn one of them off")
	// ErrAttemptTimeout is the cause of an attempt that took longer than its share
	// of the deadline.
	ErrAttemptTimeout error = attemptTimeoutError{}
)

// attemptTimeoutError is a timeout in the eyes of package net, and a deadline in
// those of package context.
type attemptTimeoutError struct{}

func (attemptTimeoutError) Error() string {
	return "retry: the attempt took longer than its share of the deadline"
}

// Timeout makes it a timeout, as net.Error tells them.
func (attemptTimeoutError) Timeout() bool { return true }

// Temporary is true, as it is of the timeouts of package net.
func (attemptTimeoutError) Temporary() bool { return true }

// Is makes it answer to context.DeadlineExceeded.
func (attemptTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Error is the end of an operation without an answer. It wraps the last error,
// and answers to ErrGaveUp.
type Error struct {
	Report Report
	Err    error // the last attempt's, or what ended the operation
}

func (e *Error) Error() string {
	status := ""
	if e.Report.Status != 0 {
		status = fmt.Sprintf(", last status %d", e.Report.Status)
	}
	return fmt.Sprintf("retry: gave up after %d attempt(s) (%v%s): %v", e.Report.Attempts, e.Report.Reason, status, e.Err)
}

// Unwrap returns the last error.
func (e *Error) Unwrap() error { return e.Err }

// Is makes an Error answer to ErrGaveUp.
func (*Error) Is(target error) bool { return target == ErrGaveUp }

// Timeout reports whether the last error was a timeout, for those who ask as
// package net does: net/url asks the error itself, and does not unwrap.
func (e *Error) Timeout() bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](e.Err)
	return ok && t.Timeout()
}
