package overload

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

func mustNew(t testing.TB, c Config) *Writer {
	t.Helper()
	wr, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return wr
}

// answer writes ref for a plain GET and returns what came out.
func answer(t testing.TB, wr *Writer, ref *Refusal) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	wr.Write(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/orders", nil), ref)
	return rec
}

// TestCase_Overload_D27_NeverZero checks that seconds, milliseconds and body come
// from one value, rounded up. // cases/overload.md 27, cases/proxy.md 37
func TestCase_Overload_D27_NeverZero(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wait     time.Duration
		secs, ms int64
	}{
		{105 * time.Millisecond, 1, 105},
		{1, 1, 1},
		{time.Second, 1, 1000},
		{time.Second + 1, 2, 1001},
		{36412 * time.Millisecond, 37, 36412},
		{36412*time.Millisecond - 1, 37, 36412},
		{0, 1, 1000},            // no wait was given
		{-time.Minute, 1, 1000}, // the instant passed while the refusal was written
		{1<<63 - 1, 9223372037, 9223372036855},
	} {
		for _, reason := range []comporta.Reason{comporta.RateLimited, comporta.CapacityExhausted} {
			rec := answer(t, mustNew(t, Config{}), &Refusal{Reason: reason, Wait: c.wait})
			var p comporta.Problem
			if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
				t.Fatal(err)
			}
			if got := rec.Header().Get("Retry-After"); got != strconv.FormatInt(c.secs, 10) || p.RetryAfterS != c.secs {
				t.Errorf("%v: Retry-After %s, body %d, want %d", c.wait, got, p.RetryAfterS, c.secs)
			}
			if got := rec.Header().Get("Retry-After-Ms"); got != strconv.FormatInt(c.ms, 10) || p.RetryAfterMs != c.ms {
				t.Errorf("%v: retry-after-ms %s, body %d, want %d", c.wait, got, p.RetryAfterMs, c.ms)
			}
		}
	}
}

// TestRefusalsAreConsistent checks on every reason, stopped and not, that headers
// and body say one thing: a wait if and only if the client may return.
func TestRefusalsAreConsistent(t *testing.T) {
	t.Parallel()
	wr := mustNew(t, Config{})
	for reason := range comporta.NumReasons {
		for _, stop := range []bool{false, true} {
			ref := Refusal{Reason: reason, Stop: stop, Wait: 5 * time.Second, Ticket: []byte("v1.x")}
			rec := answer(t, wr, &ref)
			h := rec.Header()
			var p comporta.Problem
			if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
				t.Fatal(err)
			}
			again := ref.Retryable()
			if p.Retryable != again || h.Get("X-Should-Retry") != strconv.FormatBool(again) {
				t.Errorf("%v: retryable %t, header %q, body %t", reason, again, h.Get("X-Should-Retry"), p.Retryable)
			}
			for _, name := range []string{"Retry-After", "Retry-After-Ms", "Retry-Ticket"} {
				if (h.Get(name) != "") != again {
					t.Errorf("%v: %s is %q although retryable is %t", reason, name, h.Get(name), again)
				}
			}
			if stop && again {
				t.Errorf("%v: Stop did not stop", reason)
			}
			if p.Code == "" || p.Code != h.Get("Comporta-Decision") || p.Status != rec.Code || !strings.HasSuffix(p.Type, "#"+p.Code) {
				t.Errorf("%v: code %q, decision %q, status %d and %d, type %s",
					reason, p.Code, h.Get("Comporta-Decision"), p.Status, rec.Code, p.Type)
			}
			if h.Get("Cache-Control") != "no-store" || h.Get("Content-Type") != "application/problem+json" { // cases/proxy.md 44
				t.Errorf("%v: Cache-Control %q, Content-Type %q", reason, h.Get("Cache-Control"), h.Get("Content-Type"))
			}
			if grpcCodes[ref.reason()] == 0 {
				t.Errorf("%v has no gRPC code", reason)
			}
		}
		if !reason.Info().Retryable && reason != comporta.ReasonNone && portugueseDetails[reason] == "" {
			t.Errorf("%v is final and has no Portuguese detail", reason)
		}
	}
}

// Each detail has its sentence in both dialects, and a service's own comes before.
func TestDetailsHaveTheirWords(t *testing.T) {
	t.Parallel()
	english, portuguese := mustNew(t, Config{}), mustNew(t, Config{Dialect: DialectPortuguese})
	for why := comporta.DetailNone + 1; why < comporta.NumDetails; why++ {
		ref := Refusal{Reason: comporta.IdempotencyKeyInvalid, Why: why}
		if body := answer(t, english, &ref).Body.String(); why.String() == "" || !strings.Contains(body, `"detail":"`+why.String()) {
			t.Errorf("%d: %s", why, body)
		}
		if body := answer(t, portuguese, &ref).Body.String(); portugueseWhys[why] == "" || !strings.Contains(body, `"detalhe":"`+portugueseWhys[why]) {
			t.Errorf("%d: %s", why, body)
		}
		ref.Detail = "a sentence of one's own"
		for _, wr := range []*Writer{english, portuguese} {
			if body := answer(t, wr, &ref).Body.String(); !strings.Contains(body, ref.Detail) || strings.Contains(body, why.String()) {
				t.Errorf("%d: %s", why, body)
			}
		}
	}
}

