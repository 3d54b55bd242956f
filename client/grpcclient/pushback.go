package grpcclient

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Busy is what a handler returns that cannot do it now: UNAVAILABLE with
// message, and grpc-retry-pushback-ms with wait, which callers that know gRFC A6
// obey. wait is rounded up to a millisecond; a negative one counts as 0. ctx is
// the handler's. Several calls of Busy and Final for one RPC contradict each
// other, which means stop.
func Busy(ctx context.Context, wait time.Duration, message string) error {
	ms := (max(wait, 0) + time.Millisecond - 1) / time.Millisecond
	return pushBack(ctx, status.Error(codes.Unavailable, message), strconv.FormatInt(int64(ms), 10))
}

// Final is what a handler returns that would answer a repeat in the same way:
// err, and a grpc-retry-pushback-ms that says stop. ctx is the handler's. nil is
// nil, and says nothing.
func Final(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return pushBack(ctx, err, "-1")
}

// pushBack sets the trailer. A context of no RPC is a mistake that must not cost
// the caller its status.
func pushBack(ctx context.Context, err error, value string) error {
	if problem := grpc.SetTrailer(ctx, metadata.Pairs(keyPushback, value)); problem != nil {
		return errors.Join(err, fmt.Errorf("grpcclient: no pushback was sent: %w", problem))
	}
	return err
}
