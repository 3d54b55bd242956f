package grpcidem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
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

	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/gate/idempotency/grpcidem"
	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service answers with the number of its calls.
type service struct {
	pb.UnimplementedTestServiceServer

	calls  int
	fail   func(ctx context.Context) error // nil: it does not
	large  bool                            // more is answered than is kept
	trails metadata.MD                     // is said after each answer
	stream func(s pb.TestService_StreamingOutputCallServer) error
}

func (s *service) UnaryCall(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	s.calls++
	if err := grpc.SetTrailer(ctx, s.trails); err != nil {
		return nil, err
	}
	if s.fail != nil {
		if err := s.fail(ctx); err != nil {
			return nil, err
		}
	}
	res := &pb.SimpleResponse{Username: fmt.Sprint(s.calls)}
	if s.large {
		res.Username = string(bytes.Repeat([]byte("x"), 1001))
	}
	return res, nil
}

// StreamingOutputCall answers the payload three times. It fails after the first.
func (s *service) StreamingOutputCall(req *pb.StreamingOutputCallRequest, to pb.TestService_StreamingOutputCallServer) error {
	s.calls++
	to.SetTrailer(s.trails)
	if s.stream != nil {
		return s.stream(to)
	}
	for i := range 3 {
		text := fmt.Appendf(nil, "%d%c %s", s.calls, 'a'+i, req.GetPayload().GetBody())
		if s.large {
			text = bytes.Repeat([]byte("x"), 400)
		}
		if err := to.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: text}}); err != nil {
			return err
		}
		if i == 0 && s.fail != nil {
			if err := s.fail(to.Context()); err != nil {
				return err
			}
		}
	}
	return nil
}

// StreamingInputCall answers the number of its calls.
func (s *service) StreamingInputCall(in pb.TestService_StreamingInputCallServer) error {
	s.calls++
	for {
		_, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return in.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: int32(s.calls)})
		}
		if err != nil {
			return err
		}
	}
}

// FullDuplexCall is an echo.
func (s *service) FullDuplexCall(both pb.TestService_FullDuplexCallServer) error {
	s.calls++
	for {
		req, err := both.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := both.Send(&pb.StreamingOutputCallResponse{Payload: req.GetPayload()}); err != nil {
			return err
		}
	}
}

// house is a server with the interceptors and a client, in virtual time.
type house struct {
	policy  idempotency.Policy
	options []grpc.ServerOption // beside the interceptors
	down    bool                // the store is
	finish  time.Duration       // that the store takes to record an answer

	service  service
	listener *bufconn.Listener
	conn     *grpc.ClientConn
	client   pb.TestServiceClient

	mu     sync.Mutex
	events map[idempotency.Event]int
}

func run(t *testing.T, policy idempotency.Policy, body func(t *testing.T, h *house)) {
	t.Helper()
	(&house{policy: policy}).run(t, body)
}

func (h *house) run(t *testing.T, body func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h.events = map[idempotency.Event]int{}
		keeper, err := idempotency.New(idempotency.Config{
			Store: &shelf{memstore.New(memstore.Config{}), h}, MaxBody: 1000, Trace: idempotency.Trace{Event: h.event},
		})
		if err != nil {
			t.Fatal(err)
		}
		c := grpcidem.Config{Keeper: keeper, Policy: func(string) *idempotency.Policy { return &h.policy }}
		once, err := grpcidem.Unary(c)
		if err != nil {
			t.Fatal(err)
		}
		onceStream, err := grpcidem.Stream(c)
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer(append(h.options,
			grpc.ChainUnaryInterceptor(survive, once), grpc.ChainStreamInterceptor(surviveStream, onceStream))...)
		pb.RegisterTestServiceServer(server, &h.service)
		server.RegisterService(&unknown, h)
		listener := bufconn.Listen(1 << 16)
		go func() { _ = server.Serve(listener) }()
		h.listener = listener
		h.dial(t)
		body(t, h)
		synctest.Wait()
		if err := errors.Join(keeper.Close(t.Context()), h.conn.Close()); err != nil {
			t.Error(err)
		}
		server.Stop()
	})
}

// dial gives the house a client with a connection of its own.
func (h *house) dial(t *testing.T) {
	t.Helper()
	if h.conn != nil {
		_ = h.conn.Close() // it may be closed
	}
	var err error
	h.conn, err = grpc.NewClient("passthrough:///house", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return h.listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	h.client = pb.NewTestServiceClient(h.conn)
}

func (h *house) event(e idempotency.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events[e]++
}

func (h *house) wants(t *testing.T, e idempotency.Event, want int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.events[e] != want {
		t.Errorf("%d times %s, want %d: %v", h.events[e], e, want, h.events)
	}
}

// shelf is the store of a house.
type shelf struct {
	store.Keys

	h *house
}

func (s *shelf) Claim(ctx context.Context, now time.Time, c store.Claim) (store.Claimed, error) {
	if s.h.down {
		return store.Claimed{}, errors.New("down")
	}
	return s.Keys.Claim(ctx, now, c)
}

func (s *shelf) Finish(ctx context.Context, now time.Time, hold store.Hold, f store.Finish) error {
	time.Sleep(s.h.finish)
	return s.Keys.Finish(ctx, now, hold, f)
}

var errPanicked = status.Error(codes.Internal, "panicked")

// survive keeps the process alive when a handler panics, as many servers do.
func survive(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
	defer func() {
		if recover() != nil {
			err = errPanicked
		}
	}()
	return handler(ctx, req)
}

func surviveStream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer func() {
		if recover() != nil {
			err = errPanicked
		}
	}()
	return handler(srv, ss)
}

// unknown is a service whose types no registry knows.
var unknown = grpc.ServiceDesc{
	ServiceName: "test.Unknown", HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{StreamName: "Watch", ServerStreams: true, Handler: func(srv any, ss grpc.ServerStream) error {
		srv.(*house).service.calls++
		req := new(pb.Payload)
		if err := ss.RecvMsg(req); err != nil {
			return err
		}
		return ss.SendMsg(req)
	}}},
}
