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
// to the caller's goroutine; attempts that are hedged only read it. Every call
// allocates one, so what only few of them need stands in structs of its own.
type call struct {
	transport   *transport
	caller      *http.Request // never changed
	destination *destination
	owner       *operation.Mark // who repeats above; nil: nobody
	version     *value
	policy      *retry.Policy // the client's own, or a tighter one
	op          retry.Operation
	risk        *risk    // nil if the method is idempotent
	before      *call    // the hop that was redirected here; nil for the first
	trouble     *trouble // nil while nothing has failed

	began     time.Time
	firstTook time.Duration // how long the first attempt took
	took      time.Duration // from the beginning to the answer's head, or the error

	attempts, hedges int32 // that went out
	declared         int32 // the attempt that the caller or the owner is at
	status           int32 // the last one; 0 without
	reason           retry.Reason
	announced        bool // the caller's own header says which attempt this is
	paid             bool // a token of the budget was taken for the attempt that comes
	asked            bool // a Check took its question to the server for it

	first attempt // part of the call, so that success costs one allocation for both
}

// risk is what a call has whose method is not idempotent.
type risk struct {
	minted string // the Idempotency-Key that AutoKey made
	check  Check
}

// trouble is what a call has of which an attempt failed.
type trouble struct {
	waits   []time.Duration
	retryAt time.Time // the last that was named
	ticket  string    // to be shown at the next attempt
}

func (c *call) troubled() *trouble {
	if c.trouble == nil {
		c.trouble = &trouble{}
	}
	return c.trouble
}

// since is the time that has gone by.
func (c *call) since() time.Duration { return time.Since(c.began) }

