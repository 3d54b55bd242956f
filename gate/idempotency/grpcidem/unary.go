package grpcidem

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Unary returns the interceptor of unary calls. Calls without a key pass, unless
// the method's policy requires one.
func Unary(c Config) (grpc.UnaryServerInterceptor, error) {
	if err := c.withDefaults(); err != nil {
		return nil, err
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		policy := c.Policy(info.FullMethod)
		if policy == nil {
			return handler(ctx, req)
		}
		u := &unary{ctx: ctx, req: req, handler: handler}
		v := &visit{&c, policy, info.FullMethod, ctx, u}
		if _, ok := req.(proto.Message); !ok {
			err := v.unkept("its request is no proto.Message")
			return u.reply, err
		}
		err := v.serve()
		return u.reply, err
	}, nil
}

// unary is a unary call.
type unary struct {
	ctx     context.Context //nolint:containedctx // it is a call
	req     any
	handler grpc.UnaryHandler
	reply   any // what the interceptor returns
}

func (u *unary) request() (proto.Message, error) {
	return u.req.(proto.Message), nil //nolint:forcetypeassert,errcheck // Unary has seen to it
}

func (u *unary) pass() (err error) {
	u.reply, err = u.handler(u.ctx, u.req)
	return err
}

func (u *unary) carryOut(ctx context.Context, t *transcript) (err error) {
	if u.reply, err = u.handler(ctx, u.req); err == nil {
		t.add(u.reply)
	}
	return err
}

func (u *unary) say(m proto.Message) error {
	u.reply = m
	return nil
}