func TestZeroRefusalSaysBusy(t *testing.T) {
	t.Parallel()
	rec := answer(t, mustNew(t, Config{}), &Refusal{})
	if rec.Code != 503 || rec.Header().Get("Comporta-Decision") != "capacity_exhausted" {
		t.Errorf("got %d %s", rec.Code, rec.Header().Get("Comporta-Decision"))
	}
	for _, status := range []int{-1, 99, 200, 399, 600, 1000} { // net/http panics on some of these
		if rec := answer(t, mustNew(t, Config{}), &Refusal{Status: status, Reason: comporta.NumReasons + 9}); rec.Code != 503 {
			t.Errorf("status %d went out as %d", status, rec.Code)
		}
	}
}

// TestConnectionCloses checks that only HTTP/1 is told to close: HTTP/2 would end
// everybody else's streams too.
func TestConnectionCloses(t *testing.T) {
	t.Parallel()
	wr := mustNew(t, Config{})
	for major, want := range map[int]string{1: "close", 2: ""} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
		r.ProtoMajor = major
		rec := httptest.NewRecorder()
		wr.Write(rec, r, &Refusal{Reason: comporta.BodyTooLarge})
		if got := rec.Header().Get("Connection"); got != want {
			t.Errorf("HTTP/%d: Connection %q, want %q", major, got, want)
		}
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, key string
		again       bool
	}{
		{"GET", "", true}, {"HEAD", "", true}, {"POST", "k1", true},
		{"POST", "", false}, {"PUT", "", false}, {"DELETE", "", false},
	} {
		r := comporta.Request{Method: c.method, IdempotencyKey: c.key, ID: "id"}
		ref := Fault(comporta.UpstreamTimeout, &r)
		if ref.Retryable() != c.again || (ref.Outcome == OutcomeUnknown) == c.again || ref.RequestID != "id" {
			t.Errorf("%s key %q: retryable %t, outcome %q", c.method, c.key, ref.Retryable(), ref.Outcome)
		}
	}
}

// TestWriteForgetsTheOtherBody writes a refusal where a handler had begun to
// describe another answer.
func TestWriteForgetsTheOtherBody(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	for name, value := range map[string]string{
		"Content-Encoding": "gzip", "Content-Length": "9", "Etag": `"x"`, "Last-Modified": "x",
		"Retry-After": "9", "Retry-After-Ms": "9000", "Retry-Ticket": "v1.old", "X-Request-Id": "keep",
	} {
		rec.Header().Set(name, value)
	}
	mustNew(t, Config{}).Write(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil),
		&Refusal{Reason: comporta.CostExceedsBurst})
	want := []string{
		"Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Cache-Control", "Comporta-Decision",
		"Content-Length", "Content-Type", "X-Request-Id", "X-Should-Retry",
	}
	var got []string
	for name := range rec.Header() {
		got = append(got, name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := rec.Header().Get("Content-Length"); n != strconv.Itoa(rec.Body.Len()) {
		t.Errorf("Content-Length %s for %d bytes", n, rec.Body.Len())
	}
}

// TestLinesDoNotShareRoom adds to one line and looks at all the others.
func TestLinesDoNotShareRoom(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	h := rec.Header()
	mustNew(t, Config{}).Write(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil),
		&Refusal{Wait: time.Second, Ticket: []byte("v1.x")})
	before := h.Clone()
	for name := range before {
		h.Add(name, "more")
	}
	for name, values := range before {
		if h[name][0] != values[0] || len(h[name]) != 2 {
			t.Errorf("%s: %q became %q", name, values, h[name])
		}
	}
}

func TestNewReportsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Dialect: "pt", TypeBase: "/problems", CORSOrigins: []string{"*", "app.example", "https://a.example/x", "https://ok.example"}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`Dialect "pt"`, `TypeBase "/problems"`, `"*"`, `"app.example"`, `"https://a.example/x"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "ok.example") {
		t.Errorf("a good origin is reported: %v", err)
	}
}

// TestTypeBase checks the standard writer of applications and the ends of a base.
func TestTypeBase(t *testing.T) {
	t.Parallel()
	if got, want := standard.types, mustNew(t, Config{}).types; got != want {
		t.Error("the standard writer differs from that of the zero Config")
	}
	for base, want := range map[string]string{
		"https://e.example":         "https://e.example#draining",
		"https://e.example/":        "https://e.example/draining",
		"https://e.example/?code=":  "https://e.example/?code=draining",
		"urn:acme:error#":           "urn:acme:error#draining",
		"https://e.example/err.htm": "https://e.example/err.htm#draining",
	} {
		if got := mustNew(t, Config{TypeBase: base}).types[comporta.Draining]; got != want {
			t.Errorf("%s: %s, want %s", base, got, want)
		}
	}
}

// full is a refusal that sets every line.
func full() *Refusal {
	return &Refusal{
		Reason: comporta.CapacityExhausted, Wait: 36412 * time.Millisecond, Attempts: 3, RequestID: "0123456789abcdef",
		Ticket: []byte("v1.AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8w"),
	}
}

// discard is a ResponseWriter that keeps its map.
type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

func TestWriteAllocates(t *testing.T) {
	config := Config{CORSOrigins: []string{"https://app.example"}, Policy: func() string { return "max=1;min-ms=2000;ttl=600" }}
	grpc := http.Header{"Content-Type": {"application/grpc"}}
	for _, c := range []struct {
		name   string
		config Config
		header http.Header
		limit  float64
	}{
		{"plain", Config{}, http.Header{}, 2},
		{"all lines", config, http.Header{"Origin": {"https://app.example"}}, 3}, // Vary is appended to
		{"portuguese", Config{Dialect: DialectPortuguese}, http.Header{}, 2},
		{"grpc", Config{}, grpc, 2},
	} {
		wr, w, ref := mustNew(t, c.config), &discard{http.Header{}}, full()
		r := &http.Request{Method: http.MethodGet, Header: c.header, ProtoMajor: 1}
		n := testing.AllocsPerRun(200, func() {
			clear(w.h)
			wr.Write(w, r, ref)
		})
		if n > c.limit && !raceEnabled { // the race detector makes sync.Pool forget on purpose
			t.Errorf("%s: %v allocations, want at most %v", c.name, n, c.limit)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	grpc := http.Header{"Content-Type": {"application/grpc"}}
	for _, c := range []struct {
		name   string
		config Config
		header http.Header
	}{{"en", Config{}, http.Header{}}, {"pt-BR", Config{Dialect: DialectPortuguese}, http.Header{}}, {"grpc", Config{}, grpc}} {
		b.Run(c.name, func(b *testing.B) {
			wr, w, ref := mustNew(b, c.config), &discard{http.Header{}}, full()
			r := &http.Request{Method: http.MethodGet, Header: c.header, ProtoMajor: 1}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				wr.Write(w, r, ref)
			}
		})
	}
}

// TestGRPCOverHTTP2 checks that a gRPC library would see a trailers-only answer:
// the status in the header, no body, and the stream at its end.
// cases/proxy.md 30, cases/overload.md 32
func TestGRPCOverHTTP2(t *testing.T) {
	t.Parallel()
	wr := mustNew(t, Config{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ref := full()
		if r.URL.Path == "/a.B/Stop" {
			ref = &Refusal{Reason: comporta.HopelessRepeat}
		}
		wr.Write(w, r, ref)
	}))
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server.Config.Protocols = &protocols
	server.Start()
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	defer client.CloseIdleConnections()
	for path, want := range map[string][2]string{"/a.B/Go": {"14", "36412"}, "/a.B/Stop": {"9", "-1"}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/grpc+proto")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || len(body) > 0 {
			t.Errorf("body %q, %v", body, err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		h := resp.Header
		if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 || len(resp.Trailer) != 0 ||
			h.Get("Content-Type") != "application/grpc" ||
			h.Get("Grpc-Status") != want[0] || h.Get("Grpc-Retry-Pushback-Ms") != want[1] {
			t.Errorf("%s: %d, HTTP/%d, %v", path, resp.StatusCode, resp.ProtoMajor, h)
		}
	}
}

func TestGRPCContentType(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"":                                "",
		"application/json":                "",
		"application/grpc":                "application/grpc",
		"Application/GRPC; charset=x":     "application/grpc",
		"application/grpc+json":           "application/grpc",
		"application/grpc-web":            "application/grpc-web",
		"application/grpc-web-text+proto": "application/grpc-web-text+proto",
		"application/grpcish":             "",
		"application/grp":                 "",
	} {
		if got := grpcContentType(http.Header{"Content-Type": {kind}}); got != want {
			t.Errorf("%q: %q, want %q", kind, got, want)
		}
	}
}

// TestGRPCNeverCallsAFinalAnswerUnavailable holds for every reason: callers
// repeat on UNAVAILABLE whatever the pushback says.
func TestGRPCNeverCallsAFinalAnswerUnavailable(t *testing.T) {
	t.Parallel()
	for reason := range comporta.NumReasons {
		if code := grpcCode(&Refusal{Reason: reason, Stop: true}); code == grpcUnavailable {
			t.Errorf("%v stopped is UNAVAILABLE", reason)
		}
	}
	for status := 400; status < 600; status++ {
		if code := grpcCode(&Refusal{Status: status, Code: "x", Stop: true}); code <= 0 || code >= len(codeTexts) || code == grpcUnavailable {
			t.Errorf("status %d is gRPC %d", status, code)
		}
	}
}
