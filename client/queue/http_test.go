package queue

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/internal/memhttp"
)

// post makes the request of an item.
func post(url string) func(context.Context, Item) (*http.Request, error) {
	return func(ctx context.Context, item Item) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(item.Payload))
	}
}

func TestHTTPReadsTheAnswer(t *testing.T) {
	const no, yes = `{"retryable": false}`, `{"repetivel": true}`
	for _, c := range []struct {
		name   string
		status int
		header map[string]string
		body   string
		fate   Fate
		wait   time.Duration
	}{
		{"created", 201, nil, "", Done, 0},
		{"replayed", 200, map[string]string{"Idempotency-Replayed": "true"}, "", Done, 0},
		{"see elsewhere", 304, nil, "", Never, 0},
		{"invalid", 422, nil, "", Never, 0},
		{"gone", 410, nil, "", Never, 0},
		{"busy", 503, map[string]string{"Retry-After": "37"}, "", Again, 37 * time.Second},
		{"busy, exactly", 503, map[string]string{"Retry-After": "37", "Retry-After-Ms": "36412"}, "", Again, 36412 * time.Millisecond},
		{"forty digits", 503, map[string]string{"Retry-After": strings.Repeat("9", 40)}, "", Again, LargestWait},
		{"words", 503, map[string]string{"Retry-After": "soon"}, "", Again, 0},
		{"still running", 409, map[string]string{"Retry-After": "2"}, "", Again, 2 * time.Second},
		{"failed for good", 500, nil, no, Never, 0},
		{"failed for good, by header", 500, map[string]string{"X-Should-Retry": "false"}, "", Never, 0},
		{"stop wins", 503, map[string]string{"X-Should-Retry": "false", "Retry-After": "5"}, yes, Never, 0},
		{"worth another try", 422, nil, yes, Again, 0},
		{"endless", 503, nil, strings.Repeat("x", 1<<20), Again, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var network memhttp.Network
			server := network.Serve("service", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					t.Error(err)
				}
				if k, n := r.Header.Get("Idempotency-Key"), r.Header.Get("Retry-Attempt"); k != `"k"` || n != "2" || r.Header.Get("Retry-Ticket") != "v1.t" {
					t.Errorf("header %v", r.Header)
				}
				if c.body != "" {
					w.Header().Set("Content-Type", "application/json")
				}
				for k, v := range c.header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer server.Close()
			client := network.Client()
			defer client.CloseIdleConnections()
			r := HTTP(client, post("http://service/"))(t.Context(), Item{Key: "k", Payload: []byte("x"), Attempts: 2, Ticket: "v1.t"})
			if r.Fate != c.fate || r.Wait != c.wait || (r.Err == nil) != (c.fate == Done) {
				t.Errorf("%+v, want %v after %v", r, c.fate, c.wait)
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestHTTPWithoutAnAnswer(t *testing.T) {
	var network memhttp.Network
	server := network.Serve("resets", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	reset := network.Client()
	defer reset.CloseIdleConnections()
	blind := &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) { return nil, errBusy })}
	broken := &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) { return nil, &breaker.OpenError{} })}
	refused := func(context.Context, Item) (*http.Request, error) { return nil, errors.New("cannot be read") }
	for _, c := range []struct {
		name string
		send Sender
		want Fate
	}{
		{"nobody listens", HTTP(reset, post("http://nobody/")), Offline},
		{"no such name", HTTP(nil, post("http://nobody.invalid/")), Offline},
		{"reset after the request", HTTP(reset, post("http://resets/")), Again},
		{"a transport that tells nothing", HTTP(blind, post("http://service/")), Again},
		{"held back by a breaker", HTTP(broken, post("http://service/")), Offline},
		{"no request can be made", HTTP(blind, refused), Never},
	} {
		if r := c.send(t.Context(), Item{Key: "k"}); r.Fate != c.want || r.Err == nil {
			t.Errorf("%s: %+v, want %v", c.name, r, c.want)
		}
	}
}

// The queue above and the envelope below: each attempt of the queue is one call.
// cases/client.md D5, for the queue as the outermost layer.
func TestTheClientBelowMakesOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network memhttp.Network
		var declared []string
		server := network.Serve("service", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			declared = append(declared, r.Header.Get("Retry-Attempt"))
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		defer server.Close()
		envelope, err := client.New(client.Config{})
		if err != nil {
			t.Fatal(err)
		}
		below := network.Client()
		defer below.CloseIdleConnections()
		q := open(t, Config{MaxAttempts: 5})
		if _, err := q.Enqueue(Entry{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		send := HTTP(&http.Client{Transport: envelope.Transport(below.Transport)}, post("http://service/"))
		if err := q.Run(ctx, send); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if got := strings.Join(declared, " "); got != "0 1 2 3 4" || q.Stats().Dead != 1 {
			t.Errorf("attempts %s, %+v", got, q.Stats())
		}
	})
}

