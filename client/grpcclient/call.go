package grpcclient

import (
	"context"
	"crypto/rand"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/internal/operation"
	"github.com/comporta/comporta/client/retry"
)

// call is one operation: all attempts at one call of the caller's. It belongs to
// one goroutine at a time.
type call struct {
	client      *Client
	ctx         context.Context //nolint:containedctx // a call has a context
	method      string
	destination *destination
	owner       *operation.Mark // who repeats above; nil: nobody
	version     *string
	asked       asked
	policy      retry.Policy
	op          retry.Operation
	paid        bool // a token of the budget was taken for the attempt that comes
	question    bool // a Check was asked for it
	bound       bool // every attempt ends within the operation's time: not a stream

	versioned bool   // the caller says its version itself
	minted    string // the one that AutoKey made
	counted   bool   // the caller says itself which attempt this is
	declared  int    // the attempt that the caller or the owner is at
	ticket    string // to be shown at the next attempt

	began     time.Time
	firstOver time.Time // when the first attempt had ended
	report    retry.Report
}

// begin reads a call: who owns the operation, what it may do, how long it has.
func (c *Client) begin(ctx context.Context, target, method string, options []grpc.CallOption) *call {
	owner := operation.Of(ctx)
	k := &call{
		client: c, ctx: ctx, method: method, owner: owner, began: time.Now(),
		destination: c.destinations.of(target), version: c.version.Load(),
	}
	k.asked.read(options)
	k.policy = c.policy(k.destination.name, method)
	k.report.Destination, k.report.Version = k.destination.name, *k.version
	if owner.Owned() {
		k.declared = owner.Attempt
	}
	k.op.Idempotent = k.asked.idempotent || c.config.Idempotent(method)
	k.readMetadata()
	callers, _ := ctx.Deadline()
	k.op.Deadline = k.policy.DeadlineAt(k.began, callers)
	if d := owner.Until(c.config.Margin); !d.IsZero() && d.Before(k.op.Deadline) {
		k.op.Deadline = d
	}
	k.op.Nested = owner.Owned() || k.counted
	k.op.Budget = k.destination.budget
	k.op.Checkable = k.asked.check != nil
	k.report.Nested = k.op.Nested
	return k
}

// readMetadata reads what the caller's metadata says of the operation.
func (c *call) readMetadata() {
	md, _ := metadata.FromOutgoingContext(c.ctx)
	if keys := md[keyIdempotency]; len(keys) == 1 {
		if _, keyed := comporta.ParseKey(keys[0]); keyed {
			c.op.Idempotent = true
		}
	} else if len(keys) == 0 && c.client.config.AutoKey && !c.op.Idempotent {
		c.minted, c.op.Idempotent = rand.Text(), true
	}
	c.versioned = len(md[keyVersion]) > 0
	for _, name := range [...]string{keyAttempt, keyPreviousAttempts} {
		if v := md[name]; len(v) > 0 && !c.counted {
			c.counted, c.declared = true, comporta.ParseAttempt(v[0], 0)
		}
	}
}

// refuse looks for what makes any attempt pointless.
func (c *call) refuse() error {
	switch {
	case c.client.config.Strict && c.owner.OwnedHere():
		c.report.Reason = retry.ReasonNested
		return retry.ErrNested
	case c.destination.refused.Load() == c.version:
		c.report.Reason = retry.ReasonTooOld
		return client.ErrTooOld
	}
	return nil
}

// next makes the next attempt ready. The error says that there is no time for
// one.
func (c *call) next() (*attempt, error) {
	now := c.began
	if c.op.Attempts > 0 {
		now = time.Now()
	}
	share := c.policy.AttemptAt(now, &c.op)
	if c.ctx.Err() != nil || share <= 0 {
		c.takeBack()
	}
	if c.ctx.Err() != nil {
		c.report.Reason = retry.ReasonContext
		return nil, operation.Ended(c.ctx, nil)
	}
	if share <= 0 {
		c.report.Reason = retry.ReasonDeadline
		return nil, context.DeadlineExceeded
	}
	return c.attempt(now, share), nil
}

// again decides what follows on an attempt that failed with err, and waits. nil
// says to make another one; an error ends the operation.
func (c *call) again(a *attempt, err error) error {
	d := c.decide(a.sign(err))
	if !d.Again {
		c.report.Reason = d.Reason
		if d.Reason == retry.ReasonContext {
			return operation.Ended(c.ctx, err)
		}
		return err
	}
	c.report.Waits = append(c.report.Waits, d.Wait)
	if operation.Sleep(c.ctx, d.Wait) != nil {
		c.takeBack()
		c.report.Reason = retry.ReasonContext
		return operation.Ended(c.ctx, err)
	}
	if d.Ask {
		c.question = true
		done, reason := retry.Ask(c.ctx, c.op.Deadline, c.asked.check)
		if done {
			reason = retry.ReasonDone
		}
		if reason != retry.ReasonNone {
			c.report.Reason = reason
			return err
		}
	}
	return nil
}

// decide asks the core.
func (c *call) decide(s retry.Sign) retry.Decision {
	now, config := time.Now(), &c.client.config
	if s.Reason == retry.ReasonTooOld && c.destination.refused.Swap(c.version) != c.version && config.Trace.TooOld != nil {
		config.Trace.TooOld(c.destination.name, *c.version)
	}
	if config.Limits != nil {
		c.policy = c.client.policy(c.destination.name, c.method)
	}
	c.op.Over = c.ctx.Err() != nil
	c.op.Blocked = c.destination.blockedAt(now)
	d := c.policy.DecideAt(now, &c.op, s, config.Rand())
	c.paid, c.question = d.Again, false
	if !d.RetryAt.IsZero() {
		c.report.RetryAt = d.RetryAt
	}
	return d
}

// settle pays for a success. Where a layer above repeats, it is that layer's to
// count.
func (c *call) settle(a *attempt) {
	switch {
	case a.paid:
		c.op.Budget.Refund()
	case !c.op.Nested:
		c.op.Budget.Deposit()
	}
}

// takeBack returns the token of a repeat that was not made. The question of a Check
// was a call too, and keeps it.
func (c *call) takeBack() {
	if c.paid && !c.question {
		c.op.Budget.Refund()
	}
	c.paid = false
}

// finish tells how the operation came about, and returns the error for the
// caller.
func (c *call) finish(err error) error {
	now := time.Now()
	c.report.Attempts = c.op.Attempts
	c.report.Elapsed = now.Sub(c.began)
	if c.op.Attempts > 1 {
		c.report.Repeating = now.Sub(c.firstOver)
	}
	if trace := c.client.config.Trace.Finished; trace != nil {
		trace(c.report)
	}
	for _, r := range c.asked.reports {
		*r = c.report
	}
	if err == nil {
		return nil
	}
	return &failure{&retry.Error{Report: c.report, Err: err}}
}
