package gate

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/gate/ratelimit"
	"github.com/comporta/comporta/gate/repeat"
)

// streamAfter is how long an answer may be flowing before it counts as a stream,
// less while the house is full (see minder); a gRPC call that sends more than one
// message counts after a second.
const (
	streamAfter     = 30 * time.Second
	grpcStreamAfter = time.Second
)

// exchange is one request and its answer in net/http: the ResponseWriter that
// the service writes to. It tells the gate what became of the request as early
// as that is known: at the head, and before the last byte.
//
// It is not pooled: a service that keeps its ResponseWriter after returning
// would write into somebody else's answer. What the service cannot reach is: see
// visit.
type exchange struct {
	http.ResponseWriter
	*visit

	gate   *Gate
	req    *http.Request
	body   *body
	minder *minder // nil until it is needed

	status  int   // 0 until the head
	length  int64 // declared length of the answer, -1 unknown
	written int64

	result   comporta.Result
	holds    bool // a failure's head and body are held back
	captures bool // a hopeless answer is kept for the short circuit
	told     bool // the provisional outcome is known to the gate
	booked   bool // this answer has its instant
	refused  bool // this answer is a refusal in the contract's words
	finished bool // the permit is back and the outcome counted
	stream   bool
	hijacked bool
	returned bool // the service returned without a panic

	// Of a request whose key was claimed:
	ours  bool // the refusal is the proxy's, and not the service's
	whole bool // the answer was complete, whoever was there to read it
}

// visit is the larger part of an exchange, which no service holds.
type visit struct {
	start    time.Time
	r        comporta.Request
	d        Decision
	verdict  ratelimit.Verdict // memory that d uses when rate rules are asked
	held     []byte            // what is held back of a body, see overload.Peekable
	capture  []byte            // what is captured of it
	call     *idempotency.Call // of a request whose key was claimed; else nil
	answered time.Time         // when its answer was complete, before it was recorded
}

var visits = sync.Pool{New: func() any { return new(visit) }}

// over ends the exchange for good. A service that still writes, against the rules
// of net/http, meets an exchange that has nothing to say any more. An exchange
// with a hijacked connection or a body that may still be read keeps its visit.
func (x *exchange) over() {
	if x.hijacked || x.body != nil {
		return
	}
	v := x.visit
	x.visit, x.captures = &spent, false
	v.r.Reset() // the next Begin writes all of d
	v.held, v.capture, v.call, v.answered = nil, nil, nil, time.Time{}
	visits.Put(v)
}

// spent is the visit of exchanges that are over; nothing writes to it, since
// they are finished.
var spent visit

// Unwrap lets http.ResponseController reach what the exchange does not change.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		x.ResponseWriter.WriteHeader(status) // 1xx: the answer is yet to come
		return
	}
	if x.status != 0 || x.finished {
		x.ResponseWriter.WriteHeader(status) // once too often, or too late: net/http says so
		return
	}
	x.status, x.length = status, contentLength(x.Header())
	if status == http.StatusNoContent || status == http.StatusNotModified || x.r.Method == http.MethodHead {
		x.length = 0
	}
	switch {
	case x.result != comporta.ResultPending: // a refusal says for itself what it means
	case x.r.GRPC:
		x.result = grpcResult(x.Header(), status)
	default:
		x.result = comporta.ResultOf(status)
	}
	if x.length > 0 && !x.refused && !x.d.exempt && overload.Peekable(x.Header(), status) {
		x.holds = true // until its body says whether a repeat can help
		return
	}
	x.head()
}

// now reads the clock: a second reading needs no date, and costs less without.
func (x *exchange) now() time.Time { return x.start.Add(time.Since(x.start)) }

// head learns from the final status and lets the head leave.
func (x *exchange) head() {
	h := x.Header()
	x.d.writeLimits(h)
	switch {
	case x.d.exempt:
	case x.length == 0:
		x.decorate(h)
		x.finish() // the head is all there is
	case x.status == http.StatusSwitchingProtocols, isEventStream(h):
		x.tell()
		x.toStream(x.now())
	default:
		x.decorate(h)
	}
	x.ResponseWriter.WriteHeader(x.status)
}

func isEventStream(h http.Header) bool {
	vs := h["Content-Type"]
	return len(vs) > 0 && strings.HasPrefix(vs[0], "text/event-stream")
}

