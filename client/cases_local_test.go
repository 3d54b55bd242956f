package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/retry"
)

// Part D11 of cases/client.md, in full: what is refused on this side of the network
// is no call, no failure of the server's, and costs no budget.

// failing is a body that can be read once only.
func failing(t *testing.T, ctx context.Context) *http.Request { //nolint:revive // t first, as in all helpers
	t.Helper()
	req := request(t, ctx, "PUT", strings.NewReader("x"))
	req.GetBody = func() (io.ReadCloser, error) { return nil, io.ErrUnexpectedEOF }
	return req
}

func TestCase_Client_D11_TokensOfRepeatsThatWereNotMade(t *testing.T) {
	shut := func(b *bench) { // three failures of others open the breaker
		for range 3 {
			resp, _, err := b.do(request(b.t, b.t.Context(), "POST", nil))
			if err != nil || resp.StatusCode != 503 {
				b.t.Errorf("%v", err)
			}
		}
	}
	fill := func(b *bench) { // a body that is not closed holds the only permit
		resp, err := b.http.Do(request(b.t, b.t.Context(), "POST", nil))
		if err != nil {
			b.t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() { _ = resp.Body.Close() })
	}
	for name, c := range map[string]struct {
		config client.Config
		during func(b *bench) // what happens in the wait
		make   func(b *bench, ctx context.Context) *http.Request
		reason retry.Reason
		calls  int
	}{
		"refused by the breaker":  {client.Config{Breaker: &breaker.Config{Minimum: 4, Open: time.Minute}}, shut, nil, retry.ReasonBreaker, 4},
		"refused by the bulkhead": {client.Config{Bulkhead: &bulkhead.Config{Limit: 1}}, fill, nil, retry.ReasonBulkhead, 2},
		"cancelled in the wait":   {client.Config{}, nil, nil, retry.ReasonContext, 1},
		"the body cannot be sent again": {client.Config{}, func(*bench) {}, func(b *bench, ctx context.Context) *http.Request {
			return failing(b.t, ctx)
		}, retry.ReasonNotReplayable, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var told []retry.Report
			c.config.Trace.Finished = func(r retry.Report) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, r)
			}
			run(t, c.config, status(503, "Retry-After", "10"), func(b *bench) {
				ctx, cancel := context.WithCancel(b.t.Context())
				defer cancel()
				req := request(b.t, ctx, "GET", nil)
				if c.make != nil {
					req = c.make(b, ctx)
				}
				ended := make(chan error)
				go func() {
					resp, _, err := b.do(req)
					if err == nil {
						err = errors.New(resp.Status)
					}
					ended <- err
				}()
				<-time.After(5 * time.Second)
				if c.during == nil {
					cancel()
				} else {
					c.during(b)
				}
				gave, ok := errors.AsType[*retry.Error](<-ended)
				if !ok || gave.Report.Reason != c.reason || gave.Report.Attempts != 1 {
					b.t.Errorf("%+v", gave)
				}
				if level := b.client.Budgets().Of("service").Level(); level != 10 {
					b.t.Errorf("%v tokens, want 10: no repeat went out", level)
				}
				b.expect(c.calls)
				if last := told[len(told)-1]; last.Attempts != 1 || last.Reason != c.reason {
					b.t.Errorf("told %+v", last)
				}
				<-time.After(time.Hour)
			})
		})
	}
}

// A question to the server is a call too: it is what the token pays for.
func TestCase_Client_D11_TheQuestionIsPaidFor(t *testing.T) {
	run(t, client.Config{}, status(503), func(b *bench) {
		ctx := client.WithCheck(b.t.Context(), func(context.Context) (retry.Fate, error) { return retry.FateUnknown, nil })
		if _, _, err := b.do(request(b.t, ctx, "POST", nil)); err == nil {
			b.t.Error("nobody knows, and it was repeated")
		}
		if level := b.client.Budgets().Of("service").Level(); level != 9 {
			b.t.Errorf("%v tokens, want 9", level)
		}
	})
	run(t, client.Config{}, status(503), func(b *bench) { // also if no time is left for the repeat
		ctx := client.WithCheck(b.t.Context(), func(ctx context.Context) (retry.Fate, error) {
			<-ctx.Done()
			return retry.FateNotDone, nil
		})
		if _, _, err := b.do(request(b.t, ctx, "POST", nil)); err == nil {
			b.t.Error("repeated after the deadline")
		}
		if level := b.client.Budgets().Of("service").Level(); level != 9 {
			b.t.Errorf("%v tokens, want 9", level)
		}
	})
}

