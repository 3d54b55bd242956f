package overload

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

// gateWriter is a ResponseWriter like a gate's: a Door.
type gateWriter struct {
	http.ResponseWriter

	wr   *Writer
	wait time.Duration
	seen Refusal
}

func (g *gateWriter) CompleteRefusal(_ *http.Request, ref *Refusal) *Writer {
	g.seen = *ref
	ref.Attempts, ref.RequestID = 4, "req-1"
	if ref.Retryable() {
		ref.Wait, ref.Ticket = max(ref.Wait, g.wait), []byte("v1.gate")
	}
	return g.wr
}

// logged is middleware between the gate and the handler.
type logged struct {
	http.ResponseWriter

	status int
}

func (l *logged) WriteHeader(status int) {
	l.status = status
	l.ResponseWriter.WriteHeader(status)
}
func (l *logged) Unwrap() http.ResponseWriter { return l.ResponseWriter }

func get(t testing.TB) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/orders", nil)
}

// TestBusyInsideTheMiddleware finds the gate through other middleware, speaks its
// dialect and is seen by that middleware.
func TestBusyInsideTheMiddleware(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	gate := &gateWriter{ResponseWriter: rec, wr: mustNew(t, Config{Dialect: DialectPortuguese}), wait: 40 * time.Second}
	outer := &logged{ResponseWriter: gate}
	Busy(&logged{ResponseWriter: outer}, get(t), 3*time.Second)
	if gate.seen.Wait != 3*time.Second || !gate.seen.FromService {
		t.Errorf("the gate was asked with %+v", gate.seen)
	}
	if want := `{"erro":"capacidade_esgotada","repetivel":true,"tentar_apos_s":40,"tentativas_observadas":4}` + "\n"; rec.Body.String() != want {
		t.Errorf("got %s", rec.Body)
	}
	if outer.status != 503 || rec.Header().Get("Retry-Ticket") != "v1.gate" || rec.Header().Get("Comporta-Decision") != "" {
		t.Errorf("middleware saw %d; header %v", outer.status, rec.Header())
	}
}

// TestCase_Overload_D29_BusySpreads spreads the instants of clients refused together, and
// gives each the same one again. // cases/overload.md 29 (for a service alone)
func TestCase_Overload_D29_BusySpreads(t *testing.T) {
	t.Parallel()
	seconds := map[string]int{}
	for client := range 1000 {
		var first string
		for range 2 {
			r := get(t)
			r.RemoteAddr = "10.0.0.1:" + strconv.Itoa(1024+client)
			r.Header.Set("X-Forwarded-For", "192.0.2."+strconv.Itoa(client))
			rec := httptest.NewRecorder()
			Busy(rec, r, 20*time.Second)
			ms, err := strconv.Atoi(rec.Header().Get("Retry-After-Ms"))
			if err != nil || ms < 20_000 || ms > 40_000 {
				t.Fatalf("client %d waits %d ms", client, ms)
			}
			if after := rec.Header().Get("Retry-After-Ms"); first == "" {
				first = after
				seconds[rec.Header().Get("Retry-After")]++
			} else if after != first {
				t.Errorf("client %d was given %s, then %s", client, first, after)
			}
		}
	}
	for second, n := range seconds {
		if n > 90 { // 50 on average, 5.7 standard deviations
			t.Errorf("%d of 1000 return in second %s", n, second)
		}
	}
}

// TestCase_Overload_D32_Deterministic is the service's side of "stop".
// cases/overload.md 32
func TestCase_Overload_D32_Deterministic(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ status, want int }{{422, 422}, {500, 500}, {503, 503}, {200, 422}, {0, 422}, {999, 422}} {
		rec := httptest.NewRecorder()
		Deterministic(rec, get(t), c.status, "invalid_cpf", "")
		var p comporta.Problem
		if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		h := rec.Header()
		if rec.Code != c.want || p.Retryable || p.Code != "invalid_cpf" || p.Type != "about:blank" ||
			h.Get("X-Should-Retry") != "false" || h.Get("Retry-After") != "" || h.Get("Comporta-Decision") != "" {
			t.Errorf("%d: %d %+v %v", c.status, rec.Code, p, h)
		}
	}
}