// tell says the outcome as far as the head says it, before anything of the answer
// reaches its client; finish may have said it already.
func (x *exchange) tell() (hopeless bool) {
	if x.told || x.finished {
		return false
	}
	x.told = true
	now := x.now()
	return x.d.HeadAt(now, x.outcome(now))
}

// decorate adds to a failure of the service's own what the contract owes its client.
func (x *exchange) decorate(h http.Header) {
	if x.status < http.StatusBadRequest && !x.r.GRPC || x.refused {
		return
	}
	hopeless := x.tell()
	now := x.now()
	v := overload.Decorate(h, x.status, &overload.Decoration{Now: now, Hopeless: hopeless, Body: x.held, Slot: x.slot})
	if v == overload.Stop && !hopeless && x.result == comporta.ResultFailed {
		x.result = comporta.ResultDeterministic // the service says so itself
		hopeless = x.d.HeadAt(now, x.outcome(now))
	}
	x.captures = hopeless && x.gate.shortCircuit
}

func contentLength(h http.Header) (n int64) {
	vs := h["Content-Length"]
	if len(vs) != 1 || vs[0] == "" || len(vs[0]) > 18 { // so many digits cannot overflow
		return -1
	}
	for i := range len(vs[0]) {
		d := vs[0][i] - '0'
		if d > 9 {
			return -1
		}
		n = n*10 + int64(d)
	}
	return n
}

func (x *exchange) outcome(now time.Time) comporta.Outcome {
	if !x.answered.IsZero() {
		now = x.answered // what the store takes says nothing about the service
	}
	return comporta.Outcome{Status: x.status, Result: x.result, Latency: now.Sub(x.d.since), Stream: x.stream}
}

// slot books the instant for a failure that the service itself answered.
func (x *exchange) slot(atLeast time.Duration) (time.Duration, []byte) {
	x.booked = true
	return x.d.TurnedAwayAt(x.now(), atLeast)
}

// Write implements http.ResponseWriter. The permit goes back before the last
// byte of a declared length leaves: a client that has its whole answer must not
// find its own place still taken.
func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if x.holds {
		x.held = append(x.held, p...)
		x.written += int64(len(p))
		if x.written < x.length {
			return len(p), nil
		}
		return len(p), x.unhold()
	}
	if x.captures && len(x.capture) <= repeat.MaxAnswerBody {
		x.capture = append(x.capture, p[:min(len(p), repeat.MaxAnswerBody+1-len(x.capture))]...)
	}
	switch {
	case x.finished:
	case x.length >= 0 && x.written+int64(len(p)) >= x.length:
		x.finish()
	default:
		x.tell()
		x.flows()
	}
	n, err := x.ResponseWriter.Write(p)
	x.written += int64(n)
	return n, err
}

// unhold lets a held answer go: its head, decorated by what its body says, and
// what was written of its body.
func (x *exchange) unhold() error {
	x.holds = false
	x.head()
	if x.captures {
		x.capture = x.held[:min(len(x.held), repeat.MaxAnswerBody+1)]
	}
	if x.written >= x.length {
		x.finish()
	}
	_, err := x.ResponseWriter.Write(x.held)
	x.held = nil
	return err
}

