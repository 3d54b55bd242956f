package grpcidem

import (
	"context"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Stream returns the interceptor of streaming calls. Those of one request and many
// answers are kept as unary ones are, with all of their messages. A method that
// takes many requests cannot be: its calls pass untouched, with a key or without,
// and are refused as UNIMPLEMENTED where its policy requires a key.
func Stream(c Config) (grpc.StreamServerInterceptor, error) {
	if err := c.withDefaults(); err != nil {
		return nil, err
	}
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		policy := c.Policy(info.FullMethod)
		if policy == nil {
			return handler(srv, ss)
		}
		s := &stream{ServerStream: ss, handle: func(ss grpc.ServerStream) error { return handler(srv, ss) }}
		v := &visit{&c, policy, info.FullMethod, ss.Context(), s}
		if info.IsClientStream {
			return v.unkept("its requests are a conversation, which cannot be repeated as one")
		}
		if s.kind = requestOf(info.FullMethod); s.kind == nil {
			return v.unkept("the type of its request is not registered with protobuf")
		}
		return v.serve()
	}, nil
}

// requestOf returns the type of a method's request; nil: this program does not know
// it. It is read before the handler says of which type its request is.
func requestOf(method string) protoreflect.MessageType {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil
	}
	m, ok := d.(protoreflect.MethodDescriptor)
	if !ok {
		return nil
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
	if err != nil {
		return nil
	}
	return kind
}

// stream is a call of one request and many answers.
type stream struct {
	grpc.ServerStream // the caller's

	handle func(grpc.ServerStream) error
	kind   protoreflect.MessageType
	req    proto.Message // once it was read
}

func (s *stream) request() (proto.Message, error) {
	req := s.kind.New().Interface()
	if err := s.RecvMsg(req); err != nil {
		return nil, err
	}
	s.req = req
	return req, nil
}

func (s *stream) pass() error {
	if s.req == nil {
		return s.handle(s.ServerStream)
	}
	return s.handle(&received{s.ServerStream, s.req})
}

func (s *stream) carryOut(ctx context.Context, t *transcript) error {
	return s.handle(&detached{received{s.ServerStream, s.req}, ctx, t, false})
}

func (s *stream) say(m proto.Message) error { return s.SendMsg(m) }

// received is a stream whose request was read before.
type received struct {
	grpc.ServerStream

	req proto.Message // nil when the handler has it
}

// RecvMsg implements grpc.ServerStream.
func (r *received) RecvMsg(m any) error {
	if r.req == nil {
		return io.EOF
	}
	to, ok := m.(proto.Message)
	if !ok || to.ProtoReflect().Descriptor().FullName() != r.req.ProtoReflect().Descriptor().FullName() {
		return status.Errorf(codes.Internal, "grpcidem: the request is a %s, and its handler takes a %T", r.req.ProtoReflect().Descriptor().FullName(), m)
	}
	proto.Reset(to)
	proto.Merge(to, r.req)
	r.req = nil
	return nil
}

// detached is the stream of a call that outlives its caller. What is sent on it is
// written down, and goes on to the caller for as long as that is there.
type detached struct {
	received

	ctx  context.Context //nolint:containedctx // it is a call
	t    *transcript
	gone bool // the caller; of the goroutine that sends
}

// Context implements grpc.ServerStream.
func (d *detached) Context() context.Context { return d.ctx }

// SendMsg implements grpc.ServerStream. Many a handler looks at nothing else, so
// that it fails when the time for the work has run out.
func (d *detached) SendMsg(m any) error {
	if err := d.ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	d.t.add(m)
	if d.gone {
		return nil
	}
	err := d.ServerStream.SendMsg(m)
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable: // the last if its connection broke
		d.gone = true
		return nil
	}
	d.t.broken = true
	return err
}

// SetHeader implements grpc.ServerStream.
func (d *detached) SetHeader(md metadata.MD) error { return d.unlessGone(d.ServerStream.SetHeader(md)) }

// SendHeader implements grpc.ServerStream.
func (d *detached) SendHeader(md metadata.MD) error {
	return d.unlessGone(d.ServerStream.SendHeader(md))
}

func (d *detached) unlessGone(err error) error {
	if here := d.ServerStream.Context().Err() == nil; here {
		return err
	}
	return nil
}
