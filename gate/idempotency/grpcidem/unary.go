package grpcidem

import (
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/store"
)

// Unary returns the interceptor. Calls without a key pass, unless the method's
// policy requires one.
func Unary(c Config) (grpc.UnaryServerInterceptor, error) {
	if err := c.withDefaults(); err != nil {
		return nil, err
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		message, ok := req.(proto.Message)
		policy := c.Policy(info.FullMethod)
		if policy == nil || !ok {
			return handler(ctx, req)
		}
		return (&visit{&c, policy, info.FullMethod}).serve(ctx, message, handler)
	}, nil
}

// visit is one call through the interceptor.
type visit struct {
	c      *Config
	policy *idempotency.Policy
	method string
}

const headerKey = "idempotency-key"

func (v *visit) serve(ctx context.Context, req proto.Message, handler grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	keys := md.Get(headerKey)
	switch {
	case len(keys) == 0 && !v.policy.Require:
		return handler(ctx, req)
	case len(keys) == 0:
		return v.no(ctx, &idempotency.Verdict{Reason: comporta.IdempotencyKeyMissing})
	}
	key, ok := comporta.ParseKey(keys[0])
	if !ok || len(keys) > 1 {
		invalid := idempotency.InvalidKey(keys)
		return v.no(ctx, &invalid)
	}
	op, err := v.operation(ctx, md, key, req)
	if err != nil {
		return v.down(ctx, err, req, handler)
	}
	for {
		now := time.Now()
		verdict := v.c.Keeper.LookAt(ctx, now, op, false)
		var call *idempotency.Call
		if verdict.Go() {
			call, verdict = v.c.Keeper.ClaimAt(ctx, now, op)
		}
		switch {
		case call != nil:
			return v.call(ctx, call, req, handler)
		case verdict.Reason == comporta.IdempotencyUnavailable:
			return v.down(ctx, verdict.Err, req, handler)
		case verdict.Reason != comporta.IdempotencyInProgress || !v.policy.Wait:
			return v.tell(ctx, &verdict, idempotency.Replayed)
		}
		if awaited, again := v.c.Keeper.Await(ctx, op); !again {
			return v.tell(ctx, &awaited, idempotency.Waited)
		}
	}
}

// operation names what a call does under its key.
func (v *visit) operation(ctx context.Context, md metadata.MD, key string, req proto.Message) (*idempotency.Operation, error) {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		return nil, err
	}
	client := v.c.Client(ctx)
	s := idempotency.Scope{Client: []byte(client), Method: "grpc", Route: v.method, Key: key}
	if client == "" {
		s.Credentials = http.Header{"Authorization": md.Get("authorization"), "Cookie": md.Get("cookie")}
	}
	n, err := v.c.Keeper.Name(ctx, &s)
	return &idempotency.Operation{
		Name: n, Policy: v.policy, Fingerprint: idempotency.NewFingerprint("", "").WithBody(body),
		Label: store.Label{Client: idempotency.Clip(client), Method: s.Method, Route: idempotency.Clip(v.method), Key: key},
	}, err
}

func (v *visit) call(ctx context.Context, call *idempotency.Call, req proto.Message, handler grpc.UnaryHandler) (any, error) {
	defer call.Abandon() // unless it has ended: a panic goes on, and leaves the key in doubt
	work, cancel := idempotency.Detach(ctx, v.c.Linger)
	defer cancel()
	reply, err := handler(work, req)
	code := status.Code(err)
	ending := v.policy.EndingOfGRPC(int(code))
	if code == codes.Canceled || code == codes.DeadlineExceeded {
		ending = idempotency.Doubt // by whoever was asked in turn
	}
	a, kept := answerOf(reply, err)
	if !kept {
		a = store.Answer{Status: http.StatusOK, Omitted: true}
	}
	call.End(ending, a, nil)
	return reply, err
}

// tell answers with what stands in the way.
func (v *visit) tell(ctx context.Context, verdict *idempotency.Verdict, as idempotency.Event) (any, error) {
	if verdict.Refusal != nil {
		v.c.Keeper.Count(as)
		return readAnswer(verdict.Refusal)
	}
	if verdict.Replay == nil {
		return v.no(ctx, verdict)
	}
	reply, err := readAnswer(&verdict.Replay.Answer)
	if errors.Is(err, errNotKept) {
		return v.no(ctx, &idempotency.Verdict{Reason: comporta.IdempotencyAnswerNotKept})
	}
	v.c.Keeper.Count(as)
	// It fails only outside of a call, as in a test of the handler alone.
	_ = grpc.SetHeader(ctx, metadata.Pairs("idempotency-replayed", "true", "comporta-decision", idempotency.DecisionReplayed))
	return reply, err
}

func (v *visit) no(ctx context.Context, verdict *idempotency.Verdict) (any, error) {
	v.c.Keeper.CountRefusal(verdict.Reason)
	return nil, refuse(ctx, verdict)
}

// down answers while the store is down.
func (v *visit) down(ctx context.Context, err error, req proto.Message, handler grpc.UnaryHandler) (any, error) {
	v.c.Keeper.TellDown(err)
	if v.policy.Pass {
		v.c.Keeper.Count(idempotency.StorePassed)
		return handler(ctx, req)
	}
	v.c.Keeper.Count(idempotency.StoreRefused)
	return nil, refuse(ctx, &idempotency.Verdict{Reason: comporta.IdempotencyUnavailable, Wait: time.Second})
}
