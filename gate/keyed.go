package gate

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/admission"
	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/store"
)

// serveKeyed answers a request under an idempotency key. A key that is finished is
// replayed without a permit; the claim comes after admission, so that who is
// refused claims nothing; who stands by for another's answer holds no permit.
func (x *exchange) serveKeyed(next http.Handler, policy *idempotency.Policy) {
	k, ctx := x.gate.keys, x.req.Context()
	op, err := k.operation(ctx, x.start, &x.r, policy, x.gate.RouteOf(&x.r))
	if err != nil {
		x.storeDown(next, policy, err)
		return
	}
	seen := x.r.Sighting.Attempts > 1
	for {
		v := k.keeper.LookAt(ctx, x.now(), &op, seen)
		if v.Go() {
			if x.enter(x.now()); x.d.Action != comporta.ActionAdmit {
				x.answer(next)
				return
			}
			if v = x.claim(&op); x.call != nil {
				x.decided()
				x.serveCall(next)
				return
			}
		}
		if v.Reason != comporta.IdempotencyInProgress || !policy.Wait {
			x.answerKeyed(next, policy, &v, idempotency.Replayed)
			return
		}
		x.d.giveBackAt(x.now())
		v, again := x.standBy(&op)
		if !again {
			x.answerKeyed(next, policy, &v, idempotency.Waited)
			return
		}
		seen = true
	}
}

// standBy waits for the answer of another, for as long as the caller does.
func (x *exchange) standBy(op *idempotency.Operation) (v idempotency.Verdict, again bool) {
	wait := x.patience()
	if wait <= 0 {
		wait = x.gate.keys.linger
	}
	ctx, cancel := context.WithDeadline(x.req.Context(), x.start.Add(wait))
	defer cancel()
	return x.gate.keys.keeper.Await(ctx, op)
}

// claim claims the key of an admitted request. A small body is read before: one
// that does not arrive must not leave a claim behind.
func (x *exchange) claim(op *idempotency.Operation) (v idempotency.Verdict) {
	if fault := x.readBody(op); fault != comporta.ReasonNone {
		return idempotency.Verdict{Reason: fault}
	}
	x.call, v = x.gate.keys.keeper.ClaimAt(x.req.Context(), x.now(), op)
	x.d.since = x.now() // what the store takes says nothing about the service
	return v
}

// readBody makes the body part of the operation, or has it digested as it passes.
func (x *exchange) readBody(op *idempotency.Operation) comporta.Reason {
	b, size := x.body, x.r.BodySize
	if b == nil {
		op.Fingerprint = op.Fingerprint.WithNoBody()
		return comporta.ReasonNone
	}
	if b.reserved == 0 {
		x.mind() // a permit is held: a body that trickles is given up when the house is full
		if size <= 0 || size > x.gate.bodyLimit || !b.readAhead(size) {
			b.sum = idempotency.NewSum()
			return comporta.ReasonNone
		}
	}
	if !errors.Is(b.aheadErr, io.EOF) {
		return idempotency.FaultOf(b.aheadErr)
	}
	op.Fingerprint = op.Fingerprint.WithBody(b.ahead)
	delete(x.req.Header, "Expect") // whoever waited to be asked for the body was asked
	return comporta.ReasonNone
}

// serveCall is serve for a request whose key was claimed. The call is detached from
// its caller: it ends by the route's time, or a while after the caller has left. The
// caller's patience bounds the queue and the standing by, and neither the service's
// work nor the wait for its answer: a caller in a hurry hangs up.
func (x *exchange) serveCall(next http.Handler) {
	x.prepare()
	caller := x.req.Context()
	ctx, cancel := idempotency.Detach(caller, x.gate.keys.linger)
	defer cancel()
	timeout := x.gate.routes.list[x.r.Route].Timeout
	if timeout > 0 {
		var end context.CancelFunc
		ctx, end = context.WithDeadlineCause(ctx, x.start.Add(timeout), errPatience)
		defer end()
	}
	x.req = x.req.WithContext(ctx)
	x.req.Header = idempotency.DetachHeader(x.req.Header, timeout)
	defer x.close() // before ctx ends, by which it tells a complete answer from a broken one
	serving := idempotency.Serving{Ending: x.ending, Gone: func() bool { return caller.Err() != nil }}
	if x.body != nil {
		serving.Body = x.body.sum
	}
	rec := x.call.Serve(x, x.req, next, serving)
	x.whole, x.returned = rec.Completed(), true
}

// ending says what a complete answer means to its key.
func (x *exchange) ending(rec *idempotency.Recorder) idempotency.Ending {
	x.answered = x.now()
	if x.refused && x.ours {
		return endingOf(x.d.Reason)
	}
	return rec.Ending(x.gate.routes.list[x.r.Route].Idempotency, x.r.GRPC)
}

// endingOf says what a refusal by the proxy means to the key. Only where no byte
// has been sent is it certain that nothing was done.
func endingOf(reason comporta.Reason) idempotency.Ending {
	switch reason {
	case comporta.UpstreamUnavailable, comporta.DeadlineExceeded, comporta.Draining, comporta.MethodNotAllowed:
		return idempotency.Release
	default:
		return idempotency.Doubt
	}
}

