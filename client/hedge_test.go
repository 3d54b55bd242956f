package client_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/retry"
)

// Two attempts that both fail: whatever the server said counts, whichever heard it.
func TestHedgeKeepsTheServersWord(t *testing.T) {
	type answer func(w http.ResponseWriter)
	says := func(code int, body string, header ...string) answer {
		return func(w http.ResponseWriter) { reply(w, code, body, header...) }
	}
	reset := answer(func(http.ResponseWriter) { panic(http.ErrAbortHandler) })
	for _, c := range []struct {
		name         string
		first, hedge answer
		calls        int
		body         string        // that is handed over
		reason       retry.Reason  // none: it was repeated
		wait         time.Duration // at least
		ticket       string
	}{
		{"a wait, then a reset", says(503, "busy", "Retry-After", "10"), reset, 3, "answer", retry.ReasonNone, 10 * time.Second, ""},
		{"a reset, then a wait", reset, says(503, "busy", "Retry-After", "10"), 3, "answer", retry.ReasonNone, 10 * time.Second, ""},
		{"a stop, then a reset", says(503, "no", "X-Should-Retry", "false"), reset, 2, "no", retry.ReasonServer, 0, ""},
		{"a stop, then a failure", says(503, "no", "X-Should-Retry", "false"), says(500, "oops"), 2, "no", retry.ReasonServer, 0, ""},
		{"a failure, then a stop", says(500, "oops"), says(503, "no", "X-Should-Retry", "false"), 2, "no", retry.ReasonServer, 0, ""},
		{"the longer wait first", says(503, "a", "Retry-After", "10", "Retry-Ticket", "ten"), says(503, "b", "Retry-After", "5", "Retry-Ticket", "five"), 3, "answer", retry.ReasonNone, 10 * time.Second, "ten"},
		{"the longer wait last", says(503, "a", "Retry-After", "5", "Retry-Ticket", "five"), says(503, "b", "Retry-After", "10", "Retry-Ticket", "ten"), 3, "answer", retry.ReasonNone, 10 * time.Second, "ten"},
		{"a wait beyond the deadline", says(503, "long", "Retry-After", "30"), says(503, "b"), 2, "long", retry.ReasonDeadline, 0, ""},
		{"what no repeat changes", says(501, "never"), says(503, "b"), 2, "b", retry.ReasonPermanent, 0, ""},
		{"an answer, then a reset", says(501, "never"), reset, 2, "never", retry.ReasonPermanent, 0, ""},
		{"a good answer at last", says(503, "a", "Retry-After", "10"), says(404, "gone"), 2, "gone", retry.ReasonPermanent, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := func(n int, w http.ResponseWriter, _ *http.Request) {
				switch n { // both answer after two seconds, the first one first
				case 1:
					<-time.After(2 * time.Second)
					c.first(w)
				case 2:
					<-time.After(1900 * time.Millisecond)
					c.hedge(w)
				default:
					reply(w, 200, "answer")
				}
			}
			run(t, client.Config{Hedge: client.Hedge{After: 200 * time.Millisecond}}, server, func(b *bench) {
				resp, body, err := b.get()
				if err != nil || body != c.body {
					b.t.Fatalf("%q %v", body, err)
				}
				b.expect(c.calls)
				r := client.Report(resp)
				if r.Reason != c.reason || r.Waited() < c.wait || r.Hedges != 1 || r.Attempts != c.calls || r.Status != resp.StatusCode {
					b.t.Errorf("%+v", r)
				}
				if c.calls == 3 {
					if got := b.service.seen()[2].header.Get("Retry-Ticket"); got != c.ticket {
						b.t.Errorf("showed the ticket %q, want %q", got, c.ticket)
					}
				}
			})
		})
	}
}

// The switch is heard from an answer that does not count, too.
func TestHedgeHearsTheSwitch(t *testing.T) {
	var told []string
	config := client.Config{Hedge: client.Hedge{After: 200 * time.Millisecond}, Told: func(_, policy string) { told = append(told, policy) }}
	server := func(n int, w http.ResponseWriter, _ *http.Request) {
		<-time.After(time.Second)
		if n == 1 {
			reply(w, 503, "busy", "Retry-Policy", "max=1;ttl=600")
			return
		}
		reply(w, 200, "answer")
	}
	run(t, config, server, func(b *bench) {
		if _, body, err := b.get(); err != nil || body != "answer" || len(told) != 1 || told[0] != "max=1;ttl=600" {
			b.t.Errorf("%q %v, told %q", body, err, told)
		}
	})
}

// A nested call makes one attempt: no repeat, and no hedge either.
func TestNestedIsNotHedged(t *testing.T) {
	slow := func(_ int, w http.ResponseWriter, _ *http.Request) {
		<-time.After(time.Second)
		reply(w, 200, "answer")
	}
	run(t, client.Config{Hedge: client.Hedge{After: 100 * time.Millisecond}}, slow, func(b *bench) {
		start := time.Now()
		if _, _, err := b.do(request(b.t, b.t.Context(), "GET", nil, "Retry-Attempt", "0")); err != nil || time.Since(start) != time.Second {
			b.t.Errorf("%v after %v", err, time.Since(start))
		}
		b.expect(1)
		if _, _, err := b.do(request(b.t, b.t.Context(), "GET", nil)); err != nil {
			b.t.Error(err)
		}
		b.expect(3) // the same, not nested
	})
}

// The hedge is paid for by the budget, and its token comes back only if it was
// the one that succeeded.
func TestHedgeIsPaidFor(t *testing.T) {
	for name, c := range map[string]struct {
		first, second time.Duration
		want          float64
	}{"first wins": {time.Second, time.Hour, 9.1}, "hedge wins": {time.Hour, time.Second, 10}} {
		t.Run(name, func(t *testing.T) {
			server := func(n int, w http.ResponseWriter, r *http.Request) {
				d := c.first
				if n == 2 {
					d = c.second
				}
				select {
				case <-time.After(d):
					reply(w, 200, "answer")
				case <-r.Context().Done():
				}
			}
			run(t, client.Config{Hedge: client.Hedge{After: 100 * time.Millisecond}}, server, func(b *bench) {
				if _, _, err := b.do(request(b.t, b.t.Context(), "PUT", strings.NewReader("x"))); err != nil {
					b.t.Fatal(err)
				}
				if level := b.client.Budgets().Of("service").Level(); level != c.want {
					b.t.Errorf("%v tokens, want %v", level, c.want)
				}
				for _, got := range b.service.seen() {
					if got.body != "x" {
						b.t.Errorf("sent %q", got.body)
					}
				}
			})
		})
	}
}
