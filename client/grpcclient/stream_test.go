package grpcclient_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/client/grpcclient"
	"github.com/comporta/comporta/client/retry"
)

func input(text string) *pb.StreamingOutputCallRequest {
	return &pb.StreamingOutputCallRequest{Payload: payload(text)}
}

// all receives until the end.
func all(s interface {
	Recv() (*pb.StreamingOutputCallResponse, error)
},
) (texts []string, err error) {
	for {
		out, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return texts, nil
		} else if err != nil {
			return texts, err
		}
		texts = append(texts, string(out.GetPayload().GetBody()))
	}
}

// A call with one request is sent again until its caller has a message.
func TestServerStreamIsRepeatedBeforeTheFirstMessage(t *testing.T) {
	run(t, grpcclient.Config{Idempotent: always}, then(codes.Unavailable, codes.Unavailable, codes.OK), func(b *bench) {
		var report retry.Report
		stream, err := b.stub.StreamingOutputCall(b.t.Context(), input("question"), grpcclient.Report(&report))
		if err != nil {
			b.t.Fatal(err)
		}
		texts, err := all(stream)
		if text(texts) != "[answer 3]" || err != nil || report.Attempts != 3 || !report.Succeeded() {
			b.t.Errorf("%v %v %+v", texts, err, report)
		}
		for i, call := range b.service.calls() {
			if text(call.messages) != "[question]" || call.md["retry-attempt"][0] != string(rune('0'+i)) {
				b.t.Errorf("attempt %d: %q %v", i, call.messages, call.md)
			}
		}
		if level := b.client.Budgets().Of("service").Level(); level != 9 {
			b.t.Errorf("%v tokens, want 9: two taken, one refunded", level)
		}
	})
}

// What was received once is never received twice.
func TestStreamIsNotRepeatedAfterTheFirstMessage(t *testing.T) {
	var finished []retry.Report
	config := grpcclient.Config{Idempotent: always, Trace: grpcclient.Trace{Finished: func(r retry.Report) { finished = append(finished, r) }}}
	run(t, config, code(codes.Unavailable), func(b *bench) {
		b.service.first = 2
		stream, err := b.stub.StreamingOutputCall(b.t.Context(), input("question"))
		if err != nil {
			b.t.Fatal(err)
		}
		texts, err := all(stream)
		if text(texts) != "[early early]" || status.Code(err) != codes.Unavailable {
			b.t.Errorf("%v %v", texts, err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
			b.t.Errorf("the end changed to %v", err)
		}
		b.expect(1)
	})
	if len(finished) != 1 || !finished[0].Succeeded() {
		t.Errorf("%+v", finished)
	}
}

func TestStreamGivesUp(t *testing.T) {
	for name, c := range map[string]struct {
		config  grpcclient.Config
		answer  func(context.Context, int) error
		calls   int
		reason  retry.Reason
		code    codes.Code
		message string
	}{
		"attempts":       {grpcclient.Config{Idempotent: always}, code(codes.Unavailable), 4, retry.ReasonAttempts, codes.Unavailable, "told so"},
		"not idempotent": {grpcclient.Config{}, code(codes.Unavailable), 1, retry.ReasonNotIdempotent, codes.Unavailable, "told so"},
		"permanent":      {grpcclient.Config{Idempotent: always}, code(codes.NotFound), 1, retry.ReasonPermanent, codes.NotFound, "told so"},
		// cases/client.md B13
		"pushback": {grpcclient.Config{Idempotent: always}, code(codes.Unavailable, "grpc-retry-pushback-ms", "-1"), 1, retry.ReasonServer, codes.Unavailable, "told so"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, c.config, c.answer, func(b *bench) {
				var report retry.Report
				stream, err := b.stub.StreamingOutputCall(b.t.Context(), input("question"), grpcclient.Report(&report))
				if err != nil {
					b.t.Fatal(err)
				}
				for range 2 { // the end stays what it is
					_, err = stream.Recv()
					if st := status.Convert(err); st.Code() != c.code || st.Message() != c.message || !errors.Is(err, retry.ErrGaveUp) {
						b.t.Error(err)
					}
				}
				if report.Reason != c.reason {
					b.t.Errorf("%+v", report)
				}
				b.expect(c.calls)
			})
		})
	}
}