// run makes attempts until one is an answer, or no other may follow. Either the
// response or the error is nil.
func (c *call) run() (*http.Response, error) {
	if err := c.refuse(); err != nil {
		closeBody(c.caller)
		return nil, err
	}
	next, body := &c.first, c.caller.Body
	for {
		a, s, err := c.send(next, body)
		if err != nil {
			return nil, err
		}
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
	switch {
	case c.transport.client.config.Strict && c.owner.OwnedHere():
		c.reason = retry.ReasonNested
		return retry.ErrNested
	case c.destination.refused.Load() == c.version:
		c.reason = retry.ReasonTooOld
		return ErrTooOld
	}
	return nil
}

// send makes the next attempt, hedged where that is asked for, and returns the
// one that counts with what it left behind. The error says that there was no time
// for an attempt.
func (c *call) send(a *attempt, body io.ReadCloser) (*attempt, retry.Sign, error) {
	now := c.began
	if a != &c.first {
		now = time.Now()
	}
	ctx := c.caller.Context()
	share := c.policy.AttemptAt(now, &c.op)
	if ctx.Err() != nil || share <= 0 {
		if body != nil {
			_ = body.Close() // the attempt that would have heard of it is not made
		}
		c.takeBack()
		if ctx.Err() != nil {
			c.reason = retry.ReasonContext
			return nil, retry.Sign{}, operation.Ended(ctx, nil)
		}
		c.reason = retry.ReasonDeadline
		return nil, retry.Sign{}, context.DeadlineExceeded
	}
	a.prepare(c, now, share, body)
	var s retry.Sign
	pass, entered := a.enter(now)
	if !entered {
		closeBody(&a.req)
		c.takeBack()
		s = a.fault()
		return a, s, nil
	}
	a.goes()
	if c.mayHedge() {
		a, s = c.race(a, pass)
	} else {
		a.roundTrip(pass)
		s = c.read(a)
	}
	if c.trouble == nil || len(c.trouble.waits) == 0 {
		c.firstTook = a.over
	}
	return a, s, nil
}

// read says what an attempt left behind.
func (c *call) read(a *attempt) retry.Sign {
	if a.resp == nil {
		return a.fault()
	}
	h, config := a.resp.Header, &c.transport.client.config
	c.status = int32(a.resp.StatusCode)
	if config.Trace.Replayed != nil && h.Get(comporta.HeaderReplayed) == "true" {
		config.Trace.Replayed(c.destination.name)
	}
	c.hear(h)
	if a.resp.StatusCode < 400 {
		return retry.Sign{OK: true}
	}
	c.troubled().ticket = ticketOf(h)
	return a.complaint()
}

// hear passes on what a response says of the policy.
func (c *call) hear(h http.Header) {
	config := &c.transport.client.config
	if told := h[comporta.HeaderRetryPolicy]; len(told) > 0 && config.Told != nil {
		config.Told(c.destination.name, told[0])
	}
}

// decide asks the core.
func (c *call) decide(a *attempt, s retry.Sign) retry.Decision {
	client := c.transport.client
	now := time.Now()
	if s.Reason == retry.ReasonTooOld && c.destination.refused.Swap(c.version) != c.version && client.config.Trace.TooOld != nil {
		client.config.Trace.TooOld(c.destination.name, c.version[0])
	}
	if client.config.Limits != nil {
		c.policy = client.policy(c.destination.name, c.caller.URL.Path)
	}
	c.op.Over = c.caller.Context().Err() != nil
	c.op.Blocked = c.destination.blockedAt(now)
	d := c.policy.DecideAt(now, &c.op, s, client.config.Rand())
	c.paid, c.asked = d.Again, false
	if !d.RetryAt.IsZero() {
		c.troubled().retryAt = d.RetryAt
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
	t := c.troubled()
	t.waits = append(t.waits, d.Wait)
	if operation.Sleep(ctx, time.Until(due)) != nil {
		c.takeBack()
		c.reason = retry.ReasonContext
		return nil, operation.Ended(ctx, last)
	}
	if d.Ask {
		c.asked = true
		done, reason := retry.Ask(ctx, c.op.Deadline, c.risk.check)
		if done {
			reason = retry.ReasonDone
		}
		if reason != retry.ReasonNone {
			c.reason = reason
			return nil, errOr(last, errAnswerLost)
		}
	}
	body, err := c.again()
	if err != nil {
		c.takeBack()
		c.reason = retry.ReasonNotReplayable
		return nil, errOr(err, last)
	}
	return body, nil
}

// again returns the body for another attempt.
func (c *call) again() (io.ReadCloser, error) {
	if c.caller.GetBody == nil {
		return c.caller.Body, nil // nil, or http.NoBody
	}
	return c.caller.GetBody()
}

// giveUp hands back what the last attempt brought.
func (c *call) giveUp(a *attempt, reason retry.Reason) (*http.Response, error) {
	c.reason = reason
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
		a.context.hand(0)
		a.permit.Release()
		return resp
	}
	if resp.Body == nil || resp.Body == http.NoBody {
		resp.Body = http.NoBody
		a.end(context.Canceled)
		return resp
	}
	var until time.Duration
	switch {
	case !c.transport.client.config.Streaming:
		// The last response of an operation whose time is over can still be read.
		until = max(c.op.Deadline.Sub(c.began), a.over+c.policy.MinAttempt)
	case c.transport.timeout > 0:
		until = max(c.transport.timeout-c.began.Sub(c.chainBegan()), a.over+1) // 0 would be no end
	}
	a.context.hand(until)
	a.inner = resp.Body
	resp.Body = answerBody{a}
	return resp
}

// settle pays for a success. Where a layer above repeats, it is that layer's to
// count.
func (c *call) settle(a *attempt) {
	switch {
	case a.paid:
		c.op.Budget.Refund()
	case a.number == 1 && !c.op.Nested:
		c.op.Budget.Deposit()
	}
}

// takeBack returns the token of a repeat that was not made. The question of a Check
// was a call too, and keeps it.
func (c *call) takeBack() {
	if c.paid && !c.asked {
		c.op.Budget.Refund()
	}
	c.paid = false
}

func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