// TestDeterministicInsideTheMiddleware books nothing and speaks the gate's dialect.
func TestDeterministicInsideTheMiddleware(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	gate := &gateWriter{ResponseWriter: rec, wr: mustNew(t, Config{Dialect: DialectPortuguese})}
	Deterministic(gate, get(t), 422, "", "sem saldo")
	if want := `{"erro":"error","repetivel":false,"detalhe":"sem saldo"}` + "\n"; rec.Body.String() != want {
		t.Errorf("got %s", rec.Body)
	}
	if rec.Header().Get("Retry-Ticket") != "" {
		t.Error("a final answer has a ticket")
	}
}

// ring is a chain of writers that never ends.
type ring struct{ http.ResponseWriter }

func (r ring) Unwrap() http.ResponseWriter { return r }

func TestDoorIsNotLookedForForEver(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	Busy(ring{rec}, get(t), 0)
	if rec.Code != 503 {
		t.Errorf("got %d", rec.Code)
	}
	rec = httptest.NewRecorder()
	gate := &gateWriter{ResponseWriter: rec} // a gate without a writer of its own
	Busy(gate, get(t), time.Second)
	if rec.Code != 503 || rec.Header().Get("Retry-Ticket") != "v1.gate" {
		t.Errorf("got %d %v", rec.Code, rec.Header())
	}
}

// TestCORS checks what a browser would be allowed to see.
func TestCORS(t *testing.T) {
	t.Parallel()
	listed := Config{CORSOrigins: []string{"https://app.example"}}
	for _, c := range []struct {
		name        string
		config      Config
		origin      string
		outer       http.Header // what middleware around the gate has set
		allow       string
		credentials string
		vary        int
	}{
		{"anyone", Config{}, "https://x.example", nil, "*", "", 0},
		{"no origin", Config{}, "", nil, "*", "", 0},
		{"null", Config{}, "null", nil, "*", "", 0},
		{"listed", listed, "https://app.example", nil, "https://app.example", "true", 1},
		{"not listed", listed, "https://evil.example", nil, "*", "", 1},
		{"nearly listed", listed, "https://app.example.evil", nil, "*", "", 1},
		{"listed, no origin", listed, "", nil, "*", "", 1},
		{
			"outer middleware answered", Config{}, "https://x.example",
			http.Header{"Access-Control-Allow-Origin": {"https://x.example"}, "Vary": {"Accept"}}, "https://x.example", "", 1,
		},
	} {
		rec := httptest.NewRecorder()
		maps.Copy(rec.Header(), c.outer)
		r := get(t)
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		mustNew(t, c.config).Write(rec, r, &Refusal{})
		h := rec.Header()
		if h.Get("Access-Control-Allow-Origin") != c.allow || h.Get("Access-Control-Allow-Credentials") != c.credentials || len(h["Vary"]) != c.vary {
			t.Errorf("%s: %v", c.name, h)
		}
		if h.Get("Access-Control-Expose-Headers") != exposed {
			t.Errorf("%s: exposed %q", c.name, h.Get("Access-Control-Expose-Headers"))
		}
	}
}

func TestAllowOriginKeepsWhatIsExposed(t *testing.T) {
	t.Parallel()
	h := http.Header{"Access-Control-Expose-Headers": {"Etag"}}
	mustNew(t, Config{}).AllowOrigin(h, get(t))
	if vs := h["Access-Control-Expose-Headers"]; len(vs) != 2 || vs[0] != "Etag" || h.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("got %v", h)
	}
}

func TestIsPreflight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, origin, asked string
		want                  bool
	}{
		{"OPTIONS", "https://x.example", "POST", true},
		{"OPTIONS", "https://x.example", "", false},
		{"OPTIONS", "", "POST", false},
		{"GET", "https://x.example", "POST", false},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/", nil)
		r.Header.Set("Origin", c.origin)
		r.Header.Set("Access-Control-Request-Method", c.asked)
		if got := IsPreflight(r); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
