package grpcidem

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/comporta/comporta/gate/idempotency"
)

// The words about an answer that are not its own.
const (
	headerPushback = "grpc-retry-pushback-ms" // gRFC A6, a trailer
	headerDecision = "comporta-decision"
	headerReplayed = "idempotency-replayed"
)

// never is the wait that says not to repeat.
const never time.Duration = -1

// pushBack says beside the status when to come again, as idempotency.Pushback has
// it, and more. It is said in the trailer: a header ends the repeats of grpc's own.
func pushBack(ctx context.Context, wait time.Duration, more ...string) {
	// It fails only outside of a call, as in a test of the handler alone.
	_ = grpc.SetTrailer(ctx, metadata.Pairs(append(more, headerPushback, idempotency.Pushback(wait))...))
}

// waitOf reads what a handler has said about repeating once it has returned: 0 if
// nothing, or at once; below 0 that it would not help. ctx is that of its call.
func waitOf(ctx context.Context) time.Duration {
	// The one way to a trailer that leaves its stream in place: by any other than its
	// own, grpc cannot choose a compressor.
	s, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ Trailer() metadata.MD })
	if !ok {
		return 0
	}
	wait, _ := idempotency.ReadPushback(s.Trailer().Get(headerPushback))
	return wait
}
