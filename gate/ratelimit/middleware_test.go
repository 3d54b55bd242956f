package ratelimit

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

func mustURL(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// serve builds a handler behind rules, with a clock that the test moves.
func serve(t testing.TB, now *time.Time, handler http.HandlerFunc, c Config) http.Handler {
	t.Helper()
	l, err := New(*now, c, newTable(t))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Middleware(MiddlewareConfig{Limiter: l, Now: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	return m(handler)
}

func get(h http.Handler, edit func(*http.Request)) *http.Response {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func nothing(http.ResponseWriter, *http.Request) {}

// cases/ratelimit.md 1
func TestCase_RateLimit_1_HeadersOfARefusal(t *testing.T) {
	now := t0
	h := serve(t, &now, nothing, Config{Rules: []Rule{{Name: "per-client", Limit: perSecond(10, 1)}}})
	if r := get(h, nil); r.StatusCode != 200 || r.Header.Get("RateLimit") != `"per-client";r=0;t=1` || r.Header.Get("RateLimit-Policy") != `"per-client";q=1;w=1` {
		t.Errorf("admitted: %d, %q, %q", r.StatusCode, r.Header.Get("RateLimit"), r.Header.Get("RateLimit-Policy"))
	}
	now = ms(10)
	r := get(h, nil)
	for name, want := range map[string]string{
		"Retry-After": "1", "Retry-After-Ms": "90", "X-Should-Retry": "true", "Comporta-Decision": "rate_limited",
		"RateLimit": `"per-client";r=0;t=1`, "Cache-Control": "no-store", "Content-Type": "application/problem+json",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	var p comporta.Problem
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil || r.StatusCode != 429 || p.Code != "rate_limited" || !p.Retryable ||
		p.RetryAfterMs != 90 || len(p.ViolatedPolicies) != 1 || p.ViolatedPolicies[0] != "per-client" {
		t.Errorf("%d: %+v, %v", r.StatusCode, p, err)
	}
	now = ms(1010)
	if r := get(h, nil); r.StatusCode != 200 {
		t.Errorf("who waits as told gets %d", r.StatusCode)
	}
}

// cases/ratelimit.md 2: whatever the limit becomes, a 429 says when.
func TestCase_RateLimit_2_EveryRetryable429HasAPositiveWait(t *testing.T) {
	table := newTable(t)
	for _, count := range []int64{1000, 1, 500, 2, 7} {
		l, err := New(t0, Config{Rules: []Rule{{Name: "r", Limit: perSecond(count, count)}, {Name: "q", Quota: Quota{Units: count, Period: Day}}}}, table)
		if err != nil {
			t.Fatal(err)
		}
		for range 2000 {
			var v Verdict
			if l.TakeAt(context.Background(), t0, known(1), &v) {
				continue
			}
			w := httptest.NewRecorder()
			Refuse(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody), &v)
			if after := w.Header().Get("Retry-After"); v.Stop || v.Wait <= 0 || after == "" || after[0] == '0' || after[0] == '-' {
				t.Fatalf("limit %d: wait %v, Retry-After %q", count, v.Wait, after)
			}
		}
	}
}

// cases/ratelimit.md 29
func TestCase_RateLimit_29_ForwardedForOfAStranger(t *testing.T) {
	now := t0
	h := serve(t, &now, nothing, Config{Rules: []Rule{{Name: "r", Limit: perSecond(10, 10)}}})
	passed := 0
	for i := range 1000 {
		r := get(h, func(r *http.Request) { r.Header.Set("X-Forwarded-For", "10.0."+itoa(i/250)+"."+itoa(i%250)) })
		if r.StatusCode == 200 {
			passed++
		}
	}
	if passed != 10 {
		t.Errorf("1000 forged addresses of one peer: %d passed, want 10", passed)
	}
}

func TestHandlersSeeTheirVerdict(t *testing.T) {
	now := t0
	var l *Limiter
	h := serve(t, &now, func(_ http.ResponseWriter, r *http.Request) {
		v := FromContext(r.Context())
		l = v.limiter
		if err := l.ChargeAt(r.Context(), now, v, 4); err != nil {
			t.Error(err)
		}
	}, Config{Rules: []Rule{{Name: "r", Limit: perSecond(10, 10)}}})
	get(h, nil)
	if got := get(h, nil).Header.Get("RateLimit"); got != `"r";r=4;t=1` {
		t.Errorf("the second request is told %s, want 4 left after a cost of 5 and one of 1", got)
	}
	if FromContext(context.Background()) != nil {
		t.Error("a verdict out of nothing")
	}
}

func TestRefusalsThatNoWaitingHelps(t *testing.T) {
	now := t0
	h := serve(t, &now, nothing, Config{Rules: []Rule{{Name: "r", Limit: perSecond(10, 10), Cost: 11}}})
	r := get(h, nil)
	if r.StatusCode != 429 || r.Header.Get("Retry-After") != "" || r.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("%d, %v", r.StatusCode, r.Header)
	}
	head := get(h, func(r *http.Request) { r.Method = http.MethodHead })
	if body, err := io.ReadAll(head.Body); err != nil || len(body) != 0 {
		t.Errorf("HEAD has a body of %d bytes, %v", len(body), err)
	}
	if _, err := Middleware(MiddlewareConfig{}); err == nil {
		t.Error("no limiter: accepted")
	}
}

// broken is a store that is away.
type broken struct{ calls int }

var errAway = errors.New("away")

func (*broken) Prepare(time.Time, ...*Policy) error { return nil }
func (b *broken) Take(context.Context, time.Time, []Debit, []Result) (bool, error) {
	b.calls++
	return false, errAway
}
func (*broken) Refund(context.Context, time.Time, string, []Debit) error { return errAway }
func (*broken) Charge(context.Context, time.Time, []Debit) error         { return errAway }

// cases/ratelimit.md 22, as far as the limiter decides it
func TestCase_RateLimit_22_AStoreThatIsAway(t *testing.T) {
	for _, tc := range []struct {
		mode   FailureMode
		passed int
		status int
	}{{FailOpen, 100, 200}, {FailClosed, 0, 503}, {FailLocal, 25, 429}} {
		now, passed := t0, 0
		h := serve(t, &now, nothing, Config{
			Rules:  []Rule{{Name: "r", Limit: perSecond(50, 50), Store: "redis", OnFailure: tc.mode, LocalShare: 0.5}},
			Stores: map[string]Store{"redis": &broken{}},
		})
		var last *http.Response
		for range 100 {
			if last = get(h, nil); last.StatusCode == 200 {
				passed++
			}
		}
		if passed != tc.passed || last.StatusCode != tc.status || (tc.status != 200) != (last.Header.Get("Retry-After") != "") {
			t.Errorf("%v: %d passed, then %d with Retry-After %q; want %d, then %d", tc.mode, passed, last.StatusCode,
				last.Header.Get("Retry-After"), tc.passed, tc.status)
		}
		// A second later the share of the rule has come back, not the whole of it.
		if now = ms(1000); tc.mode == FailLocal {
			for passed = 0; get(h, nil).StatusCode == 200; passed++ {
			}
			if passed != 25 {
				t.Errorf("a second later %d pass, want 25", passed)
			}
		}
	}
}

// What a shared store denies costs nothing here, and what is denied here never
// reaches it.
func TestLocalRulesStandBeforeSharedOnes(t *testing.T) {
	away := &broken{}
	table, shared := newTable(t), newTable(t)
	l, err := New(t0, Config{
		Rules: []Rule{
			{Name: "shared", Limit: perSecond(2, 2), Store: "other"},
			{Name: "local", Limit: perSecond(5, 5)},
			{Name: "broken", Limit: perSecond(100, 100), Store: "zz"},
		},
		Stores: map[string]Store{"other": shared, "zz": away},
	}, table)
	if err != nil {
		t.Fatal(err)
	}
	passed, v := ask(l, t0, known(1), 4)
	if passed != 2 || len(v.Violated()) != 1 || v.Violated()[0] != "shared" {
		t.Fatalf("%d passed, violated %q", passed, v.Violated())
	}
	if n := remaining(l, known(1), "local", t0); n != 3 {
		t.Errorf("the shared store denied two and local has %d left, want 3", n)
	}
	away.calls = 0
	ask(l, t0, known(1), 10)
	if away.calls != 0 {
		t.Errorf("what was denied before reached the last store %d times", away.calls)
	}
}
