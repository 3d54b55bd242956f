package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/retry"
)

// Part A of cases/client.md: waits and deadlines.

func TestCase_Client_A1_OutageIsFourCalls(t *testing.T) {
	run(t, client.Config{}, status(503), func(b *bench) {
		start := time.Now()
		resp, body, err := b.get()
		if err != nil || resp.StatusCode != 503 || body != "answer" {
			b.t.Fatalf("%v %q %v", resp, body, err)
		}
		b.expect(4)
		r := client.Report(resp)
		if r.Reason != retry.ReasonAttempts || r.Attempts != 4 || r.Status != 503 || len(r.Waits) != 3 || r.Destination != "service" {
			b.t.Errorf("%+v", r)
		}
		for i, w := range r.Waits {
			if w < 0 || w > 500*time.Millisecond<<i {
				b.t.Errorf("wait %d: %v", i, w)
			}
		}
		if took := time.Since(start); took != r.Waited() || took != r.Elapsed || took != r.Repeating {
			b.t.Errorf("took %v, report %+v", took, r)
		}
		for i, got := range b.service.got {
			if a := got.header.Get("Retry-Attempt"); a != fmt.Sprint(i) {
				b.t.Errorf("attempt %d declares %q", i, a)
			}
		}
	})
}

func TestCase_Client_A2_WaitBeyondTheDeadline(t *testing.T) {
	run(t, client.Config{}, status(503, "Retry-After", "60"), func(b *bench) {
		start := time.Now()
		resp, body, err := b.within(20 * time.Second)
		if err != nil || body != "answer" || time.Since(start) > 10*time.Millisecond {
			b.t.Fatalf("%v after %v", err, time.Since(start))
		}
		b.expect(1)
		if r := client.Report(resp); r.Reason != retry.ReasonDeadline || r.RetryAt.Sub(start) != time.Minute {
			b.t.Errorf("%+v", r)
		}
	})
}

func TestCase_Client_A3_A4_FarFuture(t *testing.T) {
	for _, after := range []string{"3600", "9223372037", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		run(t, client.Config{}, status(503, "Retry-After", after), func(b *bench) {
			start := time.Now()
			resp, body, err := b.get()
			if err != nil || body != "answer" || time.Since(start) != 0 {
				b.t.Fatalf("%s: %v after %v", after, err, time.Since(start))
			}
			b.expect(1)
			if r := client.Report(resp); r.Reason != retry.ReasonTooFar || !r.RetryAt.After(start) {
				b.t.Errorf("%s: %+v", after, r)
			}
		})
	}
}

func TestCase_Client_A6_RetryAfterZero(t *testing.T) {
	run(t, client.Config{}, status(503, "Retry-After", "0"), func(b *bench) {
		resp, _, err := b.get()
		if err != nil || client.Report(resp).Reason != retry.ReasonAttempts {
			b.t.Fatal(err)
		}
		b.expect(4)
		if level := b.client.Budgets().Of("service").Level(); level != 7 {
			b.t.Errorf("%v tokens left, want 7", level)
		}
	})
	// At once is not at one instant: the policy's own jitter and floor stay.
	floor := client.Config{Policy: retry.Policy{Floor: 200 * time.Millisecond}, Rand: func() float64 { return 0.5 }}
	run(t, floor, status(503, "Retry-After", "0"), func(b *bench) {
		resp, _, err := b.get()
		if err != nil {
			b.t.Fatal(err)
		}
		for i, w := range client.Report(resp).Waits {
			if want := 200*time.Millisecond + 250*time.Millisecond<<i; w != want {
				b.t.Errorf("wait %d: %v, want %v", i, w, want)
			}
		}
	})
}

func TestCase_Client_A8_DatesCountFromTheResponse(t *testing.T) {
	for _, layout := range []string{http.TimeFormat, "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		answer := func(n int, w http.ResponseWriter, _ *http.Request) {
			if n > 1 {
				return
			}
			server := time.Now().Add(-time.Hour).UTC() // a clock that is an hour off
			reply(w, 503, "", "Date", server.Format(http.TimeFormat), "Retry-After", server.Add(2*time.Second).Format(layout))
		}
		run(t, client.Config{}, answer, func(b *bench) {
			start := time.Now()
			resp, _, err := b.get()
			if took := time.Since(start); err != nil || resp.StatusCode != 200 || took < 2*time.Second || took > 2200*time.Millisecond {
				b.t.Errorf("%s: %v after %v", layout, err, took)
			}
			b.expect(2)
		})
	}
}

