package grpcclient_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/budget"
	"github.com/comporta/comporta/client/grpcclient"
	"github.com/comporta/comporta/client/retry"
)

func TestRepeatsUntilItSucceeds(t *testing.T) {
	var finished []retry.Report
	var attempted []grpcclient.Attempt
	config := grpcclient.Config{Version: "acme/1.2.3", Trace: grpcclient.Trace{
		Finished:  func(r retry.Report) { finished = append(finished, r) },
		Attempted: func(a grpcclient.Attempt) { attempted = append(attempted, a) },
	}}
	run(t, config, then(codes.Unavailable, codes.ResourceExhausted, codes.OK), func(b *bench) {
		out, report, err := b.call(b.t.Context(), grpcclient.Idempotent())
		if out != "answer 3" || err != nil || report.Attempts != 3 || len(report.Waits) != 2 || !report.Succeeded() {
			b.t.Errorf("%q %+v %v", out, report, err)
		}
		if report.Destination != "service" || report.Version != "acme/1.2.3" || report.Repeating != report.Waited() {
			b.t.Errorf("%+v", report)
		}
		for i, call := range b.service.calls() {
			if call.messages[0] != "question" {
				b.t.Errorf("call %d brought %q", i, call.messages)
			}
		}
	})
	if len(finished) != 1 || len(attempted) != 3 || attempted[0].Code != codes.Unavailable || attempted[2].Code != codes.OK {
		t.Errorf("%+v %+v", finished, attempted)
	}
}

// The metadata of the contract: who repeats from the first attempt on, gRPC's
// own count from the second, one key for all, and a ticket that was given.
func TestMetadata(t *testing.T) {
	answer := func(ctx context.Context, n int) error {
		if n == 1 {
			return refuse(ctx, codes.Unavailable, "retry-ticket", "v1.abc", "grpc-retry-pushback-ms", "5")
		}
		return refuse(ctx, codes.Unavailable)
	}
	run(t, grpcclient.Config{AutoKey: true, Version: "acme/1.2.3"}, answer, func(b *bench) {
		ctx := metadata.AppendToOutgoingContext(b.t.Context(), "tenant", "7")
		for range 2 {
			_, _, _ = b.call(ctx) // it fails
		}
		calls := b.service.calls()
		if len(calls) != 8 {
			b.t.Fatalf("%d calls", len(calls))
		}
		for i, want := range []string{"0 [] []", "1 [1] [v1.abc]", "2 [2] []", "3 [3] []"} {
			md := calls[i].md
			got := md["retry-attempt"][0] + " " + text(md["grpc-previous-rpc-attempts"]) + " " + text(md["retry-ticket"])
			if got != want {
				b.t.Errorf("attempt %d: %s, want %s", i, got, want)
			}
			if md["client-version"][0] != "acme/1.2.3" || md["tenant"][0] != "7" || len(md["idempotency-key"]) != 1 {
				b.t.Errorf("attempt %d: %v", i, md)
			}
			if key := md["idempotency-key"][0]; key != calls[0].md["idempotency-key"][0] || key == calls[4].md["idempotency-key"][0] {
				b.t.Errorf("attempt %d: the key of one operation is not one, or that of two is", i)
			}
		}
	})
}

func text(values []string) string { return "[" + strings.Join(values, " ") + "]" }

