package grpcidem

import (
	"context"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/store"
)

// An answer is kept as a status of HTTP, 200 as gRPC has it, with grpc-status in
// its header. Its body is a message of two fields: the answered messages with their
// types, in their order, and what the status says if it is not OK.
const (
	headerStatus = "Grpc-Status"

	fieldMessage protowire.Number = 1 // google.protobuf.Any, repeated
	fieldStatus  protowire.Number = 2 // google.rpc.Status
)

// transcript is what a handler answers, written down as it does. It belongs to the
// goroutine that sends.
type transcript struct {
	limit   int // bytes of body
	body    []byte
	omitted bool // there was more, or something else, than can be kept
	broken  bool // a message was not sent, for a fault of the handler's own
}

func (t *transcript) add(reply any) {
	message, ok := reply.(proto.Message)
	if t.omitted || !ok || len(t.body)+proto.Size(message) > t.limit {
		t.omit()
		return
	}
	typed, err := anypb.New(message)
	if err != nil {
		t.omit()
		return
	}
	t.append(fieldMessage, typed)
}

func (t *transcript) append(field protowire.Number, m proto.Message) {
	b, err := proto.Marshal(m)
	if err != nil || len(t.body)+len(b) > t.limit {
		t.omit()
		return
	}
	t.body = protowire.AppendTag(t.body, field, protowire.BytesType)
	t.body = protowire.AppendBytes(t.body, b)
}

func (t *transcript) omit() { t.body, t.omitted = nil, true }

// answer is the whole, by what it ended with.
func (t *transcript) answer(st *status.Status) store.Answer {
	if st.Code() != codes.OK && !t.omitted {
		t.append(fieldStatus, st.Proto())
	}
	a := store.Answer{Status: http.StatusOK, Body: t.body, Omitted: t.omitted}
	a.Header, _ = idempotency.AppendHeader(nil, http.StatusOK, http.Header{headerStatus: {strconv.Itoa(int(st.Code()))}}) // it fits
	return a
}

// readAnswer returns what a handler answered, from what transcript wrote; false: it
// cannot be said again.
func readAnswer(a *store.Answer) (messages []proto.Message, st *status.Status, ok bool) {
	code, err := strconv.Atoi(idempotency.ParseHeader(a.Header).Get(headerStatus))
	if err != nil || a.Omitted {
		return nil, nil, false
	}
	said := status.New(codes.OK, "").Proto()
	for b := a.Body; len(b) > 0; {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 || kind != protowire.BytesType {
			return nil, nil, false
		}
		part, m := protowire.ConsumeBytes(b[n:])
		if m < 0 {
			return nil, nil, false
		}
		b = b[n+m:]
		if field == fieldStatus {
			err = proto.Unmarshal(part, said)
		} else {
			messages, err = appendMessage(messages, part)
		}
		if err != nil {
			return nil, nil, false
		}
	}
	return messages, status.FromProto(said), said.GetCode() == int32(code) //nolint:gosec // a code has 5 bits
}

func appendMessage(messages []proto.Message, b []byte) ([]proto.Message, error) {
	var typed anypb.Any
	if err := proto.Unmarshal(b, &typed); err != nil {
		return nil, err
	}
	message, err := typed.UnmarshalNew()
	return append(messages, message), err
}

// statusOf is the status by which grpc ends a call whose handler returns err.
func statusOf(err error) *status.Status {
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	return st
}

// refuse is the error for what stands in the way, with the words of the contract
// about repeating.
func refuse(ctx context.Context, v *idempotency.Verdict) error {
	reason, text := v.Reason, v.Reason.Info().Title
	if v.Detail != comporta.DetailNone {
		text = v.Detail.String()
	}
	wait := v.Wait
	if !reason.Info().Retryable {
		wait = never
	}
	pushBack(ctx, wait, headerDecision, reason.String())
	return status.Error(codes.Code(overload.GRPCCode(reason)), reason.String()+": "+text)
}