// FlushError flushes, for http.ResponseController. What is flushed piece by piece
// for long enough is a stream.
func (x *exchange) FlushError() error {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if x.holds {
		if err := x.unhold(); err != nil {
			return err
		}
	}
	x.tell()
	if !x.finished {
		x.flows()
	}
	if x.r.GRPC && !x.stream && !x.finished && x.written > 0 {
		if now := x.now(); now.Sub(x.start) > grpcStreamAfter {
			x.toStream(now)
		}
	}
	return http.NewResponseController(x.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (x *exchange) Flush() {
	_ = x.FlushError() // http.Flusher has no place for the error; the next Write says it
}

// Hijack implements http.Hijacker. The connection counts as a stream until it is
// closed, whoever closes it.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(x.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	now := x.now()
	if x.status == 0 {
		x.status, x.result = http.StatusSwitchingProtocols, comporta.ResultSuccess
		x.d.HeadAt(now, x.outcome(now))
	}
	x.hijacked = true
	x.stream = x.minder.stop() || x.stream
	x.toStream(now)
	return &hijackedConn{Conn: conn, closed: sync.OnceFunc(x.finish)}, rw, nil
}

type hijackedConn struct {
	net.Conn

	closed func()
}

// Close implements net.Conn.
func (c *hijackedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// CloseWrite ends the outgoing direction, where the connection can do so: an
// upgraded connection is closed one direction at a time.
func (c *hijackedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (x *exchange) toStream(now time.Time) {
	if !x.stream && !x.finished {
		x.stream = x.d.StreamAt(now)
	}
}

// finish gives the permit back and files the outcome. It does so once.
func (x *exchange) finish() {
	if x.finished {
		return
	}
	x.finished = true
	x.stream = x.minder.stop() || x.stream
	if x.body.settle() && x.result != comporta.ResultSuccess && !x.refused {
		x.result = comporta.ResultAbandoned // its own body failed: no fault of the service
	}
	now := x.now()
	x.d.FinishAt(now, x.outcome(now))
}

// close ends the exchange when the service has returned, or panicked.
func (x *exchange) close() {
	if x.hijacked { // ends when the connection does
		return
	}
	if x.returned && x.status == 0 && x.req.Context().Err() == nil {
		x.WriteHeader(http.StatusOK) // as net/http would
	}
	if x.holds {
		_ = x.unhold() // a client that is gone does not read it
	}
	if x.r.GRPC && x.returned && x.result == comporta.ResultPending && x.req.Context().Err() == nil {
		x.readTrailers()
	}
	switch complete := x.returned && (x.whole || x.written >= x.length); {
	case x.refused, complete && x.status != 0 && (x.finished || x.req.Context().Err() == nil):
	case x.req.Context().Err() != nil:
		x.correct(x.left())
	default: // a panic, or an answer cut short
		x.correct(comporta.ResultFailed)
	}
	x.finish()
	if x.captures && x.returned && x.written >= x.length {
		x.gate.detector.KeepAt(x.now(), &x.r, x.d.digest, x.status, x.Header(), x.capture)
	}
}

// left tells a caller who went away from one whose patience ran out.
func (x *exchange) left() comporta.Result {
	if errors.Is(context.Cause(x.req.Context()), errPatience) {
		return comporta.ResultTimeout
	}
	return comporta.ResultAbandoned
}

// correct replaces what was said at the head.
func (x *exchange) correct(result comporta.Result) {
	x.result = result
	if x.finished {
		now := x.now()
		x.d.CorrectAt(now, x.outcome(now))
	}
}

var _ overload.Door = (*exchange)(nil)

// CompleteRefusal implements overload.Door: the service behind the gate, or the
// proxy, says no, and the gate says it in its own words with an instant to return.
func (x *exchange) CompleteRefusal(_ *http.Request, ref *overload.Refusal) *overload.Writer {
	if x.status != 0 {
		return x.gate.contract // too late to be more than words
	}
	x.refused = true
	x.result = resultOf(ref)
	ref.Attempts, ref.RequestID = x.r.Sighting.Attempts, x.gate.state.RequestID(&x.r)
	if ref.Reason == comporta.UpstreamFailed || ref.Reason == comporta.UpstreamTimeout {
		fault := overload.Fault(ref.Reason, &x.r)
		ref.Stop, ref.Outcome = fault.Stop, fault.Outcome
		x.doubt(ref)
	} else if x.call != nil && !ref.FromService && endingOf(ref.Reason) == idempotency.Doubt {
		ref.Outcome = overload.OutcomeUnknown // a fault of the caller's, when the service had begun
	}
	x.ours = !ref.FromService
	if x.d.exempt {
		return x.gate.contract
	}
	now := x.now()
	x.d.Reason = ref.Reason
	if !x.booked && ref.Retryable() && (ref.FromService || ref.Reason.Info().Slotted) {
		x.booked = true
		ref.Wait, ref.Ticket = x.d.TurnedAwayAt(now, ref.Wait)
	}
	x.d.explainAt(now)
	return x.gate.contract
}

// resultOf says what a refusal by the service or the proxy means to the
// detector and to what learns from it.
func resultOf(ref *overload.Refusal) comporta.Result {
	switch {
	case ref.Reason == comporta.UpstreamTimeout:
		return comporta.ResultTimeout
	case ref.Reason == comporta.UpstreamUnavailable, ref.Reason == comporta.UpstreamFailed:
		return comporta.ResultUnreachable
	case ref.FromService && !ref.Retryable():
		return comporta.ResultDeterministic
	case ref.FromService:
		return comporta.ResultFailed
	case comporta.Deterministic(ref.StatusCode()):
		return comporta.ResultDeterministic
	}
	return comporta.ResultRefused
}
