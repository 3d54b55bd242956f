package retry

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/comporta/comporta/client/budget"
	"github.com/comporta/comporta/client/internal/operation"
)

// Config says how a Runner repeats. The zero value is the default policy.
type Config struct {
	Policy Policy
	Budget budget.Config
	// Strict makes a Do below a layer that already repeats fail with ErrNested,
	// instead of making its one attempt: for tests that look for such layers.
	Strict bool
	// Limits tightens the policy from outside; it is asked for every decision. nil
	// is none.
	Limits func(name string) Limits
	// Rand returns numbers within [0, 1) for the waits, from many goroutines; nil
	// means the standard generator.
	Rand  func() float64
	Trace Trace
}

// Trace is a set of hooks; nil ones are not called. They are called from the
// goroutine of the operation and must not block.
type Trace struct {
	// Attempted is called after every attempt, with its number from 1.
	Attempted func(name string, attempt int, took time.Duration, err error)
	// Finished is called once for every operation. The report is the hook's own.
	Finished func(Report)
}

// Runner runs functions within an envelope. Its methods may be called from many
// goroutines.
type Runner struct {
	config  Config
	budgets *budget.Budgets
}

// New makes a Runner. The error joins all problems of c.
func New(c Config) (*Runner, error) {
	budgets, err := budget.New(c.Budget)
	if err := errors.Join(c.Policy.Check(), err); err != nil {
		return nil, err
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	return &Runner{config: c, budgets: budgets}, nil
}

// Budgets returns the budgets of the names that were called, to tighten or to
// watch.
func (r *Runner) Budgets() *budget.Budgets { return r.budgets }

// standard is the Runner of Do.
var standard = sync.OnceValues(func() (*Runner, error) { return New(Config{}) })

// Do runs f with the default policy; see [Runner.Do]. All calls of the process
// with one name share one budget.
func Do(ctx context.Context, name string, f func(context.Context) error, options ...Option) error {
	r, err := standard()
	if err != nil {
		return err
	}
	return r.Do(ctx, name, f, options...)
}

// Do runs f until it succeeds or the envelope says stop. name is the dependency
// that f calls, and has a budget of its own: a constant or a host, not a path.
// The context that f gets ends when the attempt has taken its share of the time;
// f should pass it on, since nothing else can interrupt it. For an inbound request
// that says how long its sender waits, Do ends 50 ms earlier.
//
// The error is nil or an *Error; with Config.Strict it may be ErrNested.
func (r *Runner) Do(ctx context.Context, name string, f func(context.Context) error, options ...Option) error {
	owner := operation.Of(ctx)
	if r.config.Strict && owner.OwnedHere() {
		return ErrNested
	}
	began := time.Now()
	c := call{
		runner: r, name: name, owner: owner, began: began,
		op:     Operation{Idempotent: true, Replayable: true, Nested: owner.Owned(), Budget: r.budgets.Of(name)},
		report: Report{Destination: name, Nested: owner.Owned()},
	}
	for _, option := range options {
		option(&c)
	}
	c.policy = c.currentPolicy()
	callers, _ := ctx.Deadline()
	c.op.Deadline = c.policy.DeadlineAt(began, callers)
	if d := owner.Until(operation.DefaultMargin); !d.IsZero() && d.Before(c.op.Deadline) {
		c.op.Deadline = d
	}
	err := c.run(ctx, f)
	c.finish(time.Now())
	if err == nil {
		return nil
	}
	return &Error{Report: c.report, Err: err}
}

// call is one run of Do.
type call struct {
	runner *Runner
	name   string
	owner  *operation.Mark
	own    *Policy // replaces the runner's, if set
	policy Policy  // that applies now
	check  func(context.Context) (Fate, error)
	op     Operation
	paid   bool // a token of the budget was taken for the attempt that comes, or runs
	asked  bool // Check was asked for it
	began  time.Time
	first  time.Time // when the first attempt had ended
	report Report
}

// currentPolicy is the envelope within the limits of the moment.
func (c *call) currentPolicy() Policy {
	p := c.runner.config.Policy
	if c.own != nil {
		p = *c.own
	}
	if c.runner.config.Limits == nil {
		return p.WithDefaults()
	}
	return p.Tighten(c.runner.config.Limits(c.name))
}

// run makes attempts until one succeeds or no other may follow. It returns the
// error to report, nil after success.
func (c *call) run(ctx context.Context, f func(context.Context) error) error {
	for {
		err, ended := c.attempt(ctx, f)
		if err == nil || ended {
			return err
		}
		s := OfError(err)
		if s.Reason == ReasonBreaker || s.Reason == ReasonBulkhead {
			c.takeBack() // something on this side of the network refused: nobody was asked
		}
		c.op.Over = ctx.Err() != nil
		c.policy = c.currentPolicy()
		d := c.policy.DecideAt(time.Now(), &c.op, s, c.runner.config.Rand())
		if !d.RetryAt.IsZero() {
			c.report.RetryAt = d.RetryAt
		}
		c.paid, c.asked = d.Again, false
		if !d.Again {
			c.report.Reason = d.Reason
			if d.Reason == ReasonContext {
				return operation.Ended(ctx, err)
			}
			return err
		}
		c.report.Waits = append(c.report.Waits, d.Wait)
		if operation.Sleep(ctx, d.Wait) != nil {
			c.takeBack()
			c.report.Reason = ReasonContext
			return operation.Ended(ctx, err)
		}
		if d.Ask {
			c.asked = true
			if done, reason := Ask(ctx, c.op.Deadline, c.check); reason != ReasonNone {
				c.report.Reason = reason
				return err
			} else if done {
				return nil
			}
		}
	}
}

// attempt runs f once. ended says that there was no time for it.
func (c *call) attempt(ctx context.Context, f func(context.Context) error) (err error, ended bool) { //nolint:revive // ended qualifies the error
	now := time.Now()
	share := c.policy.AttemptAt(now, &c.op)
	if ctx.Err() != nil || share <= 0 {
		c.takeBack()
		if ctx.Err() != nil {
			c.report.Reason = ReasonContext
			return operation.Ended(ctx, nil), true
		}
		c.report.Reason = ReasonDeadline
		return context.DeadlineExceeded, true
	}
	mark := c.owner
	if !mark.Owned() {
		mark = &operation.Mark{Owner: "retry", Deadline: c.op.Deadline, Attempt: c.op.Attempts}
		if c.owner != nil {
			mark.Sender = c.owner.Sender
		}
	}
	attempt, cancel := context.WithTimeoutCause(operation.With(ctx, mark), share, ErrAttemptTimeout)
	defer cancel()
	c.op.Attempts++
	err = f(attempt)
	end := time.Now()
	if c.op.Attempts == 1 {
		c.first = end
	}
	if c.runner.config.Trace.Attempted != nil {
		c.runner.config.Trace.Attempted(c.name, c.op.Attempts, end.Sub(now), err)
	}
	if err == nil {
		c.pay()
	}
	return err, false
}

// pay settles a success with the budget. Where a layer above repeats, the success
// is that layer's to count.
func (c *call) pay() {
	switch {
	case c.paid:
		c.op.Budget.Refund()
	case c.op.Attempts == 1 && !c.op.Nested:
		c.op.Budget.Deposit()
	}
}

// takeBack returns the token of a repeat that was not made. The question of Check
// was a call too, and keeps it.
func (c *call) takeBack() {
	if c.paid && !c.asked {
		c.op.Budget.Refund()
	}
	c.paid = false
}

func (c *call) finish(now time.Time) {
	c.report.Attempts = c.op.Attempts
	c.report.Elapsed = now.Sub(c.began)
	if c.op.Attempts > 1 {
		c.report.Repeating = now.Sub(c.first)
	}
	if c.runner.config.Trace.Finished != nil {
		c.runner.config.Trace.Finished(c.report)
	}
}
