package gate

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/ratelimit"
)

func benchGate(b testing.TB, c Config) *Gate {
	b.Helper()
	g, err := New(c, nil)
	if err != nil {
		b.Fatal(err)
	}
	return g
}

func request(path string) *comporta.Request {
	return &comporta.Request{
		Method: "GET", Host: "api.example", Path: path, Remote: netip.MustParseAddr("192.0.2.7"),
		Header: http.Header{
			"Accept": {"*/*"}, "User-Agent": {"acme-go/2.1.0"}, "X-Api-Key": {"9f2c1f7e5b"}, "Content-Type": {"application/json"},
			"Accept-Encoding": {"gzip"}, "Retry-Attempt": {"0"}, "X-Request-Id": {"5e9a"}, "Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		},
	}
}

func BenchmarkAdmit(b *testing.B) {
	g := benchGate(b, Config{})
	r := request("/orders/17")
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		r.Sighting = comporta.Sighting{}
		now = now.Add(time.Microsecond)
		d := g.Begin(now, r)
		d.FinishAt(now, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess, Latency: time.Millisecond})
	}
}

type nowhere struct{ h http.Header }

func (n *nowhere) Header() http.Header         { return n.h }
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n *nowhere) WriteHeader(int)             {}

func BenchmarkWrap(b *testing.B) {
	g := benchGate(b, Config{})
	body, length := []byte("{\"ok\":true}\n"), []string{"12"}
	h := g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Length"] = length
		w.WriteHeader(200)
		_, _ = w.Write(body)
	}))
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "https://api.example/v1/orders/17?expand=items", http.NoBody)
	r.Header, r.RemoteAddr = request("/").Header, "192.0.2.7:50712"
	delete(r.Header, "X-Request-Id")
	w := &nowhere{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		delete(r.Header, "X-Request-Id")
		clear(w.h)
		h.ServeHTTP(w, r)
	}
}

// BenchmarkAdmitLive is BenchmarkAdmit with a million live fingerprints of 50,000
// clients: what the tables cost when the processor's caches do not hold them.
func BenchmarkAdmitLive(b *testing.B) {
	const live, clients = 1_000_000, 50_000
	g, r := benchGate(b, Config{}), request("/")
	keys, paths := make([]string, clients), make([]string, 256)
	for i := range keys {
		keys[i] = fmt.Sprintf("client-%016x", uint64(i)*0x9e3779b97f4a7c15)
	}
	for i := range paths {
		paths[i] = fmt.Sprintf("/v1/orders/%d", i)
	}
	now, i, key := time.Now(), 0, []string{""}
	r.Header["X-Api-Key"] = key
	ask := func() {
		i++
		key[0], r.Path = keys[i%clients], paths[i/clients%len(paths)]
		r.Client, r.Sighting, r.Slot = comporta.Client{}, comporta.Sighting{}, comporta.Slot{}
		now = now.Add(60 * time.Second / live)
		d := g.Begin(now, r)
		d.FinishAt(now, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess, Latency: time.Millisecond})
	}
	for range live {
		ask()
	}
	b.ReportAllocs()
	for b.Loop() {
		ask()
	}
}

// BenchmarkRefuse is a refusal with its booking and its ticket, of a full house.
func BenchmarkRefuse(b *testing.B) {
	const clients = 50_000
	g, r := benchGate(b, Config{Admission: Admission{Capacity: 1, QueueWait: -1}}), request("/")
	now := time.Now()
	holder := g.Begin(now, request("/hold"))
	keys, key := make([]string, clients), []string{""}
	for i := range keys {
		keys[i] = fmt.Sprintf("client-%016x", uint64(i)*0x9e3779b97f4a7c15)
	}
	paths := make([]string, 64)
	for i := range paths {
		paths[i] = fmt.Sprintf("/v1/orders/%d", i)
	}
	r.Header["X-Api-Key"], r.ID = key, "5e9a0d1c77f24b8e"
	var ticket [64]byte
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		j := clients + i - i&1*5000 // every other one comes again, early
		key[0], r.Path = keys[j%clients], paths[j/clients%len(paths)]
		r.Client, r.Sighting, r.Slot = comporta.Client{}, comporta.Sighting{}, comporta.Slot{}
		now = now.Add(100 * time.Microsecond)
		d := g.Begin(now, r)
		if len(d.AppendTicket(ticket[:0])) == 0 {
			b.Fatal("no ticket")
		}
	}
	holder.FinishAt(now, comporta.Outcome{Status: 200})
}

// limits are two rules: the burst is high enough that neither denies.
func limits() RateLimits {
	var c RateLimits
	for _, name := range []string{"per-client", "per-route"} {
		c.Rules = append(c.Rules, ratelimit.Rule{Name: name, Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 1_000_000_000, Per: time.Second}}})
	}
	return c
}

// The face for net/http brings the memory that a verdict needs; a face that calls
// Begin makes it once a request.
func TestRateLimitAllocations(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    Config
		want float64
	}{{"without rules", Config{}, 0}, {"with rules", Config{RateLimits: limits()}, 0}} {
		g, r, now := benchGate(t, tt.c), request("/orders/17"), time.Now()
		var verdict ratelimit.Verdict
		d := new(Decision)
		n := testing.AllocsPerRun(200, func() {
			r.Sighting = comporta.Sighting{}
			now = now.Add(time.Microsecond)
			*d = Decision{verdict: &verdict}
			g.begin(now, r, d)
			d.FinishAt(now, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess, Latency: time.Millisecond})
		})
		if n != tt.want {
			t.Errorf("%s: %v allocations", tt.name, n)
		}
	}
}

// BenchmarkLimited is BenchmarkAdmit with two rate rules.
func BenchmarkLimited(b *testing.B) {
	g, r, now := benchGate(b, Config{RateLimits: limits()}), request("/orders/17"), time.Now()
	var verdict ratelimit.Verdict
	d := new(Decision)
	b.ReportAllocs()
	for b.Loop() {
		r.Sighting = comporta.Sighting{}
		now = now.Add(time.Microsecond)
		*d = Decision{verdict: &verdict}
		g.begin(now, r, d)
		d.FinishAt(now, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess, Latency: time.Millisecond})
	}
}

// BenchmarkWrapLimited is BenchmarkWrap with two rate rules and their fields.
func BenchmarkWrapLimited(b *testing.B) {
	g := benchGate(b, Config{RateLimits: limits()})
	body, length := []byte("{\"ok\":true}\n"), []string{"12"}
	h := g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Length"] = length
		w.WriteHeader(200)
		_, _ = w.Write(body)
	}))
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "https://api.example/v1/orders/17", http.NoBody)
	r.Header, r.RemoteAddr = request("/").Header, "192.0.2.7:50712"
	w := &nowhere{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.h)
		h.ServeHTTP(w, r)
	}
}
