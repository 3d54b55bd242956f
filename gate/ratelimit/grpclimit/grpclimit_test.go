package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/comporta/comporta/gate/ratelimit"
	"github.com/comporta/comporta/gate/ratelimit/grpclimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service counts the calls that reach it.
type service struct {
	pb.UnimplementedTestServiceServer

	calls   atomic.Int64
	limiter *ratelimit.Limiter
}

// UnaryCall charges what its request says, after the fact.
func (s *service) UnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	s.calls.Add(1)
	v := ratelimit.FromContext(ctx)
	if v == nil {
		return nil, status.Error(codes.Internal, "no verdict")
	}
	return &pb.SimpleResponse{}, s.limiter.ChargeAt(ctx, time.Now(), v, int64(in.GetResponseSize()))
}

func (s *service) FullDuplexCall(stream pb.TestService_FullDuplexCallServer) error {
	s.calls.Add(1)
	if ratelimit.FromContext(stream.Context()) == nil {
		return status.Error(codes.Internal, "no verdict")
	}
	for {
		if _, err := stream.Recv(); err != nil {
			return nil //nolint:nilerr // the caller is done
		}
		if err := stream.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// bench is a real server on loopback and a client of it.
type bench struct {
	service *service
	client  pb.TestServiceClient

	addr string
}

func start(t *testing.T, c ratelimit.Config, options ...grpc.DialOption) *bench {
	t.Helper()
	table, err := ratelimit.NewTable(1024)
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := ratelimit.New(time.Now(), c, table)
	if err != nil {
		t.Fatal(err)
	}
	i, err := grpclimit.New(grpclimit.Config{Limiter: limiter})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{service: &service{limiter: limiter}, addr: listener.Addr().String()}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(i.Unary), grpc.ChainStreamInterceptor(i.Stream))
	pb.RegisterTestServiceServer(server, b.service)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(b.addr, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	b.client = pb.NewTestServiceClient(conn)
	return b
}

func rule(name string, burst int64, per time.Duration) ratelimit.Rule {
	return ratelimit.Rule{Name: name, NoAggregates: true, Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 1, Per: per}, Burst: burst}}
}

func rules(list ...ratelimit.Rule) ratelimit.Config { return ratelimit.Config{Rules: list} }

// answer is what a caller sees of one call.
type answer struct {
	code            codes.Code
	message         string
	header, trailer metadata.MD
}

func (b *bench) call(ctx context.Context, units int32) answer {
	var a answer
	_, err := b.client.UnaryCall(ctx, &pb.SimpleRequest{ResponseSize: units}, grpc.Header(&a.header), grpc.Trailer(&a.trailer))
	a.code, a.message = status.Code(err), status.Convert(err).Message()
	return a
}

func (a *answer) field(md metadata.MD, name string) string { return strings.Join(md.Get(name), "|") }

func TestUnary(t *testing.T) {
	b := start(t, rules(rule("r", 3, time.Hour)))
	for i, want := range []string{`"r";r=2;t=3600`, `"r";r=1;t=3600`} {
		a := b.call(t.Context(), 0)
		if a.code != codes.OK || a.field(a.header, "ratelimit") != want || a.field(a.header, "ratelimit-policy") != `"r";q=3;w=10800` {
			t.Errorf("call %d: %+v", i, a)
		}
	}
	if a := b.call(t.Context(), 1); a.code != codes.OK { // the handler charges one more than it has
		t.Errorf("%+v", a)
	}
	a := b.call(t.Context(), 0)
	if a.code != codes.ResourceExhausted || a.message != "rate_limited: Rate limited" || len(a.header) > 0 {
		t.Errorf("%+v", a)
	}
	for name, want := range map[string]string{
		"ratelimit": `"r";r=0;t=7200`, "ratelimit-policy": `"r";q=3;w=10800`, "comporta-decision": "rate_limited",
	} {
		if got := a.field(a.trailer, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if ms := a.field(a.trailer, "grpc-retry-pushback-ms"); len(ms) != 7 || ms > "7200000" {
		t.Errorf("the pushback is %s, want a little less than two hours", ms)
	}
	if n := b.service.calls.Load(); n != 3 {
		t.Errorf("%d calls reached the service", n)
	}
}

// cases/ratelimit.md 1, for gRPC: who waits exactly as long as it was told is
// admitted. grpc-go itself waits here; it repeats a call only if the answer was
// Trailers-Only.
func TestCase_RateLimit_1_ThePushbackIsEnough(t *testing.T) {
	const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 2, "initialBackoff": "60s", "maxBackoff": "60s",
		"backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`
	b := start(t, rules(rule("r", 1, 200*time.Millisecond)), grpc.WithDefaultServiceConfig(retries))
	began := time.Now()
	for i := range 3 {
		if a := b.call(t.Context(), 0); a.code != codes.OK {
			t.Fatalf("call %d: %+v", i, a)
		}
	}
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("three calls at 1 in 200ms took %v", took)
	}
}

// What is on the wire is a head that ends the answer, and nothing after it.
func TestRefusalIsTrailersOnly(t *testing.T) {
	b := start(t, rules(ratelimit.Rule{Name: "r", NoAggregates: true, Cost: 2, Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 1, Per: time.Hour}}}))
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	empty := strings.NewReader("\x00\x00\x00\x00\x00")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+b.addr+pb.TestService_UnaryCall_FullMethodName, empty)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Grpc-Status": "8", "Grpc-Message": "cost_exceeds_burst: Cost exceeds burst", "Grpc-Retry-Pushback-Ms": "-1", "Comporta-Decision": "cost_exceeds_burst",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if len(body) > 0 || len(resp.Trailer) > 0 {
		t.Errorf("after the head came %q and %v", body, resp.Trailer)
	}
}