// What may not be executed twice is not, unless nothing left this process, the
// gateway refused in the service's place, or somebody can tell what became of it.
func TestNotIdempotent(t *testing.T) {
	for name, c := range map[string]struct {
		answer  func(context.Context, int) error
		options []grpc.CallOption
		md      []string
		calls   int
		reason  retry.Reason
	}{
		"unavailable":        {answer: code(codes.Unavailable), calls: 1, reason: retry.ReasonNotIdempotent},
		"pushback alone":     {answer: code(codes.Unavailable, "grpc-retry-pushback-ms", "5"), calls: 1, reason: retry.ReasonNotIdempotent},
		"option":             {answer: code(codes.Unavailable), options: []grpc.CallOption{grpcclient.Idempotent()}, calls: 4, reason: retry.ReasonAttempts},
		"key":                {answer: code(codes.Unavailable), md: []string{"idempotency-key", "k"}, calls: 4, reason: retry.ReasonAttempts},
		"two keys":           {answer: code(codes.Unavailable), md: []string{"idempotency-key", "k", "idempotency-key", "l"}, calls: 1, reason: retry.ReasonNotIdempotent},
		"gateway":            {answer: code(codes.Unavailable, "grpc-retry-pushback-ms", "5", "comporta-decision", "capacity_exhausted"), calls: 4, reason: retry.ReasonAttempts},
		"gateway, key runs":  {answer: code(codes.Aborted, "grpc-retry-pushback-ms", "5", "comporta-decision", "idempotency_in_progress"), calls: 4, reason: retry.ReasonAttempts},
		"gateway says final": {answer: code(codes.Unavailable, "grpc-retry-pushback-ms", "-1", "comporta-decision", "upstream_failed"), calls: 1, reason: retry.ReasonServer},
		"permanent":          {answer: code(codes.NotFound), options: []grpc.CallOption{grpcclient.Idempotent()}, calls: 1, reason: retry.ReasonPermanent},
		"checked, undone":    {answer: code(codes.Unavailable), options: []grpc.CallOption{checked(retry.FateNotDone)}, calls: 4, reason: retry.ReasonAttempts},
		"checked, done":      {answer: code(codes.Unavailable), options: []grpc.CallOption{checked(retry.FateDone)}, calls: 1, reason: retry.ReasonDone},
		"checked, unknown":   {answer: code(codes.Unavailable), options: []grpc.CallOption{checked(retry.FateUnknown)}, calls: 1, reason: retry.ReasonNotIdempotent},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, grpcclient.Config{}, c.answer, func(b *bench) {
				_, report, err := b.call(metadata.AppendToOutgoingContext(b.t.Context(), c.md...), c.options...)
				if err == nil || report.Reason != c.reason {
					b.t.Errorf("%+v %v", report, err)
				}
				b.expect(c.calls)
			})
		})
	}
}

func checked(fate retry.Fate) grpc.CallOption {
	return grpcclient.Check(func(context.Context) (retry.Fate, error) { return fate, nil })
}

// cases/client.md B12, for gRPC: nothing was sent, so anything may be repeated;
// a connection that breaks afterwards proves nothing.
func TestCase_Client_B12_NothingSent(t *testing.T) {
	run(t, grpcclient.Config{}, then(codes.OK), func(b *bench) {
		b.down.Store(true)
		_, report, err := b.call(b.t.Context())
		if status.Code(err) != codes.Unavailable || report.Attempts != 4 || report.Reason != retry.ReasonAttempts {
			b.t.Errorf("%+v %v", report, err)
		}
		b.expect(0)
	})
	var b *bench
	hangUp := func(context.Context, int) error {
		b.down.Store(true)
		b.drop()
		return nil
	}
	run(t, grpcclient.Config{}, hangUp, func(made *bench) {
		b = made
		_, report, err := b.call(b.t.Context())
		if status.Code(err) != codes.Unavailable || report.Attempts != 1 || report.Reason != retry.ReasonNotIdempotent {
			b.t.Errorf("%+v %v", report, err)
		}
	})
}

// What package status reads of an error is what the server said.
func TestErrorIsTheServersStatus(t *testing.T) {
	run(t, grpcclient.Config{}, code(codes.NotFound), func(b *bench) {
		_, _, err := b.call(b.t.Context())
		st := status.Convert(err)
		if st.Code() != codes.NotFound || st.Message() != "told so" || !errors.Is(err, retry.ErrGaveUp) {
			b.t.Errorf("%v", err)
		}
		gaveUp, ok := errors.AsType[*retry.Error](err)
		if !ok || gaveUp.Report.Reason != retry.ReasonPermanent || gaveUp.Report.Attempts != 1 {
			b.t.Errorf("%+v", gaveUp)
		}
	})
}

// A message that is too large stays so; its code is that of a quota.
func TestTooLargeIsNotRepeated(t *testing.T) {
	run(t, grpcclient.Config{Idempotent: always}, then(codes.OK), func(b *bench) {
		for _, option := range []grpc.CallOption{grpc.MaxCallSendMsgSize(1), grpc.MaxCallRecvMsgSize(1)} {
			_, report, err := b.call(b.t.Context(), option)
			if status.Code(err) != codes.ResourceExhausted || report.Attempts != 1 || report.Reason != retry.ReasonPermanent {
				b.t.Errorf("%+v %v", report, err)
			}
		}
	})
}

