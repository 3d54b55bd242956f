package grpcclient

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/comporta/comporta/client/retry"
)

// Report is a call option that writes to r how the call came about, when it
// has: for a stream, with its first message or its end. It does nothing on a
// connection without the envelope.
func Report(r *retry.Report) grpc.CallOption { return callOption{report: r} }

// Idempotent is a call option that says of one call that it may be executed
// twice.
func Idempotent() grpc.CallOption { return callOption{idempotent: true} }

// Check is a call option that makes a call repeatable although it is not
// idempotent: before each repeat, after the wait, ask is called to find out what
// became of the call. retry.FateNotDone lets the repeat go out. Anything else
// ends the operation with a *retry.Error, whose reason is done, or
// not_idempotent where nobody knows. ask is given the caller's context, which ends
// with the operation's time.
func Check(ask func(context.Context) (retry.Fate, error)) grpc.CallOption {
	return callOption{check: ask}
}

// callOption is a word of the caller on one call. grpc-go passes it by.
type callOption struct {
	grpc.EmptyCallOption

	report     *retry.Report
	idempotent bool
	check      func(context.Context) (retry.Fate, error)
}

// asked is what all options together say.
type asked struct {
	reports    []*retry.Report
	idempotent bool
	check      func(context.Context) (retry.Fate, error)
}

func (a *asked) read(options []grpc.CallOption) {
	for _, option := range options {
		o, ok := option.(callOption)
		if !ok {
			continue
		}
		if o.report != nil {
			a.reports = append(a.reports, o.report)
		}
		if o.check != nil {
			a.check = o.check
		}
		a.idempotent = a.idempotent || o.idempotent
	}
}

// Declared reports whether the .proto of a method ("/package.Service/Method")
// says that it may be executed twice: option idempotency_level = NO_SIDE_EFFECTS
// or IDEMPOTENT. It is false for methods whose generated code is not part of the
// program.
func Declared(method string) bool {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + name))
	if err != nil {
		return false
	}
	declared, ok := found.Options().(*descriptorpb.MethodOptions)
	return ok && declared.GetIdempotencyLevel() != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
}
