package grpcidem_test

import (
	"context"
	"errors"
	"net"
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

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/gate/idempotency/grpcidem"
	"github.com/comporta/comporta/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service answers with the number of its calls.
type service struct {
	pb.UnimplementedTestServiceServer

	calls  int
	answer func(ctx context.Context) error
}

func (s *service) UnaryCall(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	s.calls++
	if s.answer != nil {
		if err := s.answer(ctx); err != nil {
			return nil, err
		}
	}
	return &pb.SimpleResponse{Username: string(rune('0' + s.calls))}, nil
}

// house is a server with the interceptor and a client, in virtual time.
type house struct {
	service service
	client  pb.TestServiceClient
}

func run(t *testing.T, policy idempotency.Policy, body func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		keeper, err := idempotency.New(idempotency.Config{Store: memstore.New(memstore.Config{}), MaxBody: 1000})
		if err != nil {
			t.Fatal(err)
		}
		once, err := grpcidem.Unary(grpcidem.Config{Keeper: keeper, Policy: func(string) *idempotency.Policy { return &policy }})
		if err != nil {
			t.Fatal(err)
		}
		h := &house{}
		listener := bufconn.Listen(1 << 16)
		server := grpc.NewServer(grpc.UnaryInterceptor(once))
		pb.RegisterTestServiceServer(server, &h.service)
		go func() { _ = server.Serve(listener) }()
		conn, err := grpc.NewClient("passthrough:///house", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
		if err != nil {
			t.Fatal(err)
		}
		h.client = pb.NewTestServiceClient(conn)
		body(t, h)
		synctest.Wait()
		if err := errors.Join(keeper.Close(t.Context()), conn.Close()); err != nil {
			t.Error(err)
		}
		server.Stop()
	})
}

type answer struct {
	user     string
	err      error
	replayed bool
	decision string
	pushback string
}

func (h *house) call(ctx context.Context, payload string, md ...string) answer {
	var header, trailer metadata.MD
	res, err := h.client.UnaryCall(metadata.AppendToOutgoingContext(ctx, md...), &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(payload)}},
		grpc.Header(&header), grpc.Trailer(&trailer))
	first := func(vs []string) string { return append(vs, "")[0] }
	return answer{
		res.GetUsername(), err, first(header.Get("idempotency-replayed")) == "true",
		first(append(header.Get("comporta-decision"), trailer.Get("comporta-decision")...)), first(trailer.Get("grpc-retry-pushback-ms")),
	}
}

func TestUnary(t *testing.T) {
	run(t, idempotency.Policy{}, func(t *testing.T, h *house) {
		for i, tc := range []struct {
			payload  string
			md       []string
			user     string
			replayed bool
			code     codes.Code
			decision string
			detail   comporta.Detail
		}{
			{"a", []string{"idempotency-key", "k"}, "1", false, codes.OK, "", comporta.DetailNone},
			{"a", []string{"idempotency-key", `"k"`}, "1", true, codes.OK, "replayed", comporta.DetailNone},
			{"b", []string{"idempotency-key", "k"}, "", false, codes.InvalidArgument, "idempotency_payload_mismatch", comporta.OtherBody},
			{"a", []string{"idempotency-key", "k", "authorization", "b"}, "2", false, codes.OK, "", comporta.DetailNone},
			{"a", nil, "3", false, codes.OK, "", comporta.DetailNone},
			{"a", []string{"idempotency-key", ""}, "", false, codes.InvalidArgument, "idempotency_key_invalid", comporta.KeyEmpty},
			{"a", []string{"idempotency-key", "k", "idempotency-key", "l"}, "", false, codes.InvalidArgument, "idempotency_key_invalid", comporta.KeySentTwice},
		} {
			got := h.call(t.Context(), tc.payload, tc.md...)
			if got.user != tc.user || got.replayed != tc.replayed || status.Code(got.err) != tc.code || got.decision != tc.decision {
				t.Errorf("call %d: %+v", i, got)
			}
			if want := tc.decision + ": " + tc.detail.String(); tc.code != codes.OK && status.Convert(got.err).Message() != want {
				t.Errorf("call %d: %v, want %q", i, got.err, want)
			}
			if tc.code != codes.OK && got.pushback != "-1" {
				t.Errorf("call %d: pushback %q", i, got.pushback)
			}
		}
	})
}

func TestErrorsOfTheService(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy idempotency.Policy
		err    error
		again  string
	}{
		{"final", idempotency.Policy{}, status.Error(codes.NotFound, "no such thing"), "replayed"},
		{"internal", idempotency.Policy{}, status.Error(codes.Internal, "oops"), "replayed"},
		{"internal released", idempotency.Policy{Release5xx: true}, status.Error(codes.Internal, "oops"), "executed"},
		{"unavailable", idempotency.Policy{}, status.Error(codes.Unavailable, "later"), "executed"},
		{"unauthenticated", idempotency.Policy{}, status.Error(codes.Unauthenticated, "who?"), "executed"},
		{"in doubt", idempotency.Policy{}, status.Error(codes.DeadlineExceeded, "somewhere"), "in progress"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, tc.policy, func(t *testing.T, h *house) {
				h.service.answer = func(context.Context) error { return tc.err }
				first := h.call(t.Context(), "a", "idempotency-key", "k")
				again := h.call(t.Context(), "a", "idempotency-key", "k")
				if status.Code(first.err) != status.Code(tc.err) {
					t.Fatalf("%+v", first)
				}
				switch tc.again {
				case "replayed":
					if h.service.calls != 1 || !again.replayed || again.err.Error() != first.err.Error() {
						t.Errorf("%d calls, %+v", h.service.calls, again)
					}
				case "executed":
					if h.service.calls != 2 || again.replayed {
						t.Errorf("%d calls, %+v", h.service.calls, again)
					}
				default:
					if h.service.calls != 1 || status.Code(again.err) != codes.Aborted || again.pushback == "-1" {
						t.Errorf("%d calls, %+v", h.service.calls, again)
					}
					time.Sleep(31 * time.Second)
					if lapsed := h.call(t.Context(), "a", "idempotency-key", "k"); lapsed.decision != "idempotency_outcome_unknown" {
						t.Errorf("%+v", lapsed)
					}
				}
			})
		})
	}
}

// The work goes on for a caller who has left, and the next call collects it.
func TestWorkOutlivesItsCaller(t *testing.T) {
	run(t, idempotency.Policy{Wait: true}, func(t *testing.T, h *house) {
		h.service.answer = func(ctx context.Context) error {
			select {
			case <-time.After(10 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := h.call(ctx, "a", "idempotency-key", "k"); status.Code(got.err) != codes.DeadlineExceeded {
			t.Fatalf("%+v", got)
		}
		if got := h.call(t.Context(), "a", "idempotency-key", "k"); got.user != "1" || !got.replayed || h.service.calls != 1 {
			t.Errorf("%d calls, %+v", h.service.calls, got)
		}
	})
}

func TestNoKeeper(t *testing.T) {
	if _, err := grpcidem.Unary(grpcidem.Config{}); err == nil {
		t.Error("no keeper")
	}
}