// The deadline travels as grpc-timeout: 60 % of what is left, all of it for the
// last attempt. An attempt that hangs is ended, and counts.
func TestDeadlines(t *testing.T) {
	hang := func(ctx context.Context, _ int) error {
		<-ctx.Done()
		return ctx.Err()
	}
	run(t, grpcclient.Config{Idempotent: always, Policy: retry.Policy{MaxAttempts: 2, Base: 1, Cap: 1}}, hang, func(b *bench) {
		ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		_, report, err := b.call(ctx)
		if status.Code(err) != codes.DeadlineExceeded || report.Attempts != 2 {
			b.t.Errorf("%+v %v", report, err)
		}
		if took := time.Since(start); took > 10*time.Second {
			b.t.Errorf("took %v", took)
		}
		for i, want := range []time.Duration{6 * time.Second, 4 * time.Second} {
			if got := b.service.calls()[i].patience.Round(time.Second); got != want {
				b.t.Errorf("attempt %d may take %v, want %v", i+1, got, want)
			}
		}
	})
}

// cases/client.md A2 and A15 for gRPC: a wait that does not fit returns at once;
// a caller who leaves is not kept.
func TestCase_Client_A2_A15_Waits(t *testing.T) {
	run(t, grpcclient.Config{Idempotent: always}, code(codes.Unavailable, "grpc-retry-pushback-ms", "60000"), func(b *bench) {
		start := time.Now()
		_, report, err := b.call(b.t.Context())
		if report.Reason != retry.ReasonDeadline || status.Convert(err).Message() != "told so" || time.Since(start) != 0 || report.RetryAt.IsZero() {
			b.t.Errorf("%+v %v", report, err)
		}
		b.expect(1)
	})
	run(t, grpcclient.Config{Idempotent: always}, code(codes.Unavailable, "grpc-retry-pushback-ms", "5000"), func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, report, err := b.call(ctx)
		if report.Reason != retry.ReasonContext || status.Code(err) != codes.Canceled || !errors.Is(err, context.Canceled) {
			b.t.Errorf("%+v %v", report, err)
		}
		if !strings.Contains(err.Error(), "told so") || time.Since(start) != time.Second {
			b.t.Errorf("after %v: %v", time.Since(start), err)
		}
		b.expect(1)
	})
}

// cases/client.md D1, for gRPC.
func TestCase_Client_D1_OutageCostsTheBurst(t *testing.T) {
	run(t, grpcclient.Config{Idempotent: always}, code(codes.Unavailable), func(b *bench) {
		for range 400 {
			_, _, _ = b.call(b.t.Context()) // it fails
		}
		b.expect(410)
	})
}

// cases/client.md D4, for gRPC.
func TestCase_Client_D4_SuccessEarns(t *testing.T) {
	run(t, grpcclient.Config{Idempotent: always}, then(codes.OK), func(b *bench) {
		bucket := b.client.Budgets().Of("service")
		for bucket.Withdraw() {
		}
		for range 30 {
			if _, _, err := b.call(b.t.Context()); err != nil {
				b.t.Error(err)
			}
		}
		if level := bucket.Level(); level != 3 {
			b.t.Errorf("30 successes earned %v tokens, want 3", level)
		}
	})
}

// cases/client.md D5, for gRPC: one layer repeats, and it is the outermost.
func TestCase_Client_D5_OneLayerRepeats(t *testing.T) {
	run(t, grpcclient.Config{Idempotent: always, Budget: big}, code(codes.Unavailable), func(b *bench) {
		outer, inner := 0, 0
		layer := make1(t, grpcclient.Config{Idempotent: always, Budget: big, Trace: grpcclient.Trace{Finished: func(r retry.Report) {
			if r.Nested {
				inner++
			} else {
				outer++
			}
		}}})
		// A third and a fourth layer around the client's own.
		call := func(ctx context.Context) error {
			invoke := func(ctx context.Context, _ string, req, reply any, _ *grpc.ClientConn, options ...grpc.CallOption) error {
				return layer.Unary(ctx, pb.TestService_UnaryCall_FullMethodName, req, reply, b.conn,
					func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, options ...grpc.CallOption) error {
						return cc.Invoke(ctx, method, req, reply, options...)
					}, options...)
			}
			return layer.Unary(ctx, pb.TestService_UnaryCall_FullMethodName, &pb.SimpleRequest{}, &pb.SimpleResponse{}, b.conn, invoke)
		}
		for range 10 {
			if err := call(b.t.Context()); status.Code(err) != codes.Unavailable {
				b.t.Error(err)
			}
		}
		b.expect(40)
		if outer != 10 || inner != 40 {
			b.t.Errorf("%d outer and %d inner operations, want 10 and 40", outer, inner)
		}
		// Below retry.Do, too; and a strict layer says so.
		err := retry.Do(b.t.Context(), "grpcclient-d5", func(ctx context.Context) error {
			_, report, err := b.call(ctx)
			if report.Attempts != 1 || report.Reason != retry.ReasonNested {
				b.t.Errorf("%+v", report)
			}
			return retry.Stop(err)
		})
		if !errors.Is(err, retry.ErrGaveUp) {
			b.t.Error(err)
		}
		b.expect(41)
	})
	run(t, grpcclient.Config{Strict: true}, then(codes.OK), func(b *bench) {
		err := retry.Do(b.t.Context(), "grpcclient-d5", func(ctx context.Context) error {
			_, _, err := b.call(ctx)
			return err
		})
		if !errors.Is(err, retry.ErrNested) || status.Code(err) != codes.FailedPrecondition {
			b.t.Error(err)
		}
		b.expect(0)
	})
}

