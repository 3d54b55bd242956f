package client_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/retry"
	"github.com/comporta/comporta/internal/retryafter"
)

// frames are the ways in which a body of JSON can come.
var frames = map[string]func(w http.ResponseWriter, body string){
	"length": func(w http.ResponseWriter, body string) {
		w.WriteHeader(500)
		_, _ = io.WriteString(w, body)
	},
	"chunks": func(w http.ResponseWriter, body string) {
		w.WriteHeader(500)
		for _, c := range body {
			_, _ = io.WriteString(w, string(c))
			_ = http.NewResponseController(w).Flush()
		}
	},
	"gzip that the transport asked for": func(w http.ResponseWriter, body string) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(500)
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, body)
		_ = z.Close()
	},
	"until the connection closes": func(w http.ResponseWriter, body string) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.0 500 x\r\nContent-Type: application/json\r\n\r\n"+body)
		_ = conn.Close()
	},
}

// cases/client.md B5, however the body is framed, and the caller reads all of it.
func TestCase_Client_B5_InAnyFrame(t *testing.T) {
	long := `{"retryable":false,"detail":"` + strings.Repeat("x", retryafter.MaxPeek) + `"}`
	for name, frame := range frames {
		for _, c := range []struct {
			body  string
			calls int
		}{{`{"retryable":false,"detail":"this order breaks us"}`, 1}, {`{"detail":"sorry"}`, 4}, {`{"retryable":false`, 4}, {long, 4}} {
			t.Run(name, func(t *testing.T) {
				answer := func(_ int, w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					frame(w, c.body)
				}
				run(t, client.Config{}, answer, func(b *bench) {
					_, got, err := b.get()
					if err != nil || got != c.body {
						b.t.Errorf("%.60q, %v", got, err)
					}
					b.expect(c.calls)
				})
			})
		}
	}
}

// A body that is slow is not waited for, and reaches the caller whole.
func TestSlowBodyIsNotWaitedFor(t *testing.T) {
	slow := func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(400)
		for _, part := range []string{`{"retryable"`, `:true,`, `"x":1}`} {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
				return
			}
		}
	}
	run(t, client.Config{}, slow, func(b *bench) {
		start := time.Now()
		resp, err := b.http.Do(request(b.t, b.t.Context(), "GET", nil))
		if took := time.Since(start); err != nil || took != 100*time.Millisecond || client.Report(resp).Reason != retry.ReasonPermanent {
			b.t.Fatalf("%v after %v", err, took)
		}
		body, err := io.ReadAll(resp.Body)
		if string(body) != `{"retryable":true,"x":1}` || err != nil || resp.Body.Close() != nil {
			b.t.Errorf("%q %v", body, err)
		}
		resp, err = b.http.Do(request(b.t, b.t.Context(), "GET", nil)) // and may be left unread, while a read is under way
		if err != nil || resp.Body.Close() != nil {
			b.t.Error(err)
		}
	})
	// The same where it is repeated: the connection is given up, and nothing leaks.
	hang := func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(503)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	run(t, client.Config{}, hang, func(b *bench) {
		resp, err := b.http.Do(request(b.t, b.t.Context(), "GET", nil))
		if err != nil {
			b.t.Fatal(err)
		}
		_ = resp.Body.Close()
		b.expect(4)
	})
}
