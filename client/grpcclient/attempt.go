package grpcclient

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/client/internal/operation"
	"github.com/comporta/comporta/client/retry"
)

// The names of the contract as metadata has them: in lower case.
var (
	keyAttempt     = strings.ToLower(comporta.HeaderRetryAttempt)
	keyIdempotency = strings.ToLower(comporta.HeaderIdempotencyKey)
	keyVersion     = strings.ToLower(comporta.HeaderClientVersion)
	keyTicket      = strings.ToLower(comporta.HeaderRetryTicket)
	keyRetryPolicy = strings.ToLower(comporta.HeaderRetryPolicy)
	keyDecision    = strings.ToLower(comporta.HeaderDecision)
	keyReplayed    = strings.ToLower(comporta.HeaderReplayed)
)

// gRPC's own names (gRFC A6).
const (
	keyPreviousAttempts = "grpc-previous-rpc-attempts"
	keyPushback         = "grpc-retry-pushback-ms"
)

// maxTicket is the longest retry-ticket that is sent back: no gateway reads more.
const maxTicket = 200

// attempt is one call that goes out, and what came of it.
type attempt struct {
	call   *call
	number int
	began  time.Time
	ctx    context.Context //nolint:containedctx // an attempt has a context
	cancel context.CancelFunc

	sent    bool // it was given to grpc-go
	paid    bool // by a token of the budget
	pass    breaker.Permit
	permit  bulkhead.Permit
	judged  bool
	header  metadata.MD // of a call with one message each way
	trailer metadata.MD
	peer    peer.Peer // written by grpc-go before it calls over

	// ended: grpc-go is done with it. reached: it had got as far as a connection.
	ended, reached atomic.Bool
}

// attempt makes the next attempt, which may take share.
func (c *call) attempt(now time.Time, share time.Duration) *attempt {
	a := &attempt{call: c, number: c.op.Attempts + 1, began: now}
	mark := &operation.Mark{Owner: "client", Deadline: c.owner.Until(c.client.config.Margin), Attempt: a.number - 1 + c.declared}
	if c.owner != nil {
		mark.Sender = c.owner.Sender
	}
	if c.bound {
		mark.Deadline = c.op.Deadline
	}
	ctx := metadata.AppendToOutgoingContext(operation.With(c.ctx, mark), a.metadata()...)
	switch end := mark.Deadline; {
	case c.bound:
		a.ctx, a.cancel = context.WithDeadlineCause(ctx, now.Add(share), retry.ErrAttemptTimeout)
	case !end.IsZero():
		a.ctx, a.cancel = context.WithDeadline(ctx, end)
	default:
		a.ctx, a.cancel = context.WithCancel(ctx)
	}
	return a
}

// metadata is what the attempt adds to the caller's. Attempts say from the first
// on who repeats, because a server that learns it only from the repeats has by
// then repeated itself (see InboundUnary). How long they wait is grpc-timeout's
// to say.
func (a *attempt) metadata() []string {
	c := a.call
	pairs := make([]string, 0, 10)
	n := strconv.Itoa(a.number - 1 + c.declared)
	if !c.counted {
		pairs = append(pairs, keyAttempt, n)
		if n != "0" {
			pairs = append(pairs, keyPreviousAttempts, n)
		}
	}
	if v := *c.version; v != "" && !c.versioned {
		pairs = append(pairs, keyVersion, v)
	}
	if c.minted != "" {
		pairs = append(pairs, keyIdempotency, c.minted)
	}
	if c.ticket != "" {
		pairs = append(pairs, keyTicket, c.ticket)
	}
	return pairs
}

// options are the caller's, and those by which the attempt hears of its end.
func (a *attempt) options(callers []grpc.CallOption) []grpc.CallOption {
	options := append(slices.Clip(callers), grpc.Peer(&a.peer), grpc.OnFinish(a.over))
	if a.call.bound { // a stream has its metadata itself
		options = append(options, grpc.Header(&a.header), grpc.Trailer(&a.trailer))
	}
	return options
}

// over is called by grpc-go when it is done with the attempt, whoever ended it
// and in whatever goroutine: also for a stream that its caller has left behind,
// of which nothing else would be heard. The attempt's context stays: a layer
// between this one and grpc-go may not be done with it.
func (a *attempt) over(err error) {
	if a.peer.Addr != nil {
		a.reached.Store(true)
	}
	a.ended.Store(true)
	if a.call.ctx.Err() != nil || status.Code(err) == codes.Canceled {
		a.pass.DoneAt(time.Now(), comporta.Outcome{Result: comporta.ResultAbandoned})
	}
	a.permit.Release()
}

// release gives back what the attempt holds. It is safe twice.
func (a *attempt) release() {
	a.cancel()
	a.permit.Release()
}