// Who counts the attempts in the metadata repeats by itself.
func TestCountedByTheCaller(t *testing.T) {
	for _, key := range []string{"retry-attempt", "grpc-previous-rpc-attempts"} {
		run(t, grpcclient.Config{Idempotent: always}, code(codes.Unavailable), func(b *bench) {
			_, report, _ := b.call(metadata.AppendToOutgoingContext(b.t.Context(), key, "2"))
			if report.Reason != retry.ReasonNested || text(b.service.calls()[0].md[key]) != "[2]" {
				b.t.Errorf("%s: %+v %v", key, report, b.service.calls()[0].md)
			}
			b.expect(1)
		})
	}
}

// cases/client.md D8, D10 and D11, for gRPC: what is refused here is not
// repeated, costs no token, and passes.
func TestCase_Client_D11_RefusedHere(t *testing.T) {
	var refused []error
	trace := grpcclient.Trace{Refused: func(_ string, err error) { refused = append(refused, err) }}
	run(t, grpcclient.Config{Idempotent: always, Breaker: &breaker.Config{Minimum: 2}, Policy: retry.Policy{MaxAttempts: 2}, Trace: trace},
		code(codes.Unavailable), func(b *bench) {
			_, _, _ = b.call(b.t.Context()) // opens the breaker
			level := b.client.Budgets().Of("service").Level()
			_, report, err := b.call(b.t.Context())
			if !errors.Is(err, breaker.ErrOpen) || status.Code(err) != codes.Unavailable || report.Reason != retry.ReasonBreaker || report.Attempts != 0 {
				b.t.Errorf("%+v %v", report, err)
			}
			if b.client.Budgets().Of("service").Level() != level {
				b.t.Error("it cost a token")
			}
			b.expect(2)
		})
	hang := func(ctx context.Context, _ int) error {
		<-ctx.Done()
		return ctx.Err()
	}
	run(t, grpcclient.Config{Bulkhead: &bulkhead.Config{Limit: 1}, Trace: trace}, hang, func(b *bench) {
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		stream, err := b.stub.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
		if err != nil {
			b.t.Fatal(err)
		}
		if _, report, err := b.call(b.t.Context()); !errors.Is(err, bulkhead.ErrFull) || report.Reason != retry.ReasonBulkhead {
			b.t.Errorf("%+v %v", report, err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.DeadlineExceeded {
			b.t.Error(err)
		}
		b.service.become(then(codes.OK))
		if _, _, err := b.call(b.t.Context()); err != nil {
			b.t.Errorf("the place of a stream that ended is not free: %v", err)
		}
	})
	if len(refused) != 2 {
		t.Errorf("%v", refused)
	}
}

// A breaker opens for a service that fails, not for one that says no.
func TestWhatTheBreakerLearns(t *testing.T) {
	for c, opens := range map[codes.Code]bool{
		codes.Unavailable: true, codes.Internal: true, codes.DeadlineExceeded: true, codes.Unknown: true,
		codes.NotFound: false, codes.PermissionDenied: false, codes.Unauthenticated: false, codes.AlreadyExists: false, codes.ResourceExhausted: false,
	} {
		run(t, grpcclient.Config{Breaker: &breaker.Config{Minimum: 2}, Policy: retry.Policy{MaxAttempts: 1}}, code(c), func(b *bench) {
			for range 3 {
				_, _, _ = b.call(b.t.Context()) // it fails
			}
			if opened := len(b.service.calls()) == 2; opened != opens {
				b.t.Errorf("%v: open is %t, want %t", c, opened, opens)
			}
		})
	}
}

// cases/client.md D13: what an answer says of the policy holds for this very call.
func TestCase_Client_D13_Told(t *testing.T) {
	told := ""
	config := grpcclient.Config{
		Idempotent: always,
		Told:       func(_, policy string) { told = policy },
		Limits: func(destination, method string) retry.Limits {
			if destination != "service" || method != pb.TestService_UnaryCall_FullMethodName {
				t.Errorf("asked for %q %q", destination, method)
			}
			if told != "" {
				return retry.Limits{MaxAttempts: 1}
			}
			return retry.Limits{}
		},
	}
	run(t, config, code(codes.Unavailable, "retry-policy", "max=1;ttl=600"), func(b *bench) {
		if _, report, _ := b.call(b.t.Context()); report.Reason != retry.ReasonAttempts {
			b.t.Errorf("%+v", report)
		}
		b.expect(1)
	})
}

// cases/client.md D14: too old, once and for all of this version.
func TestCase_Client_D14_TooOld(t *testing.T) {
	var told []string
	config := grpcclient.Config{Version: "acme/1.0.0", Idempotent: always, Trace: grpcclient.Trace{
		TooOld: func(destination, version string) { told = append(told, destination+" "+version) },
	}}
	run(t, config, code(codes.FailedPrecondition, "comporta-decision", "client_too_old", "grpc-retry-pushback-ms", "-1"), func(b *bench) {
		for range 3 {
			if _, report, err := b.call(b.t.Context()); status.Code(err) != codes.FailedPrecondition || report.Reason != retry.ReasonTooOld {
				b.t.Errorf("%+v %v", report, err)
			}
		}
		if _, err := b.stub.StreamingOutputCall(b.t.Context(), &pb.StreamingOutputCallRequest{}); !errors.Is(err, client.ErrTooOld) {
			b.t.Error(err)
		}
		b.expect(1)
		if err := b.client.SetVersion("acme"); err == nil {
			b.t.Error("a version that is none was taken")
		}
		if err := b.client.SetVersion("acme/2.0.0"); err != nil {
			b.t.Error(err)
		}
		_, _, _ = b.call(b.t.Context())
		b.expect(2)
	})
	if text(told) != "[service acme/1.0.0 service acme/2.0.0]" {
		t.Error(told)
	}
}

func TestReplayed(t *testing.T) {
	replayed := 0
	answer := func(ctx context.Context, _ int) error {
		return grpc.SetHeader(ctx, metadata.Pairs("idempotency-replayed", "true"))
	}
	config := grpcclient.Config{AutoKey: true, Trace: grpcclient.Trace{Replayed: func(string) { replayed++ }}}
	run(t, config, answer, func(b *bench) {
		if _, _, err := b.call(b.t.Context()); err != nil || replayed != 1 {
			b.t.Errorf("%v, %d replays", err, replayed)
		}
	})
}

// What grpc-go would repeat by itself is off: the service config asks for four
// attempts.
func TestGRPCsOwnRetriesAreOff(t *testing.T) {
	const serviceConfig = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.1s",
		"maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`
	run(t, grpcclient.Config{}, code(codes.Unavailable), func(b *bench) {
		if err := b.conn.Close(); err != nil {
			b.t.Error(err)
		}
		b.connect(grpc.WithDefaultServiceConfig(serviceConfig))
		_, _, _ = b.call(b.t.Context())
		b.expect(1)
		if err := b.conn.Close(); err != nil {
			b.t.Error(err)
		}
	})
}

func TestNewNamesEveryProblem(t *testing.T) {
	_, err := grpcclient.New(grpcclient.Config{
		Version: "acme", Margin: -1, Policy: retry.Policy{MaxAttempts: -1}, Budget: budget.Config{PerSuccess: math.NaN()},
		Breaker: &breaker.Config{Failures: 2}, Bulkhead: &bulkhead.Config{Queue: -1},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{"Version", "Margin", "MaxAttempts", "PerSuccess", "Failures", "Queue", "Bulkhead.Limit"} {
		if !strings.Contains(err.Error(), field+":") {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

// A hostile server's words cost nothing.
func TestHostileServer(t *testing.T) {
	long := strings.Repeat("9", 40)
	run(t, grpcclient.Config{Idempotent: always}, code(codes.Unavailable,
		"grpc-retry-pushback-ms", long, "retry-ticket", strings.Repeat("x", http.DefaultMaxHeaderBytes>>10)), func(b *bench) {
		_, report, _ := b.call(b.t.Context())
		if report.Reason != retry.ReasonTooFar || report.Attempts != 1 {
			b.t.Errorf("%+v", report)
		}
	})
	run(t, grpcclient.Config{Idempotent: always}, code(codes.Unavailable, "retry-ticket", strings.Repeat("x", 201)), func(b *bench) {
		_, _, _ = b.call(b.t.Context())
		for _, call := range b.service.calls() {
			if len(call.md["retry-ticket"]) > 0 {
				b.t.Error("a ticket that nobody reads was sent back")
			}
		}
		b.expect(4)
	})
}
