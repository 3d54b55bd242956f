package gate_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
)

// serve wraps a service in a gate and returns a client's way to it.
func serve(t *testing.T, c gate.Config, service http.HandlerFunc) (*gate.Gate, func(method, path string, header ...string) *http.Response) {
	t.Helper()
	g, err := gate.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g.Wrap(service))
	t.Cleanup(server.Close)
	return g, func(method, path string, header ...string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(strings.NewReader(string(body)))
		return resp
	}
}

func TestRefusalIsAContract(t *testing.T) {
	block, entered := make(chan struct{}), make(chan struct{}, 1)
	g, do := serve(t, gate.Config{Admission: gate.Admission{Capacity: 1, QueueWait: -1}}, func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-block
	})
	var slow sync.WaitGroup
	slow.Go(func() { do("GET", "/slow") })
	<-entered
	resp := do("GET", "/orders", "X-Request-Id", "r-1")
	close(block)
	slow.Wait()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("status %d", resp.StatusCode)
	}
	var p comporta.Problem
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	if p.Code != "capacity_exhausted" || !p.Retryable || p.RetryAfterMs <= 0 || p.RequestID != "r-1" || p.ObservedAttempts != 1 {
		t.Errorf("%+v", p)
	}
	if resp.Header.Get("Retry-Ticket") == "" || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Comporta-Decision") != p.Code {
		t.Errorf("%v", resp.Header)
	}
	if e, ok := g.State().Explain("r-1"); !ok || e.Reason != p.Code || e.Capacity != 1 {
		t.Errorf("explain: %+v, %v", e, ok)
	}
}

// A client that got its 200 and asks again at once is a poll, exactly; and the
// house is empty when its answer has arrived.
func TestPollIsExact(t *testing.T) {
	g, do := serve(t, gate.Config{}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/length":
			w.Header().Set("Content-Length", "3")
			_, _ = io.WriteString(w, "abc")
			time.Sleep(time.Millisecond) // the service lingers after its last byte
		case "/flushed":
			_, _ = io.WriteString(w, "abc")
			w.(http.Flusher).Flush()
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Millisecond)
		default:
			_, _ = io.WriteString(w, "abc")
		}
	})
	for _, path := range []string{"/plain", "/length", "/flushed", "/empty"} {
		for range 50 {
			do("GET", path, "X-Api-Key", "k")
			if n := g.StatsAt(time.Now()).Inflight; n != 0 {
				t.Fatalf("%s: %d in flight after the answer arrived", path, n)
			}
		}
	}
	counts := map[comporta.Kind]uint64{}
	g.State().EachRequestCount(func(c gate.RequestCount) bool {
		counts[c.Kind] += c.Count
		return true
	})
	if counts[comporta.KindOriginal] != 4 || counts[comporta.KindPoll] != 4*49 {
		t.Errorf("counts %v, want 4 originals and %d polls", counts, 4*49)
	}
}
