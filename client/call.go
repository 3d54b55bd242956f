package client

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/client/internal/operation"
	"github.com/comporta/comporta/client/retry"
)

// call is one operation: all attempts at one request of the caller's. It belongs
// to the caller's goroutine; attempts that are hedged only read it.
type call struct {
	transport   *transport
	caller      *http.Request // never changed
	destination *destination
	owner       *operation.Mark // who repeats above; nil: nobody
	mark        operation.Mark  // what the layers below see
	version     *string
	policy      *retry.Policy // the client's own, or a tighter one
	op          retry.Operation
	check       Check

	minted    string // the Idempotency-Key that AutoKey made
	ticket    string // to be shown at the next attempt
	declared  int    // the attempt that the caller or the owner is at
	announced bool   // the caller's own header says so

	began     time.Time
	firstTook time.Duration // how long the first attempt took
	report    retry.Report

	first attempt // part of the call, so that success costs one allocation for both
}

// run makes attempts until one is an answer, or no other may follow. Either the
// response or the error is nil.
func (c *call) run() (*http.Response, error) {
	if err := c.refuse(); err != nil {
		closeBody(c.caller)
		return nil, err
	}
	next, body := &c.first, c.caller.Body
	for {
		a, err := c.send(next, body)
		if err != nil {
			return nil, err
		}
		s := c.read(a)
		if s.OK {
			c.settle(a)
			return c.hand(a), nil
		}
		d := c.decide(a, s)
		if !d.Again {
			return c.giveUp(a, d.Reason)
		}
		if body, err = c.pause(a, d); err != nil {
			return nil, err
		}
		next = &attempt{} // the one before may still be in the hands of the transport
	}
}

// refuse looks for what makes any attempt pointless.
func (c *call) refuse() error {
	client := c.transport.client
	switch {
	case client.config.Strict && c.owner.OwnedHere():
		c.report.Reason = retry.ReasonNested
		return retry.ErrNested
	case c.destination.refused.Load() == c.version:
		c.report.Reason = retry.ReasonTooOld
		return ErrTooOld
	}
	return nil
}

// send makes the next attempt, hedged where that is asked for, and returns the
// one that counts. The error says that there was no attempt.
func (c *call) send(a *attempt, body io.ReadCloser) (*attempt, error) {
	now := c.began
	if c.op.Attempts > 0 {
		now = time.Now()
	}
	ctx := c.caller.Context()
	share := c.policy.AttemptAt(now, &c.op)
	if ctx.Err() != nil || share <= 0 {
		if body != nil {
			_ = body.Close() // the attempt that would have heard of it is not made
		}
		if ctx.Err() != nil {
			c.report.Reason = retry.ReasonContext
			return nil, operation.Ended(ctx, nil)
		}
		c.report.Reason = retry.ReasonDeadline
		return nil, context.DeadlineExceeded
	}
	c.op.Attempts++
	a.prepare(c, c.op.Attempts, now, share, body)
	if c.hedges() {
		a = c.race(a)
	} else {
		a.roundTrip()
	}
	if len(c.report.Waits) == 0 {
		c.firstTook = a.over.Sub(c.began)
	}
	return a, nil
}

// read says what an attempt left behind.
func (c *call) read(a *attempt) retry.Sign {
	if a.resp == nil {
		return a.fault()
	}
	h := a.resp.Header
	c.report.Status = a.resp.StatusCode
	c.ticket = ticketOf(h)
	if c.transport.client.config.Trace.Replayed != nil && h.Get(comporta.HeaderReplayed) == "true" {
		c.transport.client.config.Trace.Replayed(c.destination.name)
	}
	if told := h[comporta.HeaderRetryPolicy]; len(told) > 0 && c.transport.client.config.Told != nil {
		c.transport.client.config.Told(c.destination.name, told[0])
	}
	if a.resp.StatusCode < 400 {
		return retry.Sign{OK: true}
	}
	return a.complaint()
}