// A network that answers in the server's place has delivered nothing.
func TestCaptivePortal(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		fate   Fate
		asked  string // what the portal saw
	}{
		{"found", 302, Again, "POST /orders"},
		{"see other", 303, Again, "POST /orders"},
		{"moved", 301, Again, "POST /orders"},
		{"login required", 511, Offline, "POST /orders"},
		{"temporary, with the same method", 307, Done, "POST /orders POST /login"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var network memhttp.Network
			var asked []string
			server := network.Serve("service", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked = append(asked, r.Method+" "+r.URL.Path); r.URL.Path != "/login" {
					w.Header().Set("Location", "/login")
					w.WriteHeader(c.status)
				}
			}))
			defer server.Close()
			client := network.Client()
			defer client.CloseIdleConnections()
			r := HTTP(client, post("http://service/orders"))(t.Context(), Item{Key: "k", Payload: []byte("x")})
			if r.Fate != c.fate || strings.Join(asked, " ") != c.asked {
				t.Errorf("%+v after %q, want %v", r, asked, c.fate)
			}
		})
	}
}

// The caller's own rule about redirects stays in force.
func TestRedirectsAreTheCallersToo(t *testing.T) {
	var network memhttp.Network
	hops := 0
	server := network.Serve("service", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hops++
		http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	client := network.Client()
	defer client.CloseIdleConnections()
	if r := HTTP(client, post("http://service/"))(t.Context(), Item{Key: "k"}); r.Fate != Again || hops != 10 {
		t.Errorf("%+v after %d hops", r, hops)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if r := HTTP(client, post("http://service/"))(t.Context(), Item{Key: "k"}); r.Fate != Again || hops != 11 {
		t.Errorf("%+v after %d hops", r, hops)
	}
}

// What the envelope below holds back costs no attempt, and what an update cures
// kills no item.
func TestHeldBackBelow(t *testing.T) {
	tooOld := func(w http.ResponseWriter) {
		w.Header().Set("Comporta-Decision", "client_too_old")
		w.Header().Set("X-Should-Retry", "false")
		w.WriteHeader(http.StatusForbidden)
	}
	upgrade := func(w http.ResponseWriter) { w.WriteHeader(http.StatusUpgradeRequired) }
	for _, c := range []struct {
		name   string
		config client.Config
		answer func(http.ResponseWriter)
		calls  int
	}{
		{"too old, said once", client.Config{Version: "acme/1.0.0"}, tooOld, 1},
		{"426", client.Config{Version: "acme/1.0.0"}, upgrade, 1},
		{"a strict client", client.Config{Strict: true}, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var network memhttp.Network
				calls := 0
				server := network.Serve("service", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					calls++
					c.answer(w)
				}))
				defer server.Close()
				envelope, err := client.New(c.config)
				if err != nil {
					t.Fatal(err)
				}
				below := network.Client()
				defer below.CloseIdleConnections()
				q := open(t, Config{MaxAttempts: 3})
				enqueue(t, q, time.Now(), "a", "b")
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				err = q.Run(ctx, HTTP(&http.Client{Transport: envelope.Transport(below.Transport)}, post("http://service/")))
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				if s := q.Stats(); s.Waiting != 2 || s.Dead != 0 || calls != c.calls || q.state.waiting[0].attempts != 0 {
					t.Errorf("%+v after %d calls, %d attempts", s, calls, q.state.waiting[0].attempts)
				}
			})
		})
	}
}

// The word of an answer is heard whatever frames its body, and for a bounded time.
func TestTheWordInAnyFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network memhttp.Network
		server := network.Serve("service", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusInternalServerError)
			_ = http.NewResponseController(w).Flush() // no length can be declared
			if r.URL.Path == "/endless" {
				<-r.Context().Done()
				return
			}
			_, _ = io.WriteString(w, `{"retryable": false}`)
		}))
		defer server.Close()
		client := network.Client()
		defer client.CloseIdleConnections()
		if r := HTTP(client, post("http://service/"))(t.Context(), Item{Key: "k"}); r.Fate != Never {
			t.Errorf("%+v, want never", r)
		}
		began := time.Now()
		if r := HTTP(client, post("http://service/endless"))(t.Context(), Item{Key: "k"}); r.Fate != Again || time.Since(began) != answerTime {
			t.Errorf("%+v after %v", r, time.Since(began))
		}
	})
}
