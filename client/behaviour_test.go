package client_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/retry"
)

func TestHedge(t *testing.T) {
	slowFirst := func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			select {
			case <-time.After(5 * time.Second):
			case <-r.Context().Done():
				return
			}
		}
		reply(w, 200, "answer")
	}
	config := client.Config{Hedge: client.Hedge{After: 200 * time.Millisecond}}
	run(t, config, slowFirst, func(b *bench) {
		start := time.Now()
		resp, _, err := b.get()
		if r := client.Report(resp); err != nil || time.Since(start) != 200*time.Millisecond || r.Attempts != 2 || r.Hedges != 1 {
			b.t.Errorf("%v after %v", err, time.Since(start))
		}
		if level := b.client.Budgets().Of("service").Level(); level != 10 {
			b.t.Errorf("%v tokens, want the hedge's back", level)
		}
	})
	run(t, config, slowFirst, func(b *bench) { // not idempotent
		start := time.Now()
		if _, _, err := b.do(request(b.t, b.t.Context(), "POST", strings.NewReader("x"))); err != nil || time.Since(start) != 5*time.Second {
			b.t.Errorf("%v after %v", err, time.Since(start))
		}
		b.expect(1)
	})
	run(t, config, slowFirst, func(b *bench) { // not paid for
		for b.client.Budgets().Of("service").Withdraw() {
		}
		start := time.Now()
		if _, _, err := b.get(); err != nil || time.Since(start) != 5*time.Second {
			b.t.Errorf("%v after %v", err, time.Since(start))
		}
		b.expect(1)
	})
	bothFail := func(n int, w http.ResponseWriter, _ *http.Request) {
		if n <= 2 {
			<-time.After(time.Second)
			w.WriteHeader(503)
		}
	}
	config.Bulkhead = &bulkhead.Config{Limit: 2}
	run(t, config, func(n int, w http.ResponseWriter, r *http.Request) { bothFail((n-1)%3+1, w, r) }, func(b *bench) {
		for range 3 { // no permit of the one that did not count is lost
			if resp, _, err := b.get(); err != nil || resp.StatusCode != 200 {
				b.t.Errorf("%v", err)
			}
		}
	})
	config.Bulkhead = nil
	run(t, config, bothFail, func(b *bench) {
		if resp, _, err := b.get(); err != nil || resp.StatusCode != 200 || client.Report(resp).Attempts != 3 {
			b.t.Errorf("%v", err)
		}
		b.expect(3)
	})
}

// One Total and one key for all hops of a redirect.
func TestRedirectsStayOneOperation(t *testing.T) {
	answer := func(n int, w http.ResponseWriter, r *http.Request) {
		<-time.After(8 * time.Second)
		http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
	}
	run(t, client.Config{AutoKey: true}, answer, func(b *bench) {
		start := time.Now()
		_, _, err := b.do(request(b.t, b.t.Context(), "POST", strings.NewReader("x")))
		if took := time.Since(start); err == nil || took > retry.DefaultTotal+time.Millisecond {
			b.t.Errorf("%v after %v", err, took)
		}
		hops := b.service.seen()
		for _, got := range hops[1:] {
			if got.header.Get("Idempotency-Key") != hops[0].header.Get("Idempotency-Key") {
				b.t.Error("a hop has another key")
			}
		}
	})
}