// A stream is charged when it begins, and not by its messages.
func TestStream(t *testing.T) {
	b := start(t, rules(rule("r", 1, time.Hour)))
	stream, err := b.client.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := stream.Send(&pb.StreamingOutputCallRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if h, err := stream.Header(); err != nil || strings.Join(h.Get("ratelimit"), "|") != `"r";r=0;t=3600` {
		t.Errorf("%v, %v", h, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	refused, err := b.client.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = refused.Recv()
	if status.Code(err) != codes.ResourceExhausted || len(refused.Trailer().Get("grpc-retry-pushback-ms")) != 1 {
		t.Errorf("%v, %v", err, refused.Trailer())
	}
	if n := b.service.calls.Load(); n != 1 {
		t.Errorf("%d streams reached the service", n)
	}
}

// Rules see a call as the request that it is.
func TestRulesReadTheCall(t *testing.T) {
	only := rule("orders", 1, time.Hour)
	only.Match = ratelimit.Match{Path: "/grpc.testing.TestService/", Methods: []string{"POST"}, Headers: map[string]string{"X-Plan": "free"}}
	tenant, err := ratelimit.ParseKey("header:X-Tenant")
	if err != nil {
		t.Fatal(err)
	}
	only.Key = tenant
	b := start(t, rules(only))
	with := func(pairs ...string) context.Context { return metadata.AppendToOutgoingContext(t.Context(), pairs...) }
	for _, tt := range []struct {
		ctx  context.Context
		want codes.Code
	}{
		{with("x-plan", "paid"), codes.OK}, {with("x-plan", "paid"), codes.OK},
		{with("x-plan", "free", "x-tenant", "a"), codes.OK}, {with("x-plan", "free", "x-tenant", "a"), codes.ResourceExhausted},
		{with("x-plan", "free", "x-tenant", "b"), codes.OK},
	} {
		if a := b.call(tt.ctx, 0); a.code != tt.want {
			md, _ := metadata.FromOutgoingContext(tt.ctx)
			t.Errorf("%v: %+v", md, a)
		}
	}
	local := rule("here", 1, time.Hour)
	local.Match.Hosts = []string{"127.0.0.1"}
	local.Key, err = ratelimit.ParseKey("network")
	if err != nil {
		t.Fatal(err)
	}
	b = start(t, rules(local))
	if first, second := b.call(t.Context(), 0), b.call(t.Context(), 0); first.code != codes.OK || second.code != codes.ResourceExhausted {
		t.Errorf("the peer's address is no key: %+v, %+v", first, second)
	}
}

// away is a store that says nothing.
type away struct{ *ratelimit.Table }

func (away) Take(context.Context, time.Time, []ratelimit.Debit, []ratelimit.Result) (bool, error) {
	return false, errors.New("away")
}

// cases/ratelimit.md 22, for gRPC: a closed rule whose store is away is
// UNAVAILABLE, not a matter of the caller's rate.
func TestCase_RateLimit_22_AClosedRuleIsUnavailable(t *testing.T) {
	table, err := ratelimit.NewTable(1024)
	if err != nil {
		t.Fatal(err)
	}
	c := rule("r", 10, time.Hour)
	c.Store, c.OnFailure = "shared", ratelimit.FailClosed
	b := start(t, ratelimit.Config{Rules: []ratelimit.Rule{c}, Stores: map[string]ratelimit.Store{"shared": away{table}}})
	a := b.call(t.Context(), 0)
	if a.code != codes.Unavailable || a.message != "limiter_unavailable: Limiter unavailable" || a.field(a.trailer, "grpc-retry-pushback-ms") != "1000" {
		t.Errorf("%+v", a)
	}
}

func TestNewWithoutALimiter(t *testing.T) {
	if _, err := grpclimit.New(grpclimit.Config{}); err == nil || !strings.Contains(err.Error(), "Limiter") {
		t.Error(err)
	}
}
