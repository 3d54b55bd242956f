package grpcclient

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/retry"
)

// failure is the end of a call: a *retry.Error that package status reads as what
// the server said, unchanged. (A plain *retry.Error would do, but status.Convert
// puts the text of whatever wraps a status into the message.)
type failure struct{ cause *retry.Error }

// Error is the text of the retry.Error.
func (f *failure) Error() string { return f.cause.Error() }

// Unwrap returns the retry.Error.
func (f *failure) Unwrap() error { return f.cause }

// GRPCStatus is the status of the last attempt, or what stands for the local
// refusal that ended the call.
func (f *failure) GRPCStatus() *status.Status {
	if f.cause.Report.Reason == retry.ReasonContext {
		// The last attempt is joined to it, but gRPC says of such a call how its
		// context ended.
		return status.New(contextCode(f.cause.Err), f.cause.Err.Error())
	}
	if last, ok := errors.AsType[answered](f.cause.Err); ok {
		return last.GRPCStatus()
	}
	return status.New(localCode(f.cause.Err), f.cause.Error())
}

// answered is what the errors of package status are.
type answered interface {
	error
	GRPCStatus() *status.Status
}

func contextCode(err error) codes.Code {
	if errors.Is(err, context.DeadlineExceeded) {
		return codes.DeadlineExceeded
	}
	return codes.Canceled
}

// localCode is the code of an error that no server sent.
func localCode(err error) codes.Code {
	switch {
	case errors.Is(err, client.ErrTooOld), errors.Is(err, retry.ErrNested):
		return codes.FailedPrecondition // the caller has to change something first
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	}
	return codes.Unavailable // breaker, bulkhead: it passes
}
