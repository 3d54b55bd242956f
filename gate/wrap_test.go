package gate_test

import (
	"encoding/json"
	"io"
	"net"
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

// A service that has said all it has to say to an upgraded connection still hears
// the client.
func TestHalfOfAHijackedConnection(t *testing.T) {
	heard := make(chan string, 1)
	g, err := gate.New(gate.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\nbye")
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Error(err)
		}
		b, _ := io.ReadAll(conn)
		heard <- string(b)
	})))
	defer s.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\n")
	if b, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(b), "\r\n\r\nbye") {
		t.Errorf("%q, %v", b, err)
	}
	_, _ = io.WriteString(conn, "last word")
	_ = conn.(*net.TCPConn).CloseWrite()
	if said := <-heard; said != "last word" {
		t.Errorf("the service heard %q", said)
	}
}
