package grpcidem

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/store"
)

// visit is one call through an interceptor.
type visit struct {
	c      *Config
	policy *idempotency.Policy
	method string
	ctx    context.Context //nolint:containedctx // a visit is a call
	rpc    rpc
}

// rpc is what differs between kinds of calls.
type rpc interface {
	// request returns the one request.
	request() (proto.Message, error)
	// pass lets the call through to its handler, whose answer is its caller's only.
	pass() error
	// carryOut has the handler do its work within ctx and writes down its answer. It
	// does not fail because the caller has left.
	carryOut(ctx context.Context, t *transcript) error
	// say gives the caller a message that was answered before.
	say(m proto.Message) error
}

const headerKey = "idempotency-key"

func (v *visit) serve() error {
	md, _ := metadata.FromIncomingContext(v.ctx)
	key, fault := v.policy.ReadKey(md.Get(headerKey))
	switch {
	case !fault.Go():
		return v.no(&fault)
	case key == "":
		return v.rpc.pass()
	}
	req, err := v.rpc.request()
	if err != nil {
		return err
	}
	op, err := v.operation(md, key, req)
	if err != nil {
		return v.down(err)
	}
	call, verdict, as := v.c.Keeper.Take(v.ctx, op)
	if call == nil {
		return v.tell(&verdict, as)
	}
	return v.call(call)
}

// operation names what a call does under its key.
func (v *visit) operation(md metadata.MD, key string, req proto.Message) (*idempotency.Operation, error) {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		return nil, err
	}
	client := v.c.Client(v.ctx)
	s := idempotency.Scope{Client: []byte(client), Method: "grpc", Route: v.method, Key: key}
	if client == "" {
		s.Credentials = http.Header{"Authorization": md.Get("authorization"), "Cookie": md.Get("cookie")}
	}
	n, err := v.c.Keeper.Name(v.ctx, &s)
	return &idempotency.Operation{
		Name: n, Policy: v.policy, Fingerprint: idempotency.NewFingerprint("", "").WithBody(body),
		Label: store.Label{Client: idempotency.Clip(client), Method: s.Method, Route: idempotency.Clip(v.method), Key: key},
	}, err
}

func (v *visit) call(call *idempotency.Call) error {
	defer call.Abandon() // unless it has ended: a panic goes on, and leaves the key in doubt
	work, cancel := idempotency.Detach(v.ctx, v.c.Linger)
	defer cancel()
	t := transcript{limit: v.c.Keeper.MaxBody()}
	err := v.rpc.carryOut(work, &t)
	st := statusOf(err)
	ending := v.policy.EndingOfGRPC(int(st.Code()))
	if t.broken {
		ending = idempotency.Doubt // in the midst of the answer
	}
	if ending == idempotency.Record && v.ctx.Err() != nil {
		v.c.Keeper.Count(idempotency.Late)
	}
	call.End(ending, t.answer(st), waitOf(v.ctx), nil)
	return err
}

// tell answers with what stands in the way.
func (v *visit) tell(verdict *idempotency.Verdict, as idempotency.Event) error {
	a := verdict.Refusal
	switch {
	case a != nil:
	case verdict.Replay != nil:
		a = &verdict.Replay.Answer
	default:
		return v.no(verdict)
	}
	messages, st, ok := readAnswer(a)
	v.c.Keeper.Count(as)
	if !ok {
		return refuse(v.ctx, &idempotency.Verdict{Reason: comporta.IdempotencyAnswerNotKept})
	}
	if verdict.Refusal != nil {
		pushBack(v.ctx, verdict.Wait, headerDecision, idempotency.DecisionReplayed)
	} else {
		// It fails only outside of a call.
		_ = grpc.SetHeader(v.ctx, metadata.Pairs(headerReplayed, "true", headerDecision, idempotency.DecisionReplayed))
		if st.Code() != codes.OK {
			pushBack(v.ctx, never) // under this key it will be the same again
		}
	}
	for _, m := range messages {
		if err := v.rpc.say(m); err != nil {
			return err
		}
	}
	return st.Err()
}

func (v *visit) no(verdict *idempotency.Verdict) error {
	if verdict.Reason == comporta.IdempotencyUnavailable {
		return v.down(verdict.Err)
	}
	v.c.Keeper.CountRefusal(verdict.Reason)
	return refuse(v.ctx, verdict)
}

// down answers while the store is down.
func (v *visit) down(err error) error {
	if v.c.Keeper.Down(v.policy, err) {
		return v.rpc.pass()
	}
	return refuse(v.ctx, &idempotency.Verdict{Reason: comporta.IdempotencyUnavailable})
}

// unkept answers a call that cannot be kept, whatever key it brings. It is its
// service's affair, unless the policy demands what cannot be had: to let it pass
// would be to say that it was kept.
func (v *visit) unkept(why string) error {
	if !v.policy.Require {
		return v.rpc.pass()
	}
	pushBack(v.ctx, never)
	return status.Errorf(codes.Unimplemented, "idempotency: the policy of %s requires a key, and no key can be kept: %s; the server's Config.Policy has to return nil for it, or a policy without Require", v.method, why)
}
