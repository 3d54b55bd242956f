package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/proxy/h1"
)

// failure is why an exchange ended without an answer.
type failure struct {
	reason comporta.Reason // ReasonNone: the caller left, nobody is to be answered
	result comporta.Result // what the upstream is to be blamed for
	stale  bool            // a kept connection had died before a byte was sent
	hurry  bool            // the request's own deadline ended it: another might have had its answer
	err    error
}

// fail answers for a failed exchange. When the caller has left it breaks the
// connection instead, so that nobody upstairs takes silence for success.
func (x *exchange) fail(f *failure) {
	if f.reason == comporta.ReasonNone {
		panic(http.ErrAbortHandler) //nolint:forbidigo // the one way to break an exchange in net/http
	}
	x.drain()
	x.closeUnlessRead()
	x.p.config.Fail(x.w, x.in, f.reason, f.err)
	x.body.answer()
}

// left returns the failure of a request whose context has ended; nil while it
// has not. asked says whether the upstream may have seen it.
func left(ctx context.Context, asked bool) *failure {
	err := ctx.Err()
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, context.DeadlineExceeded):
		return &failure{reason: comporta.ReasonNone, result: comporta.ResultAbandoned, err: context.Cause(ctx)}
	case asked:
		return &failure{reason: comporta.UpstreamTimeout, result: comporta.ResultTimeout, hurry: true, err: err}
	}
	return &failure{reason: comporta.DeadlineExceeded, result: comporta.ResultAbandoned, err: err}
}

// classify names the failure of a try.
func (x *exchange) classify(err error) *failure {
	reached := x.link.reached()
	// The body comes first: over HTTP/1 net/http cancels the request on any error of
	// reading its connection, so that a caller whose body is late has "left" too.
	if f := x.callersFault(); f != nil {
		return f
	}
	if f := left(x.in.Context(), reached == reachedService); f != nil {
		return f
	}
	err = fmt.Errorf("proxy: %s: %w", x.up.url.Host, err)
	switch {
	case errors.Is(err, errStatus): // an answer: it was asked, whatever was counted
		return &failure{reason: comporta.UpstreamFailed, result: comporta.ResultUnreachable, err: err}
	case errors.Is(err, h1.ErrRequest): // nobody was asked, and nobody can be
		return &failure{reason: comporta.MalformedRequest, result: comporta.ResultAbandoned, err: err}
	case reached != reachedService:
		return &failure{reason: comporta.UpstreamUnavailable, result: comporta.ResultUnreachable, stale: reached == reachedPool, err: err}
	case errors.Is(err, errNoAnswer):
		return &failure{reason: comporta.UpstreamTimeout, result: comporta.ResultTimeout, err: err}
	}
	return &failure{reason: comporta.UpstreamFailed, result: comporta.ResultUnreachable, err: err}
}

// callersFault names an error that came from reading the caller's body; nil if
// there was none, or it only says that the caller has left.
func (x *exchange) callersFault() *failure {
	_, fault := x.body.state()
	if fault == nil {
		return nil
	}
	f := &failure{reason: comporta.MalformedRequest, result: comporta.ResultAbandoned, err: fault}
	over := x.in.Context().Err()
	_, tooLarge := errors.AsType[*http.MaxBytesError](fault)
	switch {
	case tooLarge:
		f.reason = comporta.BodyTooLarge
	case errors.Is(fault, errSilent) && errors.Is(over, context.Canceled):
		return nil
	case errors.Is(fault, os.ErrDeadlineExceeded):
		f.reason = comporta.RequestTimeout
	case over != nil && x.lost(fault):
		return nil
	}
	return f
}

// lost reports whether a fault of the body of a cancelled request is the loss of
// its connection, or of its stream of HTTP/2, where nobody would read an answer.
func (x *exchange) lost(fault error) bool {
	if x.in.ProtoMajor > 1 || errors.Is(fault, io.ErrUnexpectedEOF) {
		return true
	}
	_, ok := errors.AsType[net.Error](fault)
	return ok
}