// An operation that something local refused made no attempt.
func TestCase_Client_D11_NoAttemptWasMade(t *testing.T) {
	var told []retry.Report
	config := client.Config{Breaker: &breaker.Config{Minimum: 2}, Trace: client.Trace{Finished: func(r retry.Report) { told = append(told, r) }}}
	run(t, config, status(500), func(b *bench) {
		// The breaker opens at the second failure: the first operation made two
		// attempts, the second none.
		_, _, first := b.get()
		_, _, second := b.get()
		b.expect(2)
		for i, err := range []error{first, second} {
			gave, ok := errors.AsType[*retry.Error](err)
			if i == 0 && err == nil {
				continue // with the last answer
			}
			if !ok || gave.Report.Attempts != []int{2, 0}[i] || !errors.Is(err, breaker.ErrOpen) {
				b.t.Errorf("operation %d: %v", i, err)
			}
		}
		if len(told) != 2 || told[0].Attempts != 2 || told[1].Attempts != 0 {
			b.t.Errorf("told %+v", told)
		}
	})
}

// A hedge that something local refuses is none.
func TestCase_Client_D11_HedgeRefusedHere(t *testing.T) {
	slow := func(_ int, w http.ResponseWriter, _ *http.Request) {
		<-time.After(time.Second)
		reply(w, 200, "answer")
	}
	for name, limit := range map[string]bulkhead.Config{"no room": {Limit: 1}, "a queue": {Limit: 1, Queue: 5}} {
		t.Run(name, func(t *testing.T) {
			refused := 0
			config := client.Config{
				Bulkhead: &limit, Hedge: client.Hedge{After: 100 * time.Millisecond},
				Trace: client.Trace{Refused: func(string, error) { refused++ }},
			}
			run(t, config, slow, func(b *bench) {
				start := time.Now()
				resp, _, err := b.get()
				if r := client.Report(resp); err != nil || r.Attempts != 1 || r.Hedges != 0 || time.Since(start) != time.Second {
					b.t.Errorf("%v, %+v", err, r)
				}
				if level := b.client.Budgets().Of("service").Level(); level != 10 || refused != 1 {
					b.t.Errorf("%v tokens, refused %d times", level, refused)
				}
				b.expect(1)
				if _, _, err := b.get(); err != nil { // the permit is back
					b.t.Error(err)
				}
			})
		})
	}
}

// A probe of the breaker that the bulkhead refuses leaves its place to the next.
func TestCase_Client_D11_ProbeRefusedByTheBulkhead(t *testing.T) {
	config := client.Config{
		Breaker: &breaker.Config{Minimum: 1, ProbeTimeout: time.Hour}, Bulkhead: &bulkhead.Config{Limit: 1},
		Policy: retry.Policy{MaxAttempts: 1}, Streaming: true,
	}
	run(t, config, then(500, 200), func(b *bench) {
		held, err := b.http.Do(request(b.t, b.t.Context(), "GET", nil)) // opens the breaker, and its body the permit
		if err != nil {
			b.t.Fatal(err)
		}
		if _, _, err := b.get(); !errors.Is(err, breaker.ErrOpen) {
			b.t.Errorf("%v, want an open breaker", err)
		}
		<-time.After(time.Minute)
		if _, _, err := b.get(); !errors.Is(err, bulkhead.ErrFull) {
			b.t.Errorf("%v, want a full bulkhead", err)
		}
		_ = held.Body.Close()
		if _, _, err := b.get(); err != nil {
			b.t.Errorf("%v: the probe's place was lost", err)
		}
	})
}

// An attempt that waited for its permit is not counted before it has it.
func TestBulkheadQueue(t *testing.T) {
	slow := func(_ int, w http.ResponseWriter, _ *http.Request) {
		<-time.After(time.Second)
		reply(w, 200, "answer")
	}
	var took []time.Duration
	config := client.Config{
		Bulkhead: &bulkhead.Config{Limit: 1, Queue: 1},
		Trace:    client.Trace{Attempted: func(a client.Attempt) { took = append(took, a.Took) }},
	}
	run(t, config, slow, func(b *bench) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _, _ = b.get()
		}()
		synctest.Wait()
		start := time.Now()
		resp, _, err := b.get()
		if r := client.Report(resp); err != nil || r.Attempts != 1 || r.Elapsed != 2*time.Second || time.Since(start) != 2*time.Second {
			b.t.Errorf("%v, %+v", err, r)
		}
		<-done
		if len(took) != 2 || took[1] != time.Second {
			b.t.Errorf("attempts took %v: the wait for a permit is none of the server's time", took)
		}
	})
}
