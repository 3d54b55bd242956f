package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/client/retry"
	"github.com/comporta/comporta/internal/retryafter"
)

// errAnswerLost stands for a failed response that is no longer there to be
// handed back.
var errAnswerLost = errors.New("client: the answer of the last attempt was a failure")

// Bounds of what a failed response costs before its connection is given up
// instead of used again.
const (
	drainBytes = 64 << 10
	drainTime  = 50 * time.Millisecond
)

// attempt is one request that goes out, and what came of it. Its instants are
// counted from the beginning of the call.
type attempt struct {
	context attemptContext
	number  int32 // from 1, of those that go out
	hedge   bool
	paid    bool // by a token of the budget
	sent    bool // it was given to the transport below
	ended   atomic.Bool
	way     way
	req     http.Request

	resp        *http.Response // nil if err is not
	err         error
	began, over time.Duration // over: when resp or err was there

	permit bulkhead.Permit
	inner  io.ReadCloser // the body of a response that was handed over
	heard  *heard        // what was read of it before; nil: nothing
}

func (a *attempt) call() *call { return a.context.call }

// prepare makes the request, whose attempt may take share from now on. body is
// sent and closed whatever happens.
func (a *attempt) prepare(c *call, now time.Time, share time.Duration, body io.ReadCloser) {
	a.number = c.attempts + 1
	if a != &c.first {
		a.began = now.Sub(c.began)
	}
	a.context.call = c
	a.context.until = a.began + share
	var ctx context.Context = &a.context
	if !c.op.Idempotent {
		ctx = a.watch(ctx, now)
	}
	a.req = *c.caller.WithContext(ctx) // copied as a value, so that only the attempt is allocated
	a.req.Body = body
	a.req.Header = a.header(share)
}

// enter asks the destination's breaker and bulkhead. If one of them refuses, err
// says so.
func (a *attempt) enter(now time.Time) (pass breaker.Permit, entered bool) {
	d := a.call().destination
	if d.breaker != nil {
		if pass, a.err = d.breaker.AllowAt(now); a.err != nil {
			a.refused()
			return pass, false
		}
	}
	if d.bulkhead == nil {
		return pass, true
	}
	var free bool
	if a.permit, free = d.bulkhead.TryAcquire(); free { // the usual case needs no context that can be waited for
		return pass, true
	}
	if a.hedge { // it must not stand in a queue behind what it is to overtake
		a.err = bulkhead.ErrFull
	} else {
		a.permit, a.err = d.bulkhead.Acquire(&a.context)
		a.began = a.call().since() // it waited
	}
	if a.err != nil {
		pass.DoneAt(now, comporta.Outcome{Result: comporta.ResultAbandoned})
		a.refused()
		return pass, false
	}
	return pass, true
}

// refused tells that something local held the attempt back.
func (a *attempt) refused() {
	c := a.call()
	a.over = a.began
	if trace := c.transport.client.config.Trace.Refused; trace != nil {
		trace(c.destination.name, a.err)
	}
}

// goes counts an attempt that goes out, in the caller's goroutine.
func (a *attempt) goes() {
	c := a.call()
	a.sent = true
	a.paid, c.paid = a.paid || c.paid, false
	c.attempts++
	c.op.Attempts++
}

// roundTrip sends the request and leaves resp or err.
func (a *attempt) roundTrip(pass breaker.Permit) {
	c := a.call()
	a.resp, a.err = c.transport.next.RoundTrip(&a.req) //nolint:bodyclose // closed by discard, or by the caller
	a.over = c.since()
	a.straighten()
	o := a.outcome()
	pass.DoneAt(c.began.Add(a.over), o)
	if trace := c.transport.client.config.Trace.Attempted; trace != nil {
		trace(a.told())
	}
}

// straighten leaves either a response or an error, and says of a timeout that it
// is one, whatever the transport made of it.
func (a *attempt) straighten() {
	late := a.context.timedOut()
	if a.resp != nil && (a.err != nil || late) { // late: its body could not be read any more
		if a.resp.Body != nil {
			_ = a.resp.Body.Close() // the error is what counts
		}
		a.resp = nil
	}
	switch {
	case a.err != nil && late && !errors.Is(a.err, retry.ErrAttemptTimeout):
		a.err = fmt.Errorf("%w: %w", retry.ErrAttemptTimeout, a.err)
	case a.err == nil && late:
		a.err = retry.ErrAttemptTimeout
	case a.err == nil && a.resp == nil:
		a.err = errNoResponse
	}
}

var errNoResponse = errors.New("client: the transport returned neither response nor error")

// outcome is what the breaker learns.
func (a *attempt) outcome() comporta.Outcome {
	o := comporta.Outcome{Latency: a.over - a.began}
	switch {
	case a.resp != nil && a.resp.StatusCode >= 400 && a.resp.Header.Get(comporta.HeaderDecision) != "":
		o.Status, o.Result = a.resp.StatusCode, comporta.ResultRefused // the gateway protects the service better than we can
	case a.resp != nil:
		o.Status, o.Result = a.resp.StatusCode, comporta.ResultOf(a.resp.StatusCode)
	case a.context.timedOut():
		o.Result = comporta.ResultTimeout
	case a.context.Err() != nil:
		o.Result = comporta.ResultAbandoned
	default:
		o.Result = comporta.ResultUnreachable
	}
	return o
}

func (a *attempt) told() Attempt {
	c := a.call()
	t := Attempt{
		Destination: c.destination.name, Version: c.version[0],
		Number: int(a.number), Hedge: a.hedge, Err: a.err, Took: a.over - a.began,
	}
	for b := c.before; b != nil; b = b.before {
		t.Number += int(b.attempts)
	}
	if a.resp != nil {
		t.Status = a.resp.StatusCode
	}
	return t
}

// fault reads an attempt without a response.
func (a *attempt) fault() retry.Sign {
	s := retry.OfError(a.err)
	if a.sent && a.way.wroteNothing() {
		s.Untouched = true
	}
	return s
}

// complaint reads a response that is a failure. Its body is looked into only
// where the headers leave the question open.
func (a *attempt) complaint() retry.Sign {
	c, h, status := a.call(), a.resp.Header, a.resp.StatusCode
	var body []byte
	if retryafter.Says(h) == retryafter.Unsaid && retryafter.MayTell(h, status) {
		body = a.listen()
	}
	s := retry.OfResponse(c.began.Add(a.over), status, h, body, c.hasKey())
	if status == http.StatusUpgradeRequired && c.version[0] != "" && h.Get("Upgrade") == "" {
		s.Stop, s.Again, s.Reason = true, false, retry.ReasonTooOld
	}
	return s
}

// discard leaves a failed attempt behind: what is left of its body is read, if
// that is little and comes soon, so that the connection can be used again.
func (a *attempt) discard() {
	if a.resp != nil && a.resp.Body != nil {
		if a.resp.ContentLength <= drainBytes && a.heard.over() && a.context.move(a.call().since()+drainTime) {
			_, _ = io.CopyN(io.Discard, a.resp.Body, drainBytes+1) // an error leaves nothing to read
		}
		_ = a.resp.Body.Close() // as above
	}
	a.end(context.Canceled)
	a.heard.wait()
}

// end gives back what the attempt holds; only the first call counts.
func (a *attempt) end(cause error) {
	if a.ended.CompareAndSwap(false, true) {
		a.context.end(cause)
		a.permit.Release()
	}
}
