package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// clerk is a service over gRPC that numbers its calls.
type clerk struct {
	testgrpc.UnimplementedTestServiceServer

	calls atomic.Int64
	hold  chan struct{} // closed when a call that is asked to wait may go on
}

func note(n int64, text string) *testgrpc.StreamingOutputCallResponse {
	return &testgrpc.StreamingOutputCallResponse{Payload: &testgrpc.Payload{Body: fmt.Appendf(nil, "%d %s", n, text)}}
}

// StreamingOutputCall answers twice, with a pause or an error where it is asked for.
func (c *clerk) StreamingOutputCall(req *testgrpc.StreamingOutputCallRequest, s testgrpc.TestService_StreamingOutputCallServer) error {
	n, text := c.calls.Add(1), string(req.GetPayload().GetBody())
	s.SetTrailer(metadata.Pairs("order", fmt.Sprint(n)))
	if err := s.Send(note(n, text)); err != nil {
		return err
	}
	if text == "wait" {
		<-c.hold
	}
	if err := s.Send(note(n, text)); err != nil {
		return err
	}
	if text == "fail" {
		return status.Error(codes.Internal, text)
	}
	return nil
}

// StreamingInputCall answers how many messages came.
func (c *clerk) StreamingInputCall(s testgrpc.TestService_StreamingInputCallServer) error {
	c.calls.Add(1)
	for n := int32(0); ; n++ {
		if _, err := s.Recv(); err != nil {
			return s.SendAndClose(&testgrpc.StreamingInputCallResponse{AggregatedPayloadSize: n})
		}
	}
}

// FullDuplexCall answers each message with itself.
func (c *clerk) FullDuplexCall(s testgrpc.TestService_FullDuplexCallServer) error {
	n := c.calls.Add(1)
	for {
		req, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Send(note(n, string(req.GetPayload().GetBody()))); err != nil {
			return err
		}
	}
}

// reception is a clerk behind a gateway that keeps keys.
func reception(t *testing.T) (*clerk, testgrpc.TestServiceClient) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, server := &clerk{hold: make(chan struct{})}, grpc.NewServer()
	testgrpc.RegisterTestServiceServer(server, c)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	g := serve(t, "h2c://"+l.Addr().String(), "admission: {capacity: 64}\nstore: {engine: memory}\nidempotency: {routes: [other], on_503: release}\n")
	cc, err := grpc.NewClient(g.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return c, testgrpc.NewTestServiceClient(cc)
}

// told is the answer of a call.
type told struct {
	messages        string
	err             error // nil after the end
	header, trailer metadata.MD
}

func (a *told) replayed() bool { return len(a.header.Get("idempotency-replayed")) == 1 }

func (a *told) decision() string { return strings.Join(a.trailer.Get("comporta-decision"), "|") }

// under is the context of a call under a key, of at most 10 s.
func under(t *testing.T, key string) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", key, "x-api-key", "a"), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func asking(text string) *testgrpc.StreamingOutputCallRequest {
	return &testgrpc.StreamingOutputCallRequest{Payload: &testgrpc.Payload{Body: []byte(text)}}
}

// receive reads an answer to its end.
func receive(s grpc.ServerStreamingClient[testgrpc.StreamingOutputCallResponse]) (a told) {
	var messages []string
	for {
		m, err := s.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				a.err = err
			}
			a.messages = strings.Join(messages, "|")
			a.header, _ = s.Header()
			a.trailer = s.Trailer()
			return a
		}
		messages = append(messages, string(m.GetPayload().GetBody()))
	}
}

func watch(ctx context.Context, client testgrpc.TestServiceClient, text string) told {
	s, err := client.StreamingOutputCall(ctx, asking(text))
	if err != nil {
		return told{err: err}
	}
	return receive(s)
}

// A stream of answers under a key is replayed with its messages and trailers, and so is
// one that ends in an error.
func TestKeysOfStreamsOfAnswers(t *testing.T) {
	c, client := reception(t)
	for i := range 2 {
		a := watch(under(t, "k"), client, "apple")
		if a.messages != "1 apple|1 apple" || a.err != nil || a.replayed() != (i > 0) || strings.Join(a.trailer.Get("order"), "") != "1" {
			t.Errorf("%d: %+v", i, a)
		}
	}
	if a := watch(under(t, "k"), client, "pear"); a.decision() != "idempotency_payload_mismatch" {
		t.Errorf("%+v", a)
	}
	for i := range 2 {
		a := watch(under(t, "f"), client, "fail")
		if a.messages != "2 fail|2 fail" || status.Code(a.err) != codes.Internal || a.replayed() != (i > 0) {
			t.Errorf("%d: %+v", i, a)
		}
	}
	if n := c.calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
}

// A stream of answers goes on for a caller who has left amid it.
func TestKeysOfStreamsWithoutTheirCaller(t *testing.T) {
	c, client := reception(t)
	ctx, leave := context.WithCancel(under(t, "k"))
	defer leave()
	s, err := client.StreamingOutputCall(ctx, asking("wait"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err != nil {
		t.Fatal(err)
	}
	leave()
	if a := watch(under(t, "k"), client, "wait"); a.decision() != "idempotency_in_progress" {
		t.Errorf("%+v", a)
	}
	close(c.hold)
	var a told
	eventually(t, "a repeat collects the answer", 10*time.Second, func() bool {
		a = watch(under(t, "k"), client, "wait")
		return a.decision() != "idempotency_in_progress"
	})
	if a.messages != "1 wait|1 wait" || a.err != nil || !a.replayed() || c.calls.Load() != 1 {
		t.Errorf("%d calls, %+v", c.calls.Load(), a)
	}
}

func TestKeysOfStreamsOfRequests(t *testing.T) {
	c, client := reception(t)
	for _, tc := range []struct{ messages, want int }{{3, 3}, {3, 3}, {2, 0}} {
		s, err := client.StreamingInputCall(under(t, "k"))
		if err != nil {
			t.Fatal(err)
		}
		for range tc.messages {
			if err := s.Send(new(testgrpc.StreamingInputCallRequest)); err != nil {
				t.Fatal(err)
			}
		}
		res, err := s.CloseAndRecv()
		if int(res.GetAggregatedPayloadSize()) != tc.want || (err == nil) != (tc.want > 0) {
			t.Errorf("%d messages: %v, %v", tc.messages, res, err)
		}
	}
	if n := c.calls.Load(); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// A conversation under a key is carried out once, with the claim made before its first
// word has come, and a repeat hears at once that it was.
func TestKeysOfConversations(t *testing.T) {
	c, client := reception(t)
	s, err := client.FullDuplexCall(under(t, "k"))
	if err != nil {
		t.Fatal(err)
	}
	for word := range 3 {
		if err := s.Send(asking(fmt.Sprint(word))); err != nil {
			t.Fatal(err)
		}
		if m, err := s.Recv(); err != nil || string(m.GetPayload().GetBody()) != fmt.Sprint("1 ", word) {
			t.Fatalf("%v, %v", m, err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if a := receive(s); a.err != nil || a.messages != "" {
		t.Fatalf("%+v", a)
	}
	for opening, want := range map[string]string{"0": "idempotency_answer_not_kept", "x": "idempotency_payload_mismatch"} {
		s, err := client.FullDuplexCall(under(t, "k"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(asking(opening)); err != nil {
			t.Fatal(err)
		}
		if a := receive(s); a.decision() != want {
			t.Errorf("%s: %+v", opening, a)
		}
	}
	if n := c.calls.Load(); n != 1 {
		t.Errorf("%d calls", n)
	}
}