// Nothing is kept of a stream of requests: it is repeated only while none was
// sent.
func TestClientStreamKeepsNothing(t *testing.T) {
	run(t, grpcclient.Config{Idempotent: always}, then(codes.Unavailable, codes.OK), func(b *bench) {
		stream, err := b.stub.StreamingInputCall(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		out, err := stream.CloseAndRecv()
		if err != nil || out.GetAggregatedPayloadSize() != 2 {
			b.t.Errorf("%v %v", out, err)
		}
		b.expect(2)
	})
	run(t, grpcclient.Config{Idempotent: always}, then(codes.Unavailable, codes.OK), func(b *bench) {
		var report retry.Report
		stream, err := b.stub.StreamingInputCall(b.t.Context(), grpcclient.Report(&report))
		if err != nil {
			b.t.Fatal(err)
		}
		for err == nil { // until the stream is seen to be over
			err = stream.Send(&pb.StreamingInputCallRequest{})
			time.Sleep(time.Millisecond) // in the bubble's time
		}
		if _, err := stream.CloseAndRecv(); status.Code(err) != codes.Unavailable || report.Reason != retry.ReasonNotReplayable {
			b.t.Errorf("%v %+v", err, report)
		}
		b.expect(1)
	})
}

// One goroutine sends while another receives: who sends waits for the stream
// that is opened again, and every message comes back once.
func TestBothWaysAtOnce(t *testing.T) {
	run(t, grpcclient.Config{Idempotent: always}, then(codes.Unavailable, codes.Unavailable, codes.OK), func(b *bench) {
		stream, err := b.stub.FullDuplexCall(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		var wg sync.WaitGroup
		var texts []string
		wg.Go(func() { texts, err = all(stream) })
		time.Sleep(10 * time.Second) // virtual: both failures are over, nothing was sent
		want := make([]string, 100)
		for i := range want {
			want[i] = string(rune('a' + i%26))
			if err := stream.Send(input(want[i])); err != nil {
				b.t.Error(err)
			}
		}
		if err := stream.CloseSend(); err != nil {
			b.t.Error(err)
		}
		wg.Wait()
		if text(texts) != text(want) || err != nil {
			b.t.Errorf("%v %v", texts, err)
		}
		b.expect(3)
	})
}

// A header that was read is the header of the stream that follows.
func TestHeaderKeepsTheStream(t *testing.T) {
	answer := func(ctx context.Context, n int) error {
		if n == 1 {
			return refuse(ctx, codes.Unavailable)
		}
		if err := grpc.SendHeader(ctx, metadata.Pairs("attempt", "2")); err != nil {
			return err
		}
		return refuse(ctx, codes.Unavailable)
	}
	run(t, grpcclient.Config{Idempotent: always}, answer, func(b *bench) {
		stream, err := b.stub.StreamingOutputCall(b.t.Context(), input("question"))
		if err != nil {
			b.t.Fatal(err)
		}
		if md, err := stream.Header(); md != nil || err != nil { // ended without one
			b.t.Errorf("%v %v", md, err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
			b.t.Error(err)
		}
		b.expect(4)
	})
	run(t, grpcclient.Config{Idempotent: always}, func(ctx context.Context, _ int) error { return answer(ctx, 2) }, func(b *bench) {
		var report retry.Report
		stream, err := b.stub.StreamingOutputCall(b.t.Context(), input("question"), grpcclient.Report(&report))
		if err != nil {
			b.t.Fatal(err)
		}
		if md, err := stream.Header(); text(md["attempt"]) != "[2]" || err != nil {
			b.t.Errorf("%v %v", md, err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.Unavailable || report.Reason != retry.ReasonNotReplayable {
			b.t.Errorf("%v %+v", err, report)
		}
		b.expect(1)
	})
}

func TestContextKeepsTheStream(t *testing.T) {
	run(t, grpcclient.Config{Idempotent: always}, code(codes.Unavailable, "why", "so"), func(b *bench) {
		stream, err := b.stub.StreamingOutputCall(b.t.Context(), input("question"))
		if err != nil {
			b.t.Fatal(err)
		}
		_ = stream.Context()
		if _, err := stream.Recv(); status.Code(err) != codes.Unavailable || text(stream.Trailer()["why"]) != "[so]" {
			b.t.Errorf("%v %v", err, stream.Trailer())
		}
		b.expect(1)
	})
}

// A stream that is open lives as long as its context, and sends no deadline that
// the caller has not set.
func TestStreamOutlivesTotal(t *testing.T) {
	hour := func(ctx context.Context, _ int) error {
		select {
		case <-time.After(time.Hour):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	run(t, grpcclient.Config{}, hour, func(b *bench) {
		b.service.first = 1
		stream, err := b.stub.StreamingOutputCall(b.t.Context(), input("question"))
		if err != nil {
			b.t.Fatal(err)
		}
		if texts, err := all(stream); text(texts) != "[early answer 1]" || err != nil {
			b.t.Errorf("%v %v", texts, err)
		}
		if p := b.service.calls()[0].patience; p != 0 {
			b.t.Errorf("a deadline of %v", p)
		}
	})
}

// A caller who leaves a stream behind leaves nothing: neither a place in the
// bulkhead nor the breaker's probe.
func TestLeftStream(t *testing.T) {
	hang := func(ctx context.Context, _ int) error {
		<-ctx.Done()
		return ctx.Err()
	}
	config := grpcclient.Config{
		Breaker:  &breaker.Config{Minimum: 1, Open: time.Second, Jitter: 0.01, ProbeTimeout: time.Hour},
		Bulkhead: &bulkhead.Config{Limit: 1}, Policy: retry.Policy{MaxAttempts: 1},
	}
	run(t, config, code(codes.Unavailable), func(b *bench) {
		_, _, _ = b.call(b.t.Context()) // opens the breaker
		time.Sleep(2 * time.Second)     // virtual: half open
		b.service.become(hang)
		ctx, cancel := context.WithCancel(b.t.Context())
		if _, err := b.stub.StreamingOutputCall(ctx, input("question")); err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(time.Second)
		cancel()
		time.Sleep(time.Second)
		b.service.become(then(codes.OK))
		if _, _, err := b.call(b.t.Context()); err != nil {
			b.t.Error(err)
		}
	})
	run(t, grpcclient.Config{Bulkhead: &bulkhead.Config{Limit: 1}}, hang, func(b *bench) {
		if _, err := b.stub.StreamingOutputCall(b.t.Context(), input("question")); err != nil {
			b.t.Fatal(err)
		}
		if err := b.conn.Close(); err != nil {
			b.t.Error(err)
		}
		time.Sleep(time.Second)
		b.connect()
		b.service.become(then(codes.OK))
		if _, _, err := b.call(b.t.Context()); err != nil {
			b.t.Errorf("closing the connection left the place taken: %v", err)
		}
		if err := b.conn.Close(); err != nil {
			b.t.Error(err)
		}
	})
}

// cases/client.md A15, for streams: a caller who leaves during the wait.
func TestCase_Client_A15_StreamLeftWhileWaiting(t *testing.T) {
	run(t, grpcclient.Config{Idempotent: always}, code(codes.Unavailable, "grpc-retry-pushback-ms", "5000"), func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		stream, err := b.stub.StreamingOutputCall(ctx, input("question"))
		if err != nil {
			b.t.Fatal(err)
		}
		if _, err = stream.Recv(); status.Code(err) != codes.Canceled || time.Since(start) != time.Second {
			b.t.Errorf("%v after %v", err, time.Since(start))
		}
		b.expect(1)
	})
}

// cases/client.md B12, for streams: nothing was sent, so even a stream of
// requests is opened again.
func TestCase_Client_B12_StreamNotOpened(t *testing.T) {
	run(t, grpcclient.Config{}, then(codes.OK), func(b *bench) {
		b.down.Store(true)
		var report retry.Report
		_, err := b.stub.FullDuplexCall(b.t.Context(), grpcclient.Report(&report))
		if status.Code(err) != codes.Unavailable || report.Attempts != 4 || report.Reason != retry.ReasonAttempts {
			b.t.Errorf("%v %+v", err, report)
		}
		b.expect(0)
	})
}

// A message that cannot be sent is not sent again.
func TestStreamMessageAtFault(t *testing.T) {
	run(t, grpcclient.Config{Idempotent: always}, then(codes.OK), func(b *bench) {
		var report retry.Report
		_, err := b.stub.StreamingOutputCall(b.t.Context(), input("question"), grpc.MaxCallSendMsgSize(1), grpcclient.Report(&report))
		if status.Code(err) != codes.ResourceExhausted || report.Attempts != 1 || report.Reason != retry.ReasonPermanent {
			b.t.Errorf("%v %+v", err, report)
		}
	})
}

// Header and RecvMsg both see a connection break; the stream is opened again
// once.
func TestHeaderAndRecvSeeItBreak(t *testing.T) {
	var b *bench
	var header string
	answer := func(ctx context.Context, n int) error {
		if n == 1 {
			b.drop()
			<-ctx.Done()
			return ctx.Err()
		}
		return grpc.SendHeader(ctx, metadata.Pairs("attempt", "2"))
	}
	run(t, grpcclient.Config{Idempotent: always}, answer, func(made *bench) {
		b = made
		stream, err := b.stub.StreamingOutputCall(b.t.Context(), input("question"))
		if err != nil {
			b.t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			md, err := stream.Header()
			header = text(md["attempt"])
			if err != nil {
				b.t.Error(err)
			}
		})
		if texts, err := all(stream); text(texts) != "[answer 2]" || err != nil {
			b.t.Errorf("%v %v", texts, err)
		}
		wg.Wait()
		if header != "[2]" && header != "[]" {
			b.t.Errorf("header %q", header)
		}
		b.expect(2)
	})
}