// With a ticket the instant is this client's own: it waits exactly, plus at most
// a second, and shows the ticket.
func TestCase_Client_A10_TicketIsWaitedExactly(t *testing.T) {
	for ticket, limit := range map[string]time.Duration{"v1.abc": 11 * time.Second, "": 11 * time.Second} {
		answer := func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				if ticket != "" {
					w.Header().Set("Retry-Ticket", ticket)
				}
				reply(w, 503, "", "Retry-After", "10")
			}
		}
		run(t, client.Config{Rand: func() float64 { return 0.999 }}, answer, func(b *bench) {
			start := time.Now()
			if _, _, err := b.get(); err != nil || time.Since(start) < 10*time.Second || time.Since(start) > limit {
				b.t.Errorf("%v after %v", err, time.Since(start))
			}
			b.expect(2)
			if got := b.service.got[1].header.Get("Retry-Ticket"); got != ticket {
				b.t.Errorf("showed the ticket %q, want %q", got, ticket)
			}
		})
	}
}

func TestCase_Client_A12_NoTimeForASecondAttempt(t *testing.T) {
	// With room for 8.1 s the first attempt may take its 12 s, and leaves 50 ms less.
	run(t, client.Config{Policy: retry.Policy{MaxAttempts: 2, Total: 20 * time.Second, MinAttempt: 8100 * time.Millisecond}},
		func(_ int, w http.ResponseWriter, _ *http.Request) {
			<-time.After(11950 * time.Millisecond)
			reply(w, 503, "late")
		},
		func(b *bench) {
			resp, body, err := b.get()
			if err != nil || body != "late" || client.Report(resp).Reason != retry.ReasonDeadline {
				b.t.Errorf("%q %v", body, err)
			}
			b.expect(1)
		})
}

func TestCase_Client_A14_AttemptTimeout(t *testing.T) {
	hang := func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			<-r.Context().Done()
		}
	}
	run(t, client.Config{}, hang, func(b *bench) {
		start := time.Now()
		resp, _, err := b.get()
		if err != nil || client.Report(resp).Attempts != 2 || time.Since(start) < 12*time.Second || time.Since(start) > 12500*time.Millisecond {
			b.t.Errorf("%v after %v", err, time.Since(start))
		}
	})
	run(t, client.Config{}, hang, func(b *bench) {
		_, _, err := b.do(request(b.t, b.t.Context(), "POST", nil))
		gave, ok := errors.AsType[*retry.Error](err)
		if !ok || gave.Report.Reason != retry.ReasonNotIdempotent || !errors.Is(err, context.DeadlineExceeded) || !gave.Timeout() {
			b.t.Errorf("%v", err)
		}
		b.expect(1)
	})
}

func TestCase_Client_A15_CancelledWhileWaiting(t *testing.T) {
	run(t, client.Config{}, status(503, "Retry-After", "10"), func(b *bench) {
		why := errors.New("the user left")
		ctx, cancel := context.WithCancelCause(b.t.Context())
		time.AfterFunc(3*time.Second, func() { cancel(why) })
		start := time.Now()
		_, _, err := b.do(request(b.t, ctx, "GET", nil))
		gave, ok := errors.AsType[*retry.Error](err)
		if !ok || time.Since(start) != 3*time.Second || !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
			b.t.Fatalf("%v after %v", err, time.Since(start))
		}
		if gave.Report.Status != 503 || gave.Report.Reason != retry.ReasonContext {
			b.t.Errorf("%+v", gave.Report)
		}
		b.expect(1)
	})
}

func TestCase_Client_A16_ContextAlreadyOver(t *testing.T) {
	run(t, client.Config{}, status(200), func(b *bench) {
		ctx, cancel := context.WithDeadline(b.t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		_, _, err := b.do(request(b.t, ctx, "GET", nil))
		gave, ok := errors.AsType[*retry.Error](err)
		if !ok || !errors.Is(err, context.DeadlineExceeded) || gave.Report.Reason != retry.ReasonContext {
			b.t.Errorf("%v", err)
		}
		b.expect(0)
	})
	run(t, client.Config{}, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(b *bench) {
		_, _, err := b.within(time.Second) // less than the share of an attempt would leave room for
		if !errors.Is(err, context.DeadlineExceeded) {
			b.t.Errorf("%v", err)
		}
	})
}

func TestCase_Client_A18_CancelledWaits(t *testing.T) {
	run(t, client.Config{Policy: retry.Policy{Total: 2 * time.Hour, RetryAfterMax: 2 * time.Hour}, Budget: big},
		status(503, "Retry-After", "3600"), func(b *bench) {
			ctx, cancel := context.WithCancel(b.t.Context())
			failed := make(chan error)
			for range 1000 {
				go func() {
					_, err := b.http.Do(request(b.t, ctx, "GET", nil))
					failed <- err
				}()
			}
			synctest.Wait()
			start := time.Now()
			cancel()
			for range 1000 {
				if err := <-failed; !errors.Is(err, context.Canceled) {
					b.t.Fatal(err)
				}
			}
			if took := time.Since(start); took != 0 {
				b.t.Errorf("took %v", took)
			}
		})
}