// decide asks the core.
func (c *call) decide(a *attempt, s retry.Sign) retry.Decision {
	client := c.transport.client
	now := time.Now()
	if s.Reason == retry.ReasonTooOld && c.destination.refused.Swap(c.version) != c.version && client.config.Trace.TooOld != nil {
		client.config.Trace.TooOld(c.destination.name, *c.version)
	}
	if client.config.Limits != nil {
		c.policy = client.policy(c.destination.name, c.caller.URL.Path)
	}
	c.op.Over = c.caller.Context().Err() != nil
	c.op.Blocked = c.destination.blockedAt(now)
	d := c.policy.DecideAt(now, &c.op, s, client.config.Rand())
	if !d.RetryAt.IsZero() {
		c.report.RetryAt = d.RetryAt
	}
	if !d.Again && (s.Retryable || s.Again) && a.sent {
		client.suspects.add(now, c.caller)
	}
	return d
}

// pause leaves a failed attempt behind, waits, and returns the body of the next.
// The error ends the operation.
func (c *call) pause(a *attempt, d retry.Decision) (io.ReadCloser, error) {
	ctx := c.caller.Context()
	due := time.Now().Add(d.Wait)
	last := a.err
	a.discard()
	c.report.Waits = append(c.report.Waits, d.Wait)
	if operation.Sleep(ctx, time.Until(due)) != nil {
		c.report.Reason = retry.ReasonContext
		return nil, operation.Ended(ctx, last)
	}
	if d.Ask {
		done, reason := retry.Ask(ctx, c.op.Deadline, c.check)
		if done {
			reason = retry.ReasonDone
		}
		if reason != retry.ReasonNone {
			c.report.Reason = reason
			return nil, errOr(last, errAnswerLost)
		}
	}
	if c.caller.GetBody == nil {
		return c.caller.Body, nil // nil, or http.NoBody
	}
	body, err := c.caller.GetBody()
	if err != nil {
		c.report.Reason = retry.ReasonNotReplayable
		return nil, errOr(err, last)
	}
	return body, nil
}

// giveUp hands back what the last attempt brought.
func (c *call) giveUp(a *attempt, reason retry.Reason) (*http.Response, error) {
	c.report.Reason = reason
	if a.resp != nil {
		return c.hand(a), nil
	}
	a.end(a.err)
	if reason == retry.ReasonContext {
		return nil, operation.Ended(c.caller.Context(), a.err)
	}
	return nil, a.err
}

// hand gives a response to the caller: its body may be read for as long as the
// operation may take, and ends the attempt.
func (c *call) hand(a *attempt) *http.Response {
	resp := a.resp
	resp.Request = &a.req
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// The connection is the caller's now; its body must stay what it is.
		a.context.move(time.Time{})
		a.permit.Release()
		return resp
	}
	if resp.Body == nil || resp.Body == http.NoBody {
		resp.Body = http.NoBody
		a.end(context.Canceled)
		return resp
	}
	var until time.Time
	if !c.transport.client.config.Streaming {
		// The last response of an operation whose time is over can still be read.
		until = c.op.Deadline
		if least := a.over.Add(c.policy.MinAttempt); least.After(until) {
			until = least
		}
	}
	a.context.move(until)
	a.body.inner = resp.Body
	resp.Body = &a.body
	return resp
}

// settle pays for a success.
func (c *call) settle(a *attempt) {
	if a.number == 1 {
		c.op.Budget.Deposit()
	} else {
		c.op.Budget.Refund()
	}
}

func (c *call) finish() {
	c.report.Attempts = c.op.Attempts
	c.report.Elapsed = c.firstTook
	if c.op.Attempts != 1 {
		c.report.Elapsed = time.Since(c.began)
	}
	if c.op.Attempts > 1 {
		c.report.Repeating = c.report.Elapsed - c.firstTook
	}
	if trace := c.transport.client.config.Trace.Finished; trace != nil {
		trace(c.report)
	}
}

func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
