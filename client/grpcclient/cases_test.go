package grpcclient_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/comporta/comporta/client/grpcclient"
	"github.com/comporta/comporta/client/retry"
)

// cases/client.md B13: a pushback that is negative, unreadable or given twice
// means stop, and counts against the budget.
func TestCase_Client_B13_PushbackThatStops(t *testing.T) {
	for name, pairs := range map[string][]string{
		"negative":   {"grpc-retry-pushback-ms", "-1"},
		"unreadable": {"grpc-retry-pushback-ms", "abc"},
		"twice":      {"grpc-retry-pushback-ms", "250", "grpc-retry-pushback-ms", "250"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, grpcclient.Config{Idempotent: always}, code(codes.Unavailable, pairs...), func(b *bench) {
				_, report, err := b.call(b.t.Context())
				if err == nil || report.Reason != retry.ReasonServer || report.Attempts != 1 {
					b.t.Errorf("%+v %v", report, err)
				}
				if level := b.client.Budgets().Of("service").Level(); level != 9 {
					b.t.Errorf("%v tokens, want 9: it counts against the budget", level)
				}
				b.expect(1)
			})
		})
	}
}

// cases/client.md B13: 250 is waited to the millisecond, then back-off restarts.
func TestCase_Client_B13_PushbackIsExactAndRestarts(t *testing.T) {
	answer := func(ctx context.Context, n int) error {
		if n == 2 {
			return refuse(ctx, codes.Unavailable, "grpc-retry-pushback-ms", "250")
		}
		return refuse(ctx, codes.Unavailable)
	}
	almostOne := func() float64 { return 0.999999 }
	run(t, grpcclient.Config{Idempotent: always, Rand: almostOne}, answer, func(b *bench) {
		_, report, _ := b.call(b.t.Context())
		calls := b.service.calls()
		if len(calls) != 4 || len(report.Waits) != 3 {
			b.t.Fatalf("%d calls, %+v", len(calls), report)
		}
		if d := calls[2].at.Sub(calls[1].at); d != 250*time.Millisecond {
			b.t.Errorf("came after %v, want exactly 250ms", d)
		}
		for i, want := range []time.Duration{500 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond} {
			if got := report.Waits[i].Round(time.Millisecond); got != want {
				b.t.Errorf("wait %d: %v, want %v", i, got, want)
			}
		}
	})
}
