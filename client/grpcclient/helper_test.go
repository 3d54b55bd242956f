package grpcclient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/comporta/comporta/client/budget"
	"github.com/comporta/comporta/client/grpcclient"
	"github.com/comporta/comporta/client/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// big is a budget that does not run out.
var big = budget.Config{Burst: 100_000}

// always says that every method may be executed twice.
func always(string) bool { return true }

// seen is a call as the service got it.
type seen struct {
	at       time.Time
	md       metadata.MD
	patience time.Duration // 0 without a deadline
	messages []string
}

// service counts what reaches it and answers as it is told.
type service struct {
	pb.UnimplementedTestServiceServer

	// answer ends call n, from 1; nil is success. Once calls arrive it is changed by
	// become.
	answer func(ctx context.Context, n int) error
	// first is the number of messages that a stream sends before it asks answer.
	first int

	mu  sync.Mutex
	got []seen
}

func (s *service) see(ctx context.Context, messages ...string) (n int) {
	md, _ := metadata.FromIncomingContext(ctx)
	call := seen{at: time.Now(), md: md, messages: messages}
	if d, ok := ctx.Deadline(); ok {
		call.patience = time.Until(d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, call)
	return len(s.got)
}

func (s *service) say(ctx context.Context, n int) error {
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	return answer(ctx, n)
}

func (s *service) become(answer func(context.Context, int) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *service) calls() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.got...)
}

func (s *service) UnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	n := s.see(ctx, string(in.GetPayload().GetBody()))
	if err := s.say(ctx, n); err != nil {
		return nil, err
	}
	return &pb.SimpleResponse{Username: "answer " + strconv.Itoa(n)}, nil
}

func (s *service) StreamingOutputCall(in *pb.StreamingOutputCallRequest, out pb.TestService_StreamingOutputCallServer) error {
	n := s.see(out.Context(), string(in.GetPayload().GetBody()))
	for range s.first {
		if err := out.Send(output("early")); err != nil {
			return err
		}
	}
	if err := s.say(out.Context(), n); err != nil {
		return err
	}
	return out.Send(output("answer " + strconv.Itoa(n)))
}

func (s *service) StreamingInputCall(in pb.TestService_StreamingInputCallServer) error {
	n := s.see(in.Context())
	if err := s.say(in.Context(), n); err != nil {
		return err
	}
	for {
		if _, err := in.Recv(); errors.Is(err, io.EOF) {
			return in.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: int32(n)})
		} else if err != nil {
			return err
		}
	}
}

func (s *service) FullDuplexCall(both pb.TestService_FullDuplexCallServer) error {
	n := s.see(both.Context())
	if err := s.say(both.Context(), n); err != nil {
		return err
	}
	for {
		in, err := both.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := both.Send(output(string(in.GetPayload().GetBody()))); err != nil {
			return err
		}
	}
}

func output(text string) *pb.StreamingOutputCallResponse {
	return &pb.StreamingOutputCallResponse{Payload: payload(text)}
}

func payload(text string) *pb.Payload { return &pb.Payload{Body: []byte(text)} }

// bench is a service, a client with an envelope, and the connection between.
type bench struct {
	t       *testing.T
	service *service
	client  *grpcclient.Client
	conn    *grpc.ClientConn
	stub    pb.TestServiceClient
	down    atomic.Bool // nobody listens any more

	listener *bufconn.Listener
	mu       sync.Mutex
	wires    []net.Conn
}

// run runs f in a bubble, with a service behind the target passthrough:///service.
// The bubble fails the test when a goroutine is left.
func run(t *testing.T, c grpcclient.Config, answer func(ctx context.Context, n int) error, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, service: &service{answer: answer}, client: make1(t, c)}
		stop := b.serve(grpc.ChainUnaryInterceptor(grpcclient.InboundUnary), grpc.ChainStreamInterceptor(grpcclient.InboundStream))
		f(b)
		stop()
	})
}

// serve makes server and connection over a listener in memory.
func (b *bench) serve(options ...grpc.ServerOption) (stop func()) {
	listener := bufconn.Listen(1 << 16)
	b.listener = listener
	server := grpc.NewServer(options...)
	pb.RegisterTestServiceServer(server, b.service)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	b.connect()
	conn := b.conn
	return func() {
		if err := conn.Close(); err != nil && status.Code(err) != codes.Canceled { // a test may have closed it
			b.t.Error(err)
		}
		server.Stop()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	}
}

// connect makes a connection to the listener.
func (b *bench) connect(options ...grpc.DialOption) {
	b.t.Helper()
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		if b.down.Load() {
			return nil, &net.OpError{Op: "dial", Err: io.ErrClosedPipe}
		}
		wire, err := b.listener.DialContext(ctx)
		b.mu.Lock()
		b.wires = append(b.wires, wire)
		b.mu.Unlock()
		return wire, err
	}
	if b.client != nil {
		options = append(options, b.client.DialOptions()...)
	}
	options = append(options, grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	var err error
	if b.conn, err = grpc.NewClient("passthrough:///service", options...); err != nil {
		b.t.Fatal(err)
	}
	b.stub = pb.NewTestServiceClient(b.conn)
}

// drop breaks the wires.
func (b *bench) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, wire := range b.wires {
		_ = wire.Close() // it may be closed already
	}
}

func make1(t testing.TB, c grpcclient.Config) *grpcclient.Client {
	t.Helper()
	made, err := grpcclient.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// call is a call with one message each way.
func (b *bench) call(ctx context.Context, options ...grpc.CallOption) (string, retry.Report, error) {
	var report retry.Report
	out, err := b.stub.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload("question")}, append(options, grpcclient.Report(&report))...)
	return out.GetUsername(), report, err
}

// expect checks the calls that reached the service.
func (b *bench) expect(calls int) {
	b.t.Helper()
	if n := len(b.service.calls()); n != calls {
		b.t.Errorf("%d calls, want %d", n, calls)
	}
}

// code answers every call with one code, and these pairs in the trailer.
func code(c codes.Code, pairs ...string) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error { return refuse(ctx, c, pairs...) }
}

func refuse(ctx context.Context, c codes.Code, pairs ...string) error {
	if err := grpc.SetTrailer(ctx, metadata.Pairs(pairs...)); err != nil {
		return err
	}
	return status.Error(c, "told so")
}

// then answers with each code in turn, and goes on with the last.
func then(all ...codes.Code) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		if c := all[min(n, len(all))-1]; c != codes.OK {
			return refuse(ctx, c)
		}
		return nil
	}
}
