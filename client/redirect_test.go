package client_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/retry"
)

// All hops of a redirect together repeat no more than one request would, and the
// report tells of all of them.
func TestRedirectsShareTheAttempts(t *testing.T) {
	answer := func(n int, w http.ResponseWriter, r *http.Request) {
		if n%3 == 0 { // each hop fails twice before it leads on
			http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
			return
		}
		reply(w, 503, "answer", "Retry-After", "1")
	}
	var parts []retry.Report
	config := client.Config{Budget: big, Trace: client.Trace{Finished: func(r retry.Report) { parts = append(parts, r) }}}
	run(t, config, answer, func(b *bench) {
		start := time.Now()
		resp, body, err := b.get()
		if err != nil || body != "answer" {
			b.t.Fatalf("%q %v", body, err)
		}
		// Two repeats at the first hop leave one for the second.
		b.expect(5)
		r := client.Report(resp)
		if r.Attempts != 5 || len(r.Waits) != 3 || r.Reason != retry.ReasonAttempts || r.Elapsed != time.Since(start) ||
			r.Repeating != r.Waited() || r.RetryAt.IsZero() {
			b.t.Errorf("%+v after %v", r, time.Since(start))
		}
		if len(parts) != 2 || parts[0].Attempts != 3 || parts[1].Attempts != 2 || parts[0].Elapsed+parts[1].Elapsed != r.Elapsed {
			b.t.Errorf("told %+v", parts)
		}
		if got := b.service.seen()[3].header.Get("Retry-Attempt"); got != "0" {
			b.t.Errorf("the first request to the second place declares %q", got)
		}
	})
}

// An error at the last hop carries the report of all of them.
func TestRedirectIntoAFault(t *testing.T) {
	run(t, client.Config{}, func(_ int, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://nobody/", http.StatusTemporaryRedirect)
	}, func(b *bench) {
		_, _, err := b.get()
		gave, ok := errors.AsType[*retry.Error](err)
		if !ok || gave.Report.Attempts != 5 || gave.Report.Destination != "nobody" {
			b.t.Errorf("%v", err)
		}
	})
}

// A name that is written otherwise is the same host, and has the same budget.
func TestHostsAreToldApartBySpelling(t *testing.T) {
	run(t, client.Config{}, status(503), func(b *bench) {
		for _, host := range []string{"service", "Service", "SERVICE"} {
			req := request(b.t, b.t.Context(), "GET", nil)
			req.URL.Host = host
			if resp, _, err := b.do(req); err == nil && client.Report(resp).Destination != "service" {
				b.t.Errorf("%+v", client.Report(resp))
			}
		}
		if level := b.client.Budgets().Of("service").Level(); level != 1 {
			b.t.Errorf("%v tokens, want 1 after nine repeats", level)
		}
	})
}

// The caller's key is found however its name is written.
func TestKeyInAnotherSpelling(t *testing.T) {
	run(t, client.Config{AutoKey: true}, status(503), func(b *bench) {
		req := request(b.t, b.t.Context(), "POST", strings.NewReader("x"))
		req.Header["idempotency-key"] = []string{"mine"}
		if _, _, err := b.do(req); err != nil {
			b.t.Error(err)
		}
		b.expect(4) // a key makes it repeatable
		for _, got := range b.service.seen() {
			if keys := got.header["Idempotency-Key"]; len(keys) != 1 || keys[0] != "mine" {
				b.t.Errorf("keys %q", keys)
			}
		}
	})
}
