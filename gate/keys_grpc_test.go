package gate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/idempotency"
)

// clerk is a service over gRPC that numbers its calls.
type clerk struct {
	pb.UnimplementedTestServiceServer

	calls atomic.Int64
	code  codes.Code    // by which a call ends that was asked to fail
	takes time.Duration // before it ends
}

func note(n int64, text string) *pb.StreamingOutputCallResponse {
	return &pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: fmt.Appendf(nil, "%d %s", n, text)}}
}

// StreamingOutputCall answers twice, and then fails if it is asked to.
func (c *clerk) StreamingOutputCall(req *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
	n, text := c.calls.Add(1), string(req.GetPayload().GetBody())
	s.SetTrailer(metadata.Pairs("order", fmt.Sprint(n)))
	err := errors.Join(s.Send(note(n, text)), s.Send(note(n, text)))
	time.Sleep(c.takes)
	if text == "fail" && err == nil {
		s.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", "7000"))
		err = grpcstatus.Error(c.code, text)
	}
	return err
}

// StreamingInputCall answers how many messages came.
func (c *clerk) StreamingInputCall(s pb.TestService_StreamingInputCallServer) error {
	c.calls.Add(1)
	for n := int32(0); ; n++ {
		if _, err := s.Recv(); err != nil {
			return s.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: n})
		}
	}
}

// FullDuplexCall answers each message with itself, until it is told to end.
func (c *clerk) FullDuplexCall(s pb.TestService_FullDuplexCallServer) error {
	n := c.calls.Add(1)
	for {
		req, err := s.Recv()
		if err != nil {
			return nil //nolint:nilerr // the end of the conversation
		}
		text := string(req.GetPayload().GetBody())
		if err := s.Send(note(n, text)); err != nil || text == "end" {
			return err
		}
	}
}

// call serves a clerk behind the gate of a house, and a client of it.
func (k *keyed) call(t *testing.T, c *clerk, body func(t *testing.T, h *house, client pb.TestServiceClient)) {
	t.Helper()
	k.run(t, nil, func(t *testing.T, h *house) {
		service := grpc.NewServer()
		pb.RegisterTestServiceServer(service, c)
		server := &http.Server{Handler: h.gate.Wrap(service), Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
		server.Protocols.SetUnencryptedHTTP2(true)
		h.network.ServeConfig("clerk", server)
		cc, err := grpc.NewClient("passthrough:///clerk", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
			grpc.WithContextDialer(func(ctx context.Context, name string) (net.Conn, error) {
				return h.network.DialContext(ctx, "tcp", name)
			}))
		if err != nil {
			t.Fatal(err)
		}
		body(t, h, pb.NewTestServiceClient(cc))
		if err := errors.Join(cc.Close(), server.Close()); err != nil {
			t.Error(err)
		}
		service.Stop()
	})
}

func under(t *testing.T, key string) context.Context {
	t.Helper()
	return metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", key, "x-api-key", "a")
}

func asking(text string) *pb.StreamingOutputCallRequest {
	return &pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: []byte(text)}}
}

// said is the answer of a call.
type said struct {
	messages        string
	err             error // nil after the end
	header, trailer metadata.MD
}

func (s *said) replayed() bool { return len(s.header.Get("idempotency-replayed")) == 1 }

func (s *said) trails(name string) string { return strings.Join(s.trailer.Get(name), "|") }

// receive reads an answer to its end.
func receive(s grpc.ServerStreamingClient[pb.StreamingOutputCallResponse]) (got said) {
	var messages []string
	for {
		m, err := s.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				got.err = err
			}
			got.messages = strings.Join(messages, "|")
			got.header, _ = s.Header()
			got.trailer = s.Trailer()
			return got
		}
		messages = append(messages, string(m.GetPayload().GetBody()))
	}
}

func watch(ctx context.Context, client pb.TestServiceClient, text string) said {
	s, err := client.StreamingOutputCall(ctx, asking(text))
	if err != nil {
		return said{err: err}
	}
	return receive(s)
}

// An answer of many messages is replayed with all of them, and with its trailers.
func TestStreamOfAnswersIsReplayed(t *testing.T) {
	var c clerk
	k := keyed{}
	k.call(t, &c, func(t *testing.T, _ *house, client pb.TestServiceClient) {
		for i := range 2 {
			got := watch(under(t, "k"), client, "apple")
			if got.messages != "1 apple|1 apple" || got.err != nil || got.replayed() != (i > 0) || got.trails("order") != "1" {
				t.Errorf("%d: %+v", i, got)
			}
		}
		if got := watch(under(t, "k"), client, "pear"); got.trails("comporta-decision") != "idempotency_payload_mismatch" {
			t.Errorf("%+v", got)
		}
	})
}