// enter asks the destination's breaker and bulkhead.
func (a *attempt) enter() error {
	d := a.call.destination
	var err error
	if d.breaker != nil {
		a.pass, err = d.breaker.AllowAt(a.began)
	}
	if err == nil && d.bulkhead != nil {
		if a.permit, err = d.bulkhead.Acquire(a.ctx); err != nil {
			a.pass.DoneAt(a.began, comporta.Outcome{Result: comporta.ResultAbandoned})
		}
	}
	if err != nil {
		a.call.takeBack()
		if trace := a.call.client.config.Trace.Refused; trace != nil {
			trace(a.call.destination.name, err)
		}
		return err
	}
	a.sent = true
	a.paid, a.call.paid = a.call.paid, false
	a.call.op.Attempts++
	return nil
}

// judge tells everybody what became of the attempt; err is nil for success. Only
// the first call counts.
func (a *attempt) judge(err error) {
	if a.judged {
		return
	}
	a.judged = true
	c, now := a.call, time.Now()
	if c.firstOver.IsZero() {
		c.firstOver = now
	}
	if !a.sent {
		return
	}
	config := &c.client.config
	a.pass.DoneAt(now, a.outcome(now, err))
	if v := a.said(keyTicket); len(v) == 1 && len(v[0]) <= maxTicket {
		c.ticket = v[0]
	} else {
		c.ticket = ""
	}
	if v := a.said(keyRetryPolicy); len(v) > 0 && config.Told != nil {
		config.Told(c.destination.name, v[0])
	}
	if v := a.said(keyReplayed); len(v) > 0 && v[0] == "true" && config.Trace.Replayed != nil {
		config.Trace.Replayed(c.destination.name)
	}
	if config.Trace.Attempted != nil {
		config.Trace.Attempted(Attempt{
			Destination: c.destination.name, Method: c.method, Version: *c.version, Number: a.number,
			Code: statusOf(err).Code(), Err: err, Took: now.Sub(a.began),
		})
	}
}

// said returns what the server said under a name, last or first: a refusal is
// all trailer.
func (a *attempt) said(key string) []string {
	if v := a.trailer[key]; len(v) > 0 {
		return v
	}
	return a.header[key]
}

// decision is why a gateway of this project answered in the service's place.
func (a *attempt) decision() string {
	if v := a.said(keyDecision); len(v) > 0 {
		return v[0]
	}
	return ""
}

// outcome is what the breaker learns. A service that refuses a token or finds
// nothing works.
func (a *attempt) outcome(now time.Time, err error) comporta.Outcome {
	o := comporta.Outcome{Result: comporta.ResultDeterministic, Latency: now.Sub(a.began)}
	code := statusOf(err).Code()
	switch {
	case err == nil:
		o.Result = comporta.ResultSuccess
	case a.decision() != "":
		o.Result = comporta.ResultRefused // the gateway protects the service better than we can
	case a.call.ctx.Err() != nil, code == codes.Canceled:
		o.Result = comporta.ResultAbandoned
	case a.unreached():
		o.Result = comporta.ResultUnreachable
	case code == codes.DeadlineExceeded:
		o.Result = comporta.ResultTimeout
	case code == codes.ResourceExhausted:
		o.Status, o.Result = http.StatusTooManyRequests, comporta.ResultFailed // it speaks of this caller
	case code == codes.Unavailable, code == codes.Internal, code == codes.Unknown, code == codes.DataLoss:
		o.Result = comporta.ResultFailed
	}
	return o
}

// unreached reports that the call never had a connection, for certain: grpc-go
// is done with it, and names no peer.
func (a *attempt) unreached() bool { return a.ended.Load() && !a.reached.Load() }

// sign reads the end of an attempt.
func (a *attempt) sign(err error) retry.Sign {
	if err == nil || !a.sent {
		return retry.OfError(err)
	}
	st, decision := statusOf(err), a.decision()
	s := retry.OfGRPC(int(st.Code()), a.trailer[keyPushback], decision)
	switch {
	case decision == comporta.ClientTooOld.String():
		s.Stop, s.Reason = true, retry.ReasonTooOld
	case s.Untouched:
		s.Again = true // the gateway itself invites, whatever the code: ABORTED for a key whose first call still runs
	case tooLarge(st):
		s.Retryable = false
	}
	s.Untouched = s.Untouched || a.unreached()
	return s
}

// statusOf is the status that an error stands for; that of an error from
// elsewhere is UNKNOWN, but for those of package context.
func statusOf(err error) *status.Status {
	if st, ok := status.FromError(err); ok {
		return st
	}
	return status.FromContextError(err)
}

// tooLarge reports whether a message was refused for its size. That has the code
// of an exhausted quota, which passes, and comes back as often as it is tried,
// with the heaviest messages there are. Only the text tells: that of Go and C++,
// or that of Java.
func tooLarge(st *status.Status) bool {
	return st.Code() == codes.ResourceExhausted &&
		(strings.Contains(st.Message(), "larger than max") || strings.Contains(st.Message(), "exceeds maximum size"))
}
