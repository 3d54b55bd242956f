package grpcidem

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/store"
)

// An answer is kept as a status of HTTP, 200 as gRPC has it, with grpc-status in
// its header, and as body the message with its type, or the whole error.
const headerStatus = "Grpc-Status"

// answerOf writes down what a handler returned; false: it cannot be kept.
func answerOf(reply any, err error) (a store.Answer, ok bool) {
	a.Status = http.StatusOK
	st := status.Convert(err)
	a.Header, _ = idempotency.AppendHeader(nil, http.Header{headerStatus: {strconv.Itoa(int(st.Code()))}}) // it fits
	var body proto.Message = st.Proto()
	if err == nil {
		message, isMessage := reply.(proto.Message)
		if !isMessage {
			return a, false
		}
		typed, err := anypb.New(message)
		if err != nil {
			return a, false
		}
		body = typed
	}
	if a.Body, err = proto.Marshal(body); err != nil {
		return a, false
	}
	return a, true
}

// errNotKept: there is an answer, and it cannot be said again.
var errNotKept = errors.New("grpcidem: the answer was not kept")

// readAnswer is what a handler returned, from what answerOf wrote.
func readAnswer(a *store.Answer) (reply any, err error) {
	if a.Omitted {
		return nil, errNotKept
	}
	code, err := strconv.Atoi(idempotency.ParseHeader(a.Header).Get(headerStatus))
	if err != nil {
		return nil, errNotKept
	}
	if codes.Code(code) != codes.OK {
		st := status.New(codes.Unknown, "").Proto() // to be overwritten
		if proto.Unmarshal(a.Body, st) != nil {
			return nil, errNotKept
		}
		return nil, status.FromProto(st).Err()
	}
	var typed anypb.Any
	if proto.Unmarshal(a.Body, &typed) != nil {
		return nil, errNotKept
	}
	message, err := typed.UnmarshalNew()
	if err != nil {
		return nil, errNotKept
	}
	return message, nil
}

// statuses are those of the contract, see docs/problems.md.
var statuses = map[comporta.Reason]codes.Code{
	comporta.IdempotencyKeyMissing:      codes.InvalidArgument,
	comporta.IdempotencyKeyInvalid:      codes.InvalidArgument,
	comporta.IdempotencyInProgress:      codes.Aborted,
	comporta.IdempotencyPayloadMismatch: codes.InvalidArgument,
	comporta.IdempotencyOutcomeUnknown:  codes.Unknown,
	comporta.IdempotencyUnavailable:     codes.Unavailable,
	comporta.IdempotencyAnswerNotKept:   codes.FailedPrecondition,
}

// refuse is the error for what stands in the way, with the words of the contract
// about repeating.
func refuse(ctx context.Context, v *idempotency.Verdict) error {
	reason, text := v.Reason, v.Reason.Info().Title
	if v.Detail != comporta.DetailNone {
		text = v.Detail.String()
	}
	pushback := "-1" // gRFC A6: do not repeat
	if reason.Info().Retryable {
		pushback = strconv.FormatInt(max((v.Wait+time.Millisecond-1).Milliseconds(), 1), 10)
	}
	// It fails only outside of a call.
	_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", pushback, "comporta-decision", reason.String()))
	return status.Error(statuses[reason], reason.String()+": "+text)
}
