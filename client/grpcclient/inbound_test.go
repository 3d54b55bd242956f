package grpcclient_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/comporta/comporta/client/grpcclient"
	"github.com/comporta/comporta/client/retry"
)

// cases/client.md D7, for gRPC: a handler's own calls make one attempt when its
// caller repeats, and end before the caller's deadline.
func TestCase_Client_D7_Inbound(t *testing.T) {
	for name, c := range map[string]struct {
		md       []string
		timeout  time.Duration
		nested   bool
		attempt  string
		patience time.Duration // of the inner call, rounded to 10 ms
	}{
		"owner from the first attempt on": {md: []string{"retry-attempt", "0"}, nested: true, attempt: "0", patience: 20 * time.Second},
		"second attempt":                  {md: []string{"retry-attempt", "2"}, nested: true, attempt: "2", patience: 20 * time.Second},
		"grpc's own repeat":               {md: []string{"grpc-previous-rpc-attempts", "1"}, nested: true, attempt: "1", patience: 20 * time.Second},
		"an AWS SDK's first":              {md: []string{"amz-sdk-request", "attempt=1; max=3"}, attempt: "0", patience: 12 * time.Second},
		"nobody":                          {attempt: "0", patience: 12 * time.Second},
		"grpc-timeout":                    {timeout: 10 * time.Second, attempt: "0", patience: 5970 * time.Millisecond},
		"request-timeout-ms":              {md: []string{"request-timeout-ms", "5000", "retry-attempt", "1"}, nested: true, attempt: "1", patience: 4950 * time.Millisecond},
	} {
		for kind, call := range map[string]func(*bench, context.Context) error{"unary": callUnary, "stream": callStream} {
			t.Run(name+", "+kind, func(t *testing.T) {
				run(t, grpcclient.Config{Idempotent: always}, code(codes.Unavailable), func(b *bench) {
					b.service.become(b.handler(t, c.nested))
					ctx := metadata.AppendToOutgoingContext(b.t.Context(), c.md...)
					if c.timeout > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, c.timeout)
						defer cancel()
					}
					b.plain(call, ctx)
					inner := b.service.calls()[1]
					if text(inner.md["retry-attempt"]) != "["+c.attempt+"]" || inner.patience.Round(10*time.Millisecond) != c.patience {
						t.Errorf("%v, %v", inner.md, inner.patience)
					}
				})
			})
		}
	}
}

func callUnary(b *bench, ctx context.Context) error { //nolint:revive // ctx second, as for methods of b
	_, _, err := b.call(ctx)
	return err
}

func callStream(b *bench, ctx context.Context) error { //nolint:revive // as above
	stream, err := b.stub.StreamingOutputCall(ctx, input("question"))
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}

// handler answers the first call by asking the service itself, through the
// envelope, and fails all others.
func (b *bench) handler(t *testing.T, nested bool) func(context.Context, int) error {
	envelope := b.stub
	return func(ctx context.Context, n int) error {
		if n > 1 {
			return refuse(ctx, codes.Unavailable)
		}
		out := &bench{t: b.t, stub: envelope}
		_, report, err := out.call(ctx)
		if report.Nested != nested || (report.Attempts == 1) != nested || err == nil {
			t.Errorf("%+v %v", report, err)
		}
		return nil
	}
}

// plain makes a call without the envelope.
func (b *bench) plain(call func(*bench, context.Context) error, ctx context.Context) { //nolint:revive // as above
	conn, stub := b.conn, b.stub
	envelope := b.client
	b.client = nil
	b.connect()
	b.client = envelope
	if err := call(b, ctx); err != nil {
		b.t.Error(err)
	}
	if err := b.conn.Close(); err != nil {
		b.t.Error(err)
	}
	b.conn, b.stub = conn, stub
}

// What a handler says of coming back is what the client does.
func TestBusyAndFinal(t *testing.T) {
	busy := func(ctx context.Context, n int) error {
		if n == 1 {
			return grpcclient.Busy(ctx, 249*time.Millisecond+1, "busy")
		}
		return grpcclient.Final(ctx, status.Error(codes.Unavailable, "never"))
	}
	run(t, grpcclient.Config{Idempotent: always}, busy, func(b *bench) {
		_, report, err := b.call(b.t.Context())
		if report.Attempts != 2 || report.Waits[0] != 250*time.Millisecond || report.Reason != retry.ReasonServer {
			b.t.Errorf("%+v", report)
		}
		if st := status.Convert(err); st.Code() != codes.Unavailable || st.Message() != "never" {
			b.t.Error(err)
		}
	})
	run(t, grpcclient.Config{Idempotent: always}, busy, func(b *bench) {
		stream, err := b.stub.StreamingOutputCall(b.t.Context(), input("question"))
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Convert(err).Message() != "never" {
			b.t.Error(err)
		}
		b.expect(2)
	})
	if err := grpcclient.Busy(t.Context(), -1, "no call"); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "no pushback") {
		t.Error(err)
	}
	if err := grpcclient.Final(t.Context(), nil); err != nil {
		t.Error(err)
	}
	sentinel := errors.New("sentinel")
	if err := grpcclient.Final(t.Context(), sentinel); !errors.Is(err, sentinel) {
		t.Error(err)
	}
}
