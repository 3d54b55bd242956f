package idempotency

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/comporta/comporta"
)

// Serving is how a call is served over HTTP.
type Serving struct {
	// Ending reads a complete answer; nil means Recorder.Ending.
	Ending func(*Recorder) Ending
	// Body is the digest of a body that passes, and becomes part of the fingerprint; nil
	// leaves that of the claim.
	Body *Sum
	// Gone reports whether the caller has left; nil: it is not known.
	Gone func() bool
}

// Serve has next answer a request whose operation was claimed, and ends the call.
// The request's context should be one of Detach, its header one of DetachHeader. It returns the Recorder, which
// says whether the answer was complete.
//
// A gRPC call whose body goes on after its answer has begun is a conversation. What it
// ended with cannot be said again, and is recorded without its body.
func (c *Call) Serve(w http.ResponseWriter, r *http.Request, next http.Handler, s Serving) *Recorder {
	grpc := isGRPC(r.Header)
	var rec *Recorder
	rec = NewRecorder(w, c.k.config.MaxBody, func(complete bool) {
		e := Doubt
		switch {
		case !complete:
		case s.Ending != nil:
			e = s.Ending(rec)
		default:
			e = rec.Ending(c.op.Policy, grpc)
		}
		var fp *Fingerprint
		if s.Body != nil {
			p := s.Body.Fingerprint(&c.op.Fingerprint)
			fp = &p
			if s.Body.Conversation() {
				rec.omit()
			}
		}
		if e == Record && (rec.gone || s.Gone != nil && s.Gone()) {
			c.k.Count(Late)
		}
		c.End(e, rec.Answer(), rec.wait, fp)
	})
	if s.Body != nil && grpc {
		rec.begins = s.Body.Answered
	}
	returned := false
	defer func() { rec.Close(returned) }() // also when next panics, which goes on
	next.ServeHTTP(rec, r)
	returned = true
	return rec
}

// isGRPC reports whether a request is a gRPC call.
func isGRPC(h http.Header) bool {
	vs := h["Content-Type"]
	return len(vs) > 0 && strings.HasPrefix(vs[0], "application/grpc")
}

// DetachHeader returns the header for a detached call: h, with what its caller says
// about its own patience replaced by the time that the call has, or removed if that
// is 0. A service that heeds the caller's would end work that is to go on without it,
// and leave the key in doubt. h is not changed.
func DetachHeader(h http.Header, bound time.Duration) http.Header {
	ms, cloned := strconv.FormatInt(bound.Milliseconds(), 10), false
	for _, name := range [...]string{comporta.HeaderRequestTimeoutMs, grpcTimeout, "X-Envoy-Expected-Rq-Timeout-Ms"} {
		if len(h[name]) == 0 {
			continue
		}
		if !cloned {
			h, cloned = h.Clone(), true
		}
		switch {
		case bound <= 0:
			delete(h, name)
		case name == grpcTimeout && len(ms) > 8: // no more digits are allowed, and days bound nothing
			delete(h, name)
		case name == grpcTimeout:
			h[name] = []string{ms + "m"}
		default:
			h[name] = []string{ms}
		}
	}
	return h
}

const grpcTimeout = "Grpc-Timeout"

// Detach returns a context that outlives its caller: when ctx is cancelled because
// its caller has left, the work goes on for at most linger. A cancellation with a
// cause of its own, such as the end of a drain, ends it at once. The deadline of
// ctx is its caller's, and does not count.
func Detach(ctx context.Context, linger time.Duration) (_ context.Context, cancel context.CancelFunc) {
	detached, end := context.WithCancelCause(context.WithoutCancel(ctx))
	var timer *time.Timer
	started := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(started)
		cause := context.Cause(ctx)
		if cause != context.Canceled && cause != context.DeadlineExceeded { //nolint:errorlint // a cause that wraps them is somebody's own
			end(cause)
			return
		}
		timer = time.AfterFunc(linger, func() { end(cause) })
	})
	return detached, func() {
		if !stop() {
			<-started
			if timer != nil {
				timer.Stop()
			}
		}
		end(context.Canceled)
	}
}