// doubt completes a refusal after which nobody knows what was done under a key: it
// says so, and when the key is told about again.
func (x *exchange) doubt(ref *overload.Refusal) {
	if x.call == nil {
		return
	}
	ref.Stop, ref.Outcome = false, overload.OutcomeUnknown
	ref.Wait = max(ref.Wait, x.call.LeaseLeft(x.now()))
}

// answerKeyed answers with what stands in the way of the key.
func (x *exchange) answerKeyed(next http.Handler, policy *idempotency.Policy, v *idempotency.Verdict, as idempotency.Event) {
	keeper := x.gate.keys.keeper
	if v.Reason == comporta.IdempotencyUnavailable {
		x.storeDown(next, policy, v.Err)
		return
	}
	x.d.giveBackAt(x.now())
	if v.Refusal != nil {
		keeper.Count(as)
		x.passRefusal(v)
		return
	}
	if v.Replay == nil {
		if isKeys(v.Reason) {
			keeper.CountRefusal(v.Reason)
		}
		x.refuseKeyed(v)
		return
	}
	if c := v.Compare; c != nil && x.body != nil {
		if err := idempotency.Drain(c, x.body); err != nil {
			x.refuseKeyed(&idempotency.Verdict{Reason: idempotency.FaultOf(err)})
			return
		}
	}
	if c := v.Compare; c != nil {
		if other := c.Verdict(); !other.Go() {
			keeper.CountRefusal(other.Reason)
			x.refuseKeyed(&other)
			return
		}
	}
	keeper.Count(as)
	a := &v.Replay.Answer
	x.d.replayKeyAt(x.now(), a)
	x.decided()
	x.d.writeLimits(x.Header())
	if !a.Omitted {
		idempotency.Replay(x.ResponseWriter, a)
		return
	}
	ref := idempotency.NotKept(a)
	ref.Attempts, ref.RequestID = x.r.Sighting.Attempts, x.gate.state.RequestID(&x.r)
	x.gate.contract.Write(x.ResponseWriter, x.req, &ref)
}

// passRefusal gives one who stood by the refusal of the first, with an instant.
func (x *exchange) passRefusal(v *idempotency.Verdict) {
	now := x.now()
	wait, ticket := v.Wait, []byte(nil)
	if wait >= 0 {
		wait, ticket = x.d.TurnedAwayAt(now, wait)
	}
	x.d.replayKeyAt(now, v.Refusal)
	x.decided()
	h := x.Header()
	x.d.writeLimits(h)
	if len(ticket) > 0 {
		h[comporta.HeaderRetryTicket] = []string{string(ticket)}
	}
	idempotency.ReplayRefusal(x.ResponseWriter, v.Refusal, wait)
}

// isKeys reports whether a reason is one of idempotency, and not of the body.
func isKeys(r comporta.Reason) bool {
	return r >= comporta.IdempotencyKeyMissing && r <= comporta.IdempotencyAnswerNotKept
}

func (x *exchange) refuseKeyed(v *idempotency.Verdict) {
	x.d.again, x.d.Detail = v.Wait, v.Detail
	x.d.refuseAt(x.now(), v.Reason)
	x.decided()
	x.refuse()
}

// storeDown answers while the keys cannot be read.
func (x *exchange) storeDown(next http.Handler, policy *idempotency.Policy, err error) {
	if !x.gate.keys.keeper.Down(policy, err) {
		x.d.giveBackAt(x.now())
		x.refuseKeyed(&idempotency.Verdict{Reason: comporta.IdempotencyUnavailable})
		return
	}
	if !x.d.permit.Held() {
		x.enter(x.now())
	}
	x.answer(next)
}

// giveBackAt gives back the permit of a request that needs none after all. It says
// nothing about the service.
func (d *Decision) giveBackAt(now time.Time) {
	d.permit.ReleaseAt(now, comporta.Outcome{Result: comporta.ResultRefused})
	d.permit = admission.Permit{}
}

// replayKeyAt is the end of a request that was answered from the record of its key.
func (d *Decision) replayKeyAt(now time.Time, a *store.Answer) {
	g, r := d.gate, d.r
	d.Action, d.Reason = comporta.ActionReplay, comporta.ReasonNone
	o := comporta.Outcome{Status: a.Status, Result: comporta.ResultOf(a.Status)}
	if r.GRPC && a.Status == http.StatusOK {
		o.Result = comporta.ResultFailed // as of a call without a status
		if code, ok := idempotency.GRPCStatus(a.Header); ok {
			o.Result = comporta.ResultOfGRPC(code)
		}
	}
	g.detector.ResolveAt(now, r, o)
	g.state.counters.count(r.Sighting.Kind, g.classOf(r), countReplayed)
	g.state.watch.countAt(now, r, false)
	if g.trace.Done != nil {
		g.trace.Done(now, r, d.Decision, o)
	}
}
