package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
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

// attempt is one request that goes out, and what came of it.
type attempt struct {
	call    *call
	number  int
	hedge   bool
	sent    bool // it was given to the transport below
	context attemptContext
	req     http.Request
	values  [maxLines]string // of the lines that header added

	resp *http.Response // nil if err is not
	err  error
	over time.Time // when resp or err was there

	permit bulkhead.Permit
	ended  atomic.Bool
	body   answerBody
	wrote  connTrace
}

// prepare makes the request. body is sent and closed whatever happens.
func (a *attempt) prepare(c *call, number int, now time.Time, share time.Duration, body io.ReadCloser) {
	a.call, a.number = c, number
	a.body.attempt = a
	a.context.call = c
	a.context.parent = c.caller.Context() //nolint:fatcontext // an attempt's parent is set once
	a.context.deadline = now.Add(share)
	var ctx context.Context = &a.context
	if !c.op.Idempotent {
		ctx = a.wrote.watch(ctx)
	}
	a.req = *c.caller.WithContext(ctx) // copied as a value, so that only the attempt is allocated
	a.req.Body = body
	a.req.Header = a.header(share)
}

// roundTrip sends the request and leaves resp or err.
func (a *attempt) roundTrip() {
	began := a.call.began
	if a.number > 1 {
		began = time.Now()
	}
	pass, err := a.enter(began)
	if err != nil {
		closeBody(&a.req)
		a.over, a.err = time.Now(), err
		if trace := a.call.transport.client.config.Trace.Refused; trace != nil {
			trace(a.call.destination.name, err)
		}
		return
	}
	a.sent = true
	a.resp, a.err = a.call.transport.next.RoundTrip(&a.req) //nolint:bodyclose // closed by discard, or by the caller
	a.over = began.Add(time.Since(began))                   // one reading of the clock instead of two
	a.straighten()
	pass.DoneAt(a.over, a.outcome(began))
	if trace := a.call.transport.client.config.Trace.Attempted; trace != nil {
		trace(a.told(began))
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

// enter asks the destination's breaker and bulkhead.
func (a *attempt) enter(now time.Time) (pass breaker.Permit, err error) {
	d := a.call.destination
	if d.breaker != nil {
		if pass, err = d.breaker.AllowAt(now); err != nil {
			return pass, err
		}
	}
	if d.bulkhead == nil {
		return pass, nil
	}
	var free bool
	if a.permit, free = d.bulkhead.TryAcquire(); free { // the usual case needs no context that can be waited for
		return pass, nil
	}
	if a.permit, err = d.bulkhead.Acquire(&a.context); err != nil {
		pass.DoneAt(now, comporta.Outcome{Result: comporta.ResultAbandoned})
	}
	return pass, err
}

// outcome is what the breaker learns.
func (a *attempt) outcome(began time.Time) comporta.Outcome {
	o := comporta.Outcome{Latency: a.over.Sub(began)}
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

func (a *attempt) told(began time.Time) Attempt {
	t := Attempt{
		Destination: a.call.destination.name, Version: *a.call.version,
		Number: a.number, Hedge: a.hedge, Err: a.err, Took: a.over.Sub(began),
	}
	if a.resp != nil {
		t.Status = a.resp.StatusCode
	}
	return t
}

// fault reads an attempt without a response.
func (a *attempt) fault() retry.Sign {
	s := retry.OfError(a.err)
	if a.sent && a.wrote.nothing() {
		s.Untouched = true
	}
	return s
}

// complaint reads a response that is a failure. Its body is looked into only
// where the headers leave the question open.
func (a *attempt) complaint() retry.Sign {
	h, status := a.resp.Header, a.resp.StatusCode
	var body []byte
	if retryafter.Says(h) == retryafter.Unsaid && retryafter.Peekable(h, status) && a.resp.Body != nil {
		body = a.body.peek(a.resp.Body, a.resp.ContentLength)
	}
	s := retry.OfResponse(a.over, status, h, body, a.call.hasKey())
	if status == http.StatusUpgradeRequired && *a.call.version != "" && h.Get("Upgrade") == "" {
		s.Stop, s.Again, s.Reason = true, false, retry.ReasonTooOld
	}
	return s
}

// discard leaves a failed attempt behind: what is left of its body is read, if
// that is little and comes soon, so that the connection can be used again.
func (a *attempt) discard() {
	if a.resp != nil && a.resp.Body != nil {
		if a.resp.ContentLength <= drainBytes && a.context.move(time.Now().Add(drainTime)) {
			_, _ = io.CopyN(io.Discard, a.resp.Body, drainBytes+1) // an error leaves nothing to read
		}
		_ = a.resp.Body.Close() // as above
	}
	a.end(context.Canceled)
}

// end gives back what the attempt holds; only the first call counts.
func (a *attempt) end(cause error) {
	if a.ended.CompareAndSwap(false, true) {
		a.context.end(cause)
		a.permit.Release()
	}
}

// connTrace sees whether a request that is not idempotent got as far as a
// connection, after which its bytes may have been written.
type connTrace struct{ asked, got atomic.Bool }

func (t *connTrace) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { t.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { t.got.Store(true) },
	})
}

// nothing reports that no byte was written, for certain: the transport tells of
// its connections, and had none.
func (t *connTrace) nothing() bool { return t.asked.Load() && !t.got.Load() }
