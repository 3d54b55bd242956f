package grpcclient_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/client/grpcclient"
	"github.com/comporta/comporta/client/retry"
)

// fill takes the only place of the bulkhead, until it is given back.
func (b *bench) fill() bulkhead.Permit {
	b.t.Helper()
	permit, ok := b.client.Bulkhead("passthrough:///service").TryAcquire()
	if !ok {
		b.t.Fatal("the bulkhead is full already")
	}
	return permit
}

// cases/client.md D11: a token pays for a repeat that is made, and for nothing else.
func TestCase_Client_D11_TokensOfRepeatsThatWereNotMade(t *testing.T) {
	for name, c := range map[string]struct {
		config grpcclient.Config
		during func(b *bench) // what happens in the wait
		reason retry.Reason
	}{
		"refused by the breaker": {grpcclient.Config{Breaker: &breaker.Config{Minimum: 4, Open: time.Minute}}, func(b *bench) {
			for range 3 { // failures of others open it
				_, _, _ = b.call(b.t.Context(), grpcclient.Check(nil))
			}
		}, retry.ReasonBreaker},
		"refused by the bulkhead": {grpcclient.Config{Bulkhead: &bulkhead.Config{Limit: 1}}, func(b *bench) { b.fill() }, retry.ReasonBulkhead},
		"cancelled in the wait":   {grpcclient.Config{}, nil, retry.ReasonContext},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, c.config, code(codes.Unavailable, "grpc-retry-pushback-ms", "10000"), func(b *bench) {
				ctx, cancel := context.WithCancel(b.t.Context())
				defer cancel()
				var report retry.Report
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, report, _ = b.call(ctx, grpcclient.Idempotent())
				}()
				<-time.After(5 * time.Second)
				bucket := b.client.Budgets().Of("service")
				if level := bucket.Level(); level != 9 {
					b.t.Errorf("%v tokens in the wait, want 9", level)
				}
				if c.during == nil {
					cancel()
				} else {
					c.during(b)
				}
				<-ended
				if level := bucket.Level(); level != 10 || report.Reason != c.reason || report.Attempts != 1 {
					b.t.Errorf("%v tokens after %+v, want 10: no repeat went out", level, report)
				}
			})
		})
	}
}

// A probe of the breaker that the bulkhead refuses leaves its place to the next.
func TestCase_Client_D11_ProbeRefusedByTheBulkhead(t *testing.T) {
	config := grpcclient.Config{
		Breaker: &breaker.Config{Minimum: 1, ProbeTimeout: time.Hour}, Bulkhead: &bulkhead.Config{Limit: 1},
	}
	run(t, config, then(codes.Unavailable, codes.OK), func(b *bench) {
		_, _, _ = b.call(b.t.Context()) // opens the breaker
		<-time.After(time.Minute)
		permit := b.fill()
		if _, report, err := b.call(b.t.Context()); !errors.Is(err, bulkhead.ErrFull) || report.Attempts != 0 {
			b.t.Errorf("%v, want a full bulkhead", err)
		}
		permit.Release()
		if _, _, err := b.call(b.t.Context()); err != nil {
			b.t.Errorf("%v: the probe's place was lost", err)
		}
	})
}

// cases/client.md D4: below a layer that counts it a success earns nothing more.
func TestCase_Client_D4_NestedLayersEarnOnce(t *testing.T) {
	run(t, grpcclient.Config{}, then(codes.OK), func(b *bench) {
		bucket := b.client.Budgets().Of("service")
		for bucket.Withdraw() {
		}
		for range 10 {
			err := retry.Do(b.t.Context(), "grpcclient-d4", func(ctx context.Context) error {
				_, _, err := b.call(ctx)
				return err
			})
			if err != nil {
				b.t.Fatal(err)
			}
		}
		if level := bucket.Level(); level != 0 {
			b.t.Errorf("it earned %v tokens", level)
		}
	})
}
