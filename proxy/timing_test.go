package proxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/memhttp"
	"github.com/comporta/comporta/proxy"
)

// house is a caller, a proxy and a service in virtual time.
type house struct {
	network memhttp.Network
	client  *http.Client
	notes   notes
}

// timed runs f in a bubble with a proxy at http://gate in front of handler.
func timed(t *testing.T, c proxy.Config, handler http.HandlerFunc, f func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &house{}
		c.Upstreams = append(c.Upstreams, address(t, "http://service"))
		c.DialContext, c.Fail, c.Observe = h.network.DialContext, h.notes.fail, h.notes.observe
		p, err := proxy.New(c)
		if err != nil {
			t.Fatal(err)
		}
		service := h.network.Serve("service", handler)
		gate := h.network.Serve("gate", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if v := r.Header.Get("Patience"); v != "" {
				d, err := time.ParseDuration(v)
				if err != nil {
					t.Error(err)
				}
				ctx, cancel := context.WithTimeout(r.Context(), d)
				defer cancel()
				r = r.WithContext(ctx)
			}
			p.ServeHTTP(w, r)
		}))
		h.client = h.network.Client()
		f(t, h)
		h.client.CloseIdleConnections()
		p.Close()
		if err := errors.Join(gate.Close(), service.Close()); err != nil {
			t.Error(err)
		}
	})
}

// ask sends a request and returns the status, what the proxy said, and how long
// it took.
func (h *house) ask(t *testing.T, method string, body io.Reader, patience string) (status int, said string, took time.Duration) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://gate/", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Patience", patience)
	start := time.Now()
	res, err := h.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Error(err)
	}
	return res.StatusCode, h.notes.said(), time.Since(start)
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestTimeout(t *testing.T) {
	timed(t, proxy.Config{}, hang, func(t *testing.T, h *house) {
		status, said, took := h.ask(t, http.MethodGet, http.NoBody, "")
		if status != 504 || said != "[upstream_timeout] timeout" || took != proxy.DefaultTimeout {
			t.Errorf("%d %s after %v", status, said, took)
		}
	})
	timed(t, proxy.Config{Timeout: 7 * time.Second}, hang, func(t *testing.T, h *house) {
		if _, said, took := h.ask(t, http.MethodGet, http.NoBody, ""); said != "[upstream_timeout] timeout" || took != 7*time.Second {
			t.Errorf("%s after %v", said, took)
		}
	})
}

// A caller's deadline is the caller's: the service is blamed for not answering in
// time only when it was asked.
func TestDeadline(t *testing.T) {
	timed(t, proxy.Config{}, hang, func(t *testing.T, h *house) {
		if status, said, took := h.ask(t, http.MethodGet, http.NoBody, "2s"); status != 504 || said != "[upstream_timeout] timeout" || took != 2*time.Second {
			t.Errorf("%d %s after %v", status, said, took)
		}
		if status, said, took := h.ask(t, http.MethodGet, http.NoBody, "1us"); status != 504 || said != "[deadline_exceeded]" || took != 0 {
			t.Errorf("%d %s after %v", status, said, took)
		}
	})
}

// slow is a body that comes in pieces.
type slow struct {
	pieces int
	every  time.Duration
}

func (s *slow) Read(p []byte) (int, error) {
	if s.pieces == 0 {
		return 0, io.EOF
	}
	s.pieces--
	time.Sleep(s.every) // virtual
	return copy(p, "piece"), nil
}

// An upload may take longer than the timeout, as long as it is the caller who is
// slow.
func TestSlowCallerIsNoSlowService(t *testing.T) {
	read := func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if n != 25 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		w.WriteHeader(http.StatusNoContent)
	}
	timed(t, proxy.Config{Timeout: 5 * time.Second}, read, func(t *testing.T, h *house) {
		status, said, took := h.ask(t, http.MethodPost, &slow{pieces: 5, every: time.Minute}, "")
		if status != 204 || said != "[] success" || took != 5*time.Minute {
			t.Errorf("%d %s after %v", status, said, took)
		}
	})
	stall := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	timed(t, proxy.Config{Timeout: 5 * time.Second}, stall, func(t *testing.T, h *house) {
		status, said, took := h.ask(t, http.MethodPost, &slow{pieces: 5, every: time.Minute}, "")
		if status != 504 || said != "[upstream_timeout] timeout" || took != 5*time.Minute+5*time.Second {
			t.Errorf("%d %s after %v", status, said, took)
		}
	})
}