// The seven lines of what is worth watching.
func TestTrace(t *testing.T) {
	var attempts []client.Attempt
	var reports []retry.Report
	replayed := 0
	config := client.Config{Version: "acme/1.0.0", Trace: client.Trace{
		Attempted: func(a client.Attempt) { attempts = append(attempts, a) },
		Finished:  func(r retry.Report) { reports = append(reports, r) },
		Replayed:  func(string) { replayed++ },
	}}
	answer := func(n int, w http.ResponseWriter, _ *http.Request) {
		<-time.After(time.Second)
		switch n {
		case 1:
			w.WriteHeader(429)
		case 2:
			w.WriteHeader(503)
		default:
			w.Header().Set("Idempotency-Replayed", "true")
		}
	}
	run(t, config, answer, func(b *bench) {
		if _, _, err := b.get(); err != nil {
			b.t.Fatal(err)
		}
		if len(attempts) != 3 || attempts[0].Status != 429 || attempts[1].Status != 503 || attempts[2].Number != 3 ||
			attempts[0].Took != time.Second || attempts[0].Version != "acme/1.0.0" || attempts[0].Destination != "service" {
			b.t.Errorf("%+v", attempts)
		}
		r := reports[0]
		if len(reports) != 1 || !r.Succeeded() || r.Attempts != 3 || r.Repeating != r.Waited()+2*time.Second || r.Version != "acme/1.0.0" || replayed != 1 {
			b.t.Errorf("%+v, replayed %d", r, replayed)
		}
	})
}

// The Timeout of the http.Client that is wrapped bounds the operation, whether it
// was set before or is set after.
func TestTimeoutOfTheClientBoundsAll(t *testing.T) {
	run(t, client.Config{}, status(503, "Retry-After", "3"), func(b *bench) {
		b.http = b.client.HTTP(&http.Client{Transport: b.wire, Timeout: 5 * time.Second})
		start := time.Now()
		resp, _, err := b.get()
		if err != nil || client.Report(resp).Reason != retry.ReasonDeadline || time.Since(start) > 5*time.Second {
			b.t.Errorf("%v after %v", err, time.Since(start))
		}
		b.expect(2)
	})
	hop := func(_ int, w http.ResponseWriter, r *http.Request) { // the hops together, and the body of the last
		<-time.After(time.Second)
		if r.URL.Path != "/end" {
			http.Redirect(w, r, "/end", http.StatusFound)
			return
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	for _, streaming := range []bool{false, true} {
		run(t, client.Config{Streaming: streaming}, hop, func(b *bench) {
			b.http = b.client.HTTP(&http.Client{Transport: b.wire, Timeout: 5 * time.Second})
			start := time.Now()
			resp, err := b.http.Do(request(b.t, b.t.Context(), "GET", nil))
			if err != nil {
				b.t.Fatal(err)
			}
			_, err = io.ReadAll(resp.Body)
			var timeout interface{ Timeout() bool }
			if took := time.Since(start); took != 5*time.Second || !errors.As(err, &timeout) || !timeout.Timeout() {
				b.t.Errorf("streaming %t: %v after %v", streaming, err, took)
			}
			_ = resp.Body.Close()
		})
	}
	run(t, client.Config{}, status(503, "Retry-After", "3"), func(b *bench) {
		b.http.Timeout = 5 * time.Second
		start := time.Now()
		resp, _, err := b.get()
		if err != nil || client.Report(resp).Reason != retry.ReasonDeadline || time.Since(start) > 5*time.Second {
			b.t.Errorf("%v after %v", err, time.Since(start))
		}
		b.expect(2)
	})
}

func TestNewNamesEveryProblem(t *testing.T) {
	_, err := client.New(client.Config{
		Version: "acme", Margin: -1, Hedge: client.Hedge{After: time.Hour}, Policy: retry.Policy{MaxAttempts: -1},
		Breaker: &breaker.Config{Probes: -1}, Bulkhead: &bulkhead.Config{Queue: -1},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{"Version:", "Margin:", "Hedge.After:", "MaxAttempts:", "Probes:", "Queue:", "Bulkhead.Limit:"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%v\ndoes not name %s", err, field)
		}
	}
}

func TestReportOfAForeignResponse(t *testing.T) {
	if r := client.Report(nil); r.Attempts != 0 {
		t.Error("a report of nothing")
	}
	if r := client.Report(&http.Response{Request: request(t, t.Context(), "GET", nil)}); r.Attempts != 0 {
		t.Error("a report of a response that never came through")
	}
}