// A failure that is the answer of its key is final, whatever its service said about
// repeating: it will be the same.
func TestReplayedFailureOfACallIsFinal(t *testing.T) {
	c := clerk{code: codes.Internal}
	var results []comporta.Result
	k := keyed{trace: gate.Trace{Done: func(_ time.Time, _ *comporta.Request, _ comporta.Decision, o comporta.Outcome) {
		results = append(results, o.Result)
	}}}
	k.call(t, &c, func(t *testing.T, _ *house, client pb.TestServiceClient) {
		for i, pushback := range []string{"7000", "-1", "-1"} {
			got := watch(under(t, "k"), client, "fail")
			if got.messages != "1 fail|1 fail" || grpcstatus.Code(got.err) != codes.Internal || got.replayed() != (i > 0) || got.trails("grpc-retry-pushback-ms") != pushback {
				t.Errorf("%d: %+v", i, got)
			}
		}
		if want := slices.Repeat([]comporta.Result{comporta.ResultFailed}, 3); !slices.Equal(results, want) {
			t.Errorf("the gate learned %v, want %v", results, want)
		}
	})
}

// Those who stood by for a call that was refused are told when to come, where gRPC
// looks for it.
func TestRefusalsOfCallsArePassedToThoseWhoStandBy(t *testing.T) {
	c := clerk{code: codes.Unavailable, takes: time.Second}
	k := keyed{policy: idempotency.Policy{Wait: true}}
	k.call(t, &c, func(t *testing.T, _ *house, client pb.TestServiceClient) {
		answers := make(chan said)
		for range 3 {
			go func() { answers <- watch(under(t, "k"), client, "fail") }()
		}
		for range 3 {
			got := <-answers
			ms, err := strconv.Atoi(got.trails("grpc-retry-pushback-ms"))
			if grpcstatus.Code(got.err) != codes.Unavailable || got.replayed() || err != nil || ms < 7000 {
				t.Errorf("%+v", got)
			}
		}
		if n := c.calls.Load(); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
	k.counts.wants(t, idempotency.Waited, 2)
}

// A stream of requests that waits for nothing is a body like any other.
func TestStreamOfRequestsIsReplayed(t *testing.T) {
	var c clerk
	k := keyed{}
	k.call(t, &c, func(t *testing.T, _ *house, client pb.TestServiceClient) {
		for _, tc := range []struct{ messages, want int }{{3, 3}, {3, 3}, {2, 0}} {
			s, err := client.StreamingInputCall(under(t, "k"))
			if err != nil {
				t.Fatal(err)
			}
			for range tc.messages {
				if err := s.Send(new(pb.StreamingInputCallRequest)); err != nil {
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
	})
}

// talk sends each text when the one before was answered.
func talk(t *testing.T, client pb.TestServiceClient, texts ...string) (got said) {
	t.Helper()
	s, err := client.FullDuplexCall(under(t, "k"))
	if err != nil {
		t.Fatal(err)
	}
	var messages []string
	for _, text := range texts {
		if err := s.Send(asking(text)); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		m, err := s.Recv()
		if err != nil {
			got.err = err
			break
		}
		messages = append(messages, string(m.GetPayload().GetBody()))
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	rest := receive(s)
	got.header, got.trailer = rest.header, rest.trailer
	got.messages = strings.Join(messages, "|")
	return got
}

// A conversation under a key is carried out as one. What it ended with cannot be
// said again, and who repeats it hears that at once: to compare all of it would be to
// wait for a client who waits. What it began with tells it from others.
func TestConversationUnderAKey(t *testing.T) {
	for _, tc := range []struct {
		name         string
		first, again []string
		want         string // that the repeat is told; "": it is replayed
	}{
		{"the same", []string{"a", "b", "c"}, []string{"a", "b", "c"}, "idempotency_answer_not_kept"},
		{"another end", []string{"a", "b", "c"}, []string{"a", "x"}, "idempotency_answer_not_kept"},
		{"another beginning", []string{"a", "b", "c"}, []string{"x", "b", "c"}, "idempotency_payload_mismatch"},
		{"one word", []string{"a"}, []string{"a"}, ""},
		{"one word, after which the service hangs up", []string{"end"}, []string{"end"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c clerk
			k := keyed{}
			k.call(t, &c, func(t *testing.T, _ *house, client pb.TestServiceClient) {
				start := time.Now()
				if got := talk(t, client, tc.first...); got.err != nil || got.messages != "1 "+strings.Join(tc.first, "|1 ") {
					t.Fatalf("%+v", got)
				}
				synctest.Wait()
				again := talk(t, client, tc.again...)
				if again.replayed() != (tc.want == "") || again.trails("comporta-decision") != tc.want || tc.want == "" && again.messages != "1 "+tc.again[0] {
					t.Errorf("%+v", again)
				}
				if took := time.Since(start); took != 0 || c.calls.Load() != 1 {
					t.Errorf("%d calls, told after %v", c.calls.Load(), took)
				}
			})
		})
	}
}

// A repeat while the conversation goes on is told that it does, and does not wait to
// be read.
func TestConversationThatGoesOn(t *testing.T) {
	var c clerk
	k := keyed{}
	k.call(t, &c, func(t *testing.T, _ *house, client pb.TestServiceClient) {
		s, err := client.FullDuplexCall(under(t, "k"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(asking("a")); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		if got := talk(t, client, "a"); got.trails("comporta-decision") != "idempotency_in_progress" {
			t.Errorf("%+v", got)
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if got := receive(s); got.err != nil {
			t.Errorf("%+v", got)
		}
	})
}