// A full pool is a service that cannot be reached, and nothing was asked of it.
func TestPoolExhausted(t *testing.T) {
	timed(t, proxy.Config{MaxConnections: 1, ConnectTimeout: 3 * time.Second}, hang, func(t *testing.T, h *house) {
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan struct{})
		go func() {
			defer close(first)
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://gate/", http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			if res, err := h.client.Do(req); err == nil {
				_ = res.Body.Close()
			}
		}()
		synctest.Wait()
		status, said, took := h.ask(t, http.MethodPost, http.NoBody, "")
		if status != 503 || said != "[upstream_unavailable] unreachable" || took != 3*time.Second {
			t.Errorf("%d %s after %v", status, said, took)
		}
		cancel()
		<-first
	})
}

// A dial that never ends is given up, and the service was not asked.
func TestDialHangs(t *testing.T) {
	timed(t, proxy.Config{}, hang, func(t *testing.T, h *house) {
		p, err := proxy.New(proxy.Config{
			Upstreams:      []*url.URL{address(t, "http://deaf")},
			ConnectTimeout: 2 * time.Second,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
			Fail: h.notes.fail, Observe: h.notes.observe,
		})
		if err != nil {
			t.Fatal(err)
		}
		front := h.network.Serve("front", p)
		defer front.Close()
		start := time.Now()
		res, err := h.client.Get("http://front/")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if said, took := h.notes.said(), time.Since(start); said != "[upstream_unavailable] unreachable" || took != 2*time.Second {
			t.Errorf("%s after %v", said, took)
		}
	})
}

// A kept connection is given up in time, not found dead by a request.
func TestIdleTimeout(t *testing.T) {
	answer := func(http.ResponseWriter, *http.Request) {}
	timed(t, proxy.Config{}, answer, func(t *testing.T, h *house) {
		if status, _, _ := h.ask(t, http.MethodGet, http.NoBody, ""); status != 200 {
			t.Error(status)
		}
		time.Sleep(proxy.DefaultIdleTimeout + time.Second) // virtual
		if status, said, _ := h.ask(t, http.MethodGet, http.NoBody, ""); status != 200 || said != "[] success" {
			t.Error(status, said)
		}
	})
}

// The head is what the timeout bounds: a stream may go on for a day.
func TestStreamOutlivesTimeout(t *testing.T) {
	tick := func(w http.ResponseWriter, _ *http.Request) {
		for range 24 {
			time.Sleep(time.Hour) // virtual
			_, _ = io.WriteString(w, "tick")
			_ = http.NewResponseController(w).Flush()
		}
	}
	head := func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		tick(w, r)
	}
	timed(t, proxy.Config{}, head, func(t *testing.T, h *house) {
		status, said, took := h.ask(t, http.MethodGet, http.NoBody, "")
		if status != 200 || said != "[] success" || took != 24*time.Hour {
			t.Errorf("%d %s after %v", status, said, took)
		}
	})
}

// Reports carry the time to the head of the answer.
func TestLatency(t *testing.T) {
	late := func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(3 * time.Second) // virtual
		_ = http.NewResponseController(w).Flush()
		time.Sleep(time.Hour) // virtual
	}
	timed(t, proxy.Config{}, late, func(t *testing.T, h *house) {
		res, err := h.client.Get("http://gate/")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		h.notes.mu.Lock()
		defer h.notes.mu.Unlock()
		if len(h.notes.reports) != 1 {
			t.Fatalf("%d reports", len(h.notes.reports))
		}
		r := h.notes.reports[0]
		if r.Latency != 3*time.Second || r.Status != 200 || r.Result != comporta.ResultSuccess || r.Upstream.Host != "service" {
			t.Errorf("%+v", r)
		}
	})
}

// A wait that is shorter than anybody's patience is not prolonged by it.
func TestShortTimes(t *testing.T) {
	timed(t, proxy.Config{Timeout: 7 * time.Millisecond}, hang, func(t *testing.T, h *house) {
		if _, said, took := h.ask(t, http.MethodGet, http.NoBody, ""); said != "[upstream_timeout] timeout" || took != 7*time.Millisecond {
			t.Errorf("%s after %v", said, took)
		}
	})
	timed(t, proxy.Config{}, hang, func(t *testing.T, h *house) {
		if _, said, took := h.ask(t, http.MethodGet, http.NoBody, "9ms"); said != "[upstream_timeout] timeout" || took != 9*time.Millisecond {
			t.Errorf("%s after %v", said, took)
		}
	})
}
