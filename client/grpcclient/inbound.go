package grpcclient

import (
	"context"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/client/internal/operation"
)

// InboundUnary carries what a call says of its sender to the calls that are made
// for it, over gRPC or HTTP: install it in a server, and give the handler's
// context to the calls. If the sender repeats (it says so in retry-attempt, from
// the first attempt on) the calls make one attempt each: one layer repeats, and
// it is the outermost. If it says how long it waits, the calls end that much
// earlier by Config.Margin. It is a grpc.UnaryServerInterceptor.
func InboundUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	return handler(inbound(ctx), req)
}

// InboundStream is InboundUnary for streams: a grpc.StreamServerInterceptor.
func InboundStream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx := inbound(s.Context())
	if ctx == s.Context() {
		return handler(srv, s)
	}
	return handler(srv, &inboundStream{s, ctx})
}

// inboundStream has another context.
type inboundStream struct {
	grpc.ServerStream

	ctx context.Context //nolint:containedctx // a stream has a context
}

// Context implements grpc.ServerStream.
func (s *inboundStream) Context() context.Context { return s.ctx }

// signal is a name of the contract as metadata and as HTTP have it.
type signal struct{ key, header string }

// signals are those of who repeats, and for how long; grpc-timeout is part of
// the context already.
var signals = func() (all []signal) {
	names := []string{comporta.HeaderRequestTimeoutMs, "X-Envoy-Expected-Rq-Timeout-Ms"}
	for _, h := range comporta.DefaultAttemptHeaders {
		names = append(names, h.Name)
	}
	for _, name := range names {
		all = append(all, signal{strings.ToLower(name), name})
	}
	return all
}()

// inbound returns ctx with the mark of who sent the call; ctx itself when it
// says nothing.
func inbound(ctx context.Context) context.Context {
	h := make(http.Header)
	for _, s := range signals {
		if v := metadata.ValueFromIncomingContext(ctx, s.key); len(v) > 0 {
			h[s.header] = v
		}
	}
	var read comporta.Request
	comporta.Signals{}.Read(h, &read)
	mark := &operation.Mark{Attempt: read.Attempt}
	// Our own name says it from the first attempt on. Others are set by proxies
	// that may never repeat: only a repeat proves that they do.
	if len(h[comporta.HeaderRetryAttempt]) > 0 || read.Attempt > 0 {
		mark.Owner = "inbound"
	}
	mark.Sender, _ = ctx.Deadline()
	if read.Patience > 0 {
		if d := time.Now().Add(read.Patience); mark.Sender.IsZero() || d.Before(mark.Sender) {
			mark.Sender = d
		}
	}
	if mark.Owner == "" && mark.Sender.IsZero() {
		return ctx
	}
	return operation.With(ctx, mark)
}
