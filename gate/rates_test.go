package gate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/gate/ratelimit"
)

// perClient is a rule for every caller of the gate, without aggregates.
func perClient(name string, count int64, per time.Duration, burst int64) ratelimit.Rule {
	return ratelimit.Rule{
		Name: name, NoAggregates: true,
		Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: count, Per: per}, Burst: burst},
	}
}

func limited(rules ...ratelimit.Rule) gate.Config {
	return gate.Config{RateLimits: gate.RateLimits{Config: ratelimit.Config{Rules: rules}}}
}

func answers(http.ResponseWriter, *http.Request) {}

// cases/ratelimit.md 1 and 2, through the gate: 429 says when, as all refusals
// do, and who waits exactly that long is served.
func TestCase_RateLimit_1_2_RefusalIsAContract(t *testing.T) {
	inBubble(t, limited(perClient("per-client", 10, time.Second, 1)), answers, func(t *testing.T, h *house) {
		if a := h.ask(t.Context(), "GET", "/x", "X-Api-Key", "k"); a.status != http.StatusOK ||
			a.header.Get("Ratelimit-Policy") != `"per-client";q=1;w=1` || a.header.Get("Ratelimit") != `"per-client";r=0;t=1` {
			t.Fatalf("the first: %d %v", a.status, a.header)
		}
		time.Sleep(10 * time.Millisecond)
		a := h.ask(t.Context(), "GET", "/x", "X-Api-Key", "k")
		for name, want := range map[string]string{
			"Retry-After": "1", "Retry-After-Ms": "90", "X-Should-Retry": "true", "Comporta-Decision": "rate_limited", "Retry-Ticket": "",
			"Ratelimit-Policy": `"per-client";q=1;w=1`, "Ratelimit": `"per-client";r=0;t=1`, "Content-Type": "application/problem+json",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		p := a.problem
		if a.status != http.StatusTooManyRequests || p.Code != "rate_limited" || !p.Retryable || p.RetryAfterMs != 90 || p.RetryAfterS != 1 ||
			len(p.ViolatedPolicies) != 1 || p.ViolatedPolicies[0] != "per-client" || p.ObservedAttempts == 0 {
			t.Errorf("%d %+v", a.status, p)
		}
		e, ok := h.gate.State().Explain(p.RequestID)
		if !ok || e.Reason != "rate_limited" || e.Rule != "per-client" || e.WaitMs != 90 {
			t.Errorf("explained as %+v", e)
		}
		if booked := h.gate.StatsAt(time.Now()).Slots.Booked; booked != 0 {
			t.Errorf("a rate limit booked %d places in the calendar", booked)
		}
		time.Sleep(89 * time.Millisecond)
		if a := h.ask(t.Context(), "GET", "/x", "X-Api-Key", "k"); a.status != http.StatusTooManyRequests || a.problem.RetryAfterMs != 1 {
			t.Errorf("a millisecond early: %d, wait %d ms", a.status, a.problem.RetryAfterMs)
		}
		time.Sleep(time.Millisecond)
		if a := h.ask(t.Context(), "GET", "/x", "X-Api-Key", "k"); a.status != http.StatusOK {
			t.Errorf("on time: %d", a.status)
		}
		if a := h.ask(t.Context(), "GET", "/x", "X-Api-Key", "other"); a.status != http.StatusOK {
			t.Errorf("another client: %d", a.status)
		}
	})
}

func TestRateLimitSpeaksPortuguese(t *testing.T) {
	c := limited(perClient("por-cliente", 1, time.Second, 1))
	c.Contract = overload.Config{Dialect: overload.DialectPortuguese}
	inBubble(t, c, answers, func(t *testing.T, h *house) {
		h.ask(t.Context(), "GET", "/x", "X-Api-Key", "k")
		a := h.ask(t.Context(), "GET", "/x", "X-Api-Key", "k")
		var said struct {
			Code      string `json:"erro"`
			Retryable bool   `json:"repetivel"`
			Seconds   int    `json:"tentar_apos_s"`
		}
		if err := json.Unmarshal([]byte(a.body), &said); err != nil {
			t.Fatal(err)
		}
		if a.status != http.StatusTooManyRequests || said.Code != "limite_excedido" || !said.Retryable || said.Seconds != 1 ||
			a.header.Get("Comporta-Decision") != "rate_limited" || a.header.Get("Ratelimit") == "" {
			t.Errorf("%d %s %v", a.status, a.body, a.header)
		}
	})
}

// A gRPC call hears RESOURCE_EXHAUSTED and a pushback.
func TestRateLimitSpeaksGRPC(t *testing.T) {
	inBubble(t, limited(perClient("per-client", 1, time.Second, 1)), answers, func(t *testing.T, h *house) {
		h.ask(t.Context(), "POST", "/pkg.Service/Call", "X-Api-Key", "k", "Content-Type", "application/grpc")
		a := h.ask(t.Context(), "POST", "/pkg.Service/Call", "X-Api-Key", "k", "Content-Type", "application/grpc")
		if a.status != http.StatusOK || a.header.Get("Grpc-Status") != "8" || a.header.Get("Grpc-Retry-Pushback-Ms") != "1000" || a.header.Get("Ratelimit") == "" {
			t.Errorf("%d %v", a.status, a.header)
		}
	})
}

// What can never fit is final, and so is who is on the list of the denied.
func TestRateLimitStops(t *testing.T) {
	never := perClient("bulk", 10, time.Second, 10)
	never.Cost, never.Match.Path = 11, "/bulk"
	c := limited(never)
	c.RateLimits.Deny.Networks = []netip.Prefix{netip.MustParsePrefix("192.0.2.66/32")}
	g, err := gate.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path, addr string
		want       comporta.Reason
	}{
		{"/bulk", "192.0.2.1", comporta.CostExceedsBurst},
		{"/other", "192.0.2.66", comporta.RateLimited},
		{"/other", "192.0.2.1", comporta.ReasonNone},
	} {
		d := g.Begin(time.Now(), &comporta.Request{Method: "GET", Path: tt.path, Remote: netip.MustParseAddr(tt.addr), Header: http.Header{}})
		if d.Reason != tt.want || d.Stop != (tt.want != comporta.ReasonNone) || !d.Due.IsZero() || d.Wait != 0 {
			t.Errorf("%s of %s: %v, stop %t, due %v", tt.path, tt.addr, d.Reason, d.Stop, d.Due)
		}
		d.FinishAt(time.Now(), comporta.Outcome{Status: 200, Result: comporta.ResultSuccess})
	}
	inBubble(t, limited(never), answers, func(t *testing.T, h *house) {
		a := h.ask(t.Context(), "GET", "/bulk", "X-Api-Key", "k")
		if a.status != http.StatusTooManyRequests || a.problem.Code != "cost_exceeds_burst" || a.problem.Retryable || a.header.Get("Retry-After") != "" {
			t.Errorf("%d %+v %v", a.status, a.problem, a.header)
		}
	})
}

// What the gate refuses after the rules have let it through is not charged.
func TestRefusedRequestsAreNotCharged(t *testing.T) {
	c := limited(perClient("per-client", 1, time.Hour, 3))
	c.Admission = gate.Admission{Capacity: 1, QueueWait: 20 * time.Millisecond}
	var release chan struct{}
	inBubble(t, c, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			<-release
		}
	}, func(t *testing.T, h *house) {
		release = make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.ask(t.Context(), "GET", "/hold", "X-Api-Key", "holder")
		}()
		synctest.Wait()
		for i := range 5 { // the queue's wait ends
			if a := h.ask(t.Context(), "GET", fmt.Sprintf("/full/%d", i), "X-Api-Key", "k"); a.problem.Code != "capacity_exhausted" {
				t.Fatalf("%d %+v", a.status, a.problem)
			}
		}
		for i := range 5 { // the caller leaves the queue
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			h.ask(ctx, "GET", fmt.Sprintf("/leaves/%d", i), "X-Api-Key", "k")
			cancel()
			synctest.Wait() // until the server knows
		}
		close(release)
		<-done
		for i := range 4 {
			a := h.ask(t.Context(), "GET", fmt.Sprintf("/fine/%d", i), "X-Api-Key", "k")
			if want := i < 3; (a.status == http.StatusOK) != want {
				t.Errorf("request %d: %d %s", i, a.status, a.problem.Code)
			}
		}
	})
}

// cases/ratelimit.md 16: a shadow counts, and neither denies nor speaks.
func TestCase_RateLimit_16_ShadowOnlyCounts(t *testing.T) {
	shadow := perClient("trial", 1, time.Hour, 1)
	shadow.Shadow = true
	inBubble(t, limited(shadow, perClient("real", 1, time.Hour, 3)), answers, func(t *testing.T, h *house) {
		for i := range 4 {
			a := h.ask(t.Context(), "GET", "/x", "X-Api-Key", "k")
			if want := i < 3; (a.status == http.StatusOK) != want || strings.Contains(a.header.Get("Ratelimit")+a.header.Get("Ratelimit-Policy"), "trial") {
				t.Errorf("request %d: %d %v", i, a.status, a.header)
			}
		}
		got := map[string]ratelimit.Counts{}
		for p, c := range h.gate.RateLimits {
			got[p.Name] = c
		}
		if got["trial"].WouldDeny < 2 || got["trial"].Denied != 0 || got["real"].Denied != 1 {
			t.Errorf("counted %+v", got)
		}
	})
}

// Exempt routes, preflights and what matches no rule are neither asked nor told.
func TestRateLimitsPassBy(t *testing.T) {
	rule := perClient("orders", 1, time.Hour, 1)
	rule.Match.Routes = []string{"orders", "health"}
	c := limited(rule)
	c.Routes = []gate.Route{{Match: "/orders", Name: "orders"}, {Match: "/health", Name: "health", Exempt: true}}
	inBubble(t, c, answers, func(t *testing.T, h *house) {
		for range 3 {
			for _, path := range []string{"/health", "/elsewhere"} {
				if a := h.ask(t.Context(), "GET", path, "X-Api-Key", "k"); a.status != http.StatusOK || a.header["Ratelimit"] != nil {
					t.Errorf("%s: %d %v", path, a.status, a.header)
				}
			}
			a := h.ask(t.Context(), "OPTIONS", "/orders", "X-Api-Key", "k", "Origin", "https://a.example", "Access-Control-Request-Method", "GET")
			if a.status != http.StatusOK || a.header["Ratelimit"] != nil {
				t.Errorf("preflight: %d %v", a.status, a.header)
			}
		}
		if a := h.ask(t.Context(), "GET", "/orders", "X-Api-Key", "k"); a.status != http.StatusOK || a.header["Ratelimit"] == nil {
			t.Errorf("orders: %d %v", a.status, a.header)
		}
	})
}

// Fields of the service's own stand beside ours if they are lists too.
func TestRateLimitFieldsMerge(t *testing.T) {
	const ours = `"per-client";r=9;t=1`
	for _, tt := range []struct {
		name   string
		theirs []string
		want   []string
	}{
		{"none", nil, []string{ours}},
		{"of their own", []string{`"theirs";r=3;t=2`}, []string{`"theirs";r=3;t=2`, ours}},
		{"two items", []string{`"a,b\"";r=3, "c";r=1;pk=:Ym9i:`}, []string{`"a,b\"";r=3, "c";r=1;pk=:Ym9i:`, ours}},
		{"an older draft", []string{`limit=100, remaining=50, reset=5`}, []string{ours}},
		{"a number", []string{`100`}, []string{ours}},
		{"cut off", []string{`"a;r=3`}, []string{ours}},
		{"an empty item", []string{`"a";r=3,`}, []string{ours}},
		{"two commas", []string{`"a";r=3,,"b"`}, []string{ours}},
		{"empty", []string{``}, []string{ours}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, limited(perClient("per-client", 1, time.Second, 10)), func(w http.ResponseWriter, _ *http.Request) {
				for _, line := range tt.theirs {
					w.Header().Add("RateLimit", line)
				}
			}, func(t *testing.T, h *house) {
				a := h.ask(t.Context(), "GET", "/x", "X-Api-Key", "k")
				if got := a.header["Ratelimit"]; fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// A refusal by the service, a failure and an answer without a body tell it as well.
func TestRateLimitFieldsOnEveryAnswer(t *testing.T) {
	inBubble(t, limited(perClient("per-client", 1, time.Second, 10)), func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/busy":
			overload.Busy(w, r, time.Second)
		case "/fails":
			http.Error(w, "no", http.StatusInternalServerError)
		case "/nothing":
			w.WriteHeader(http.StatusNoContent)
		}
	}, func(t *testing.T, h *house) {
		for _, path := range []string{"/busy", "/fails", "/nothing", "/fine"} {
			a := h.ask(t.Context(), "GET", path, "X-Api-Key", "k")
			if len(a.header["Ratelimit"]) != 1 || len(a.header["Ratelimit-Policy"]) != 1 {
				t.Errorf("%s: %d %v", path, a.status, a.header)
			}
		}
	})
}

// A reload keeps what keys have used, also under another limit.
func TestReloadKeepsRates(t *testing.T) {
	g, err := gate.New(limited(perClient("per-client", 10, time.Hour, 10)), nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	allowed := func(g *gate.Gate) (n int) {
		for {
			d := g.Begin(now, &comporta.Request{Method: "GET", Path: "/x", Remote: netip.MustParseAddr("192.0.2.1"), Header: http.Header{"X-Api-Key": {"k"}}})
			if d.Reason == comporta.RateLimited {
				return n
			}
			n++
			d.FinishAt(now, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess})
		}
	}
	if n := allowed(g); n != 10 {
		t.Fatalf("%d of a burst of 10", n)
	}
	for _, step := range []struct{ burst, want int }{{10, 0}, {20, 10}, {5, 0}} {
		next, err := gate.New(limited(perClient("per-client", 10, time.Hour, int64(step.burst))), g.State())
		if err != nil {
			t.Fatal(err)
		}
		if n := allowed(next); n != step.want {
			t.Errorf("after a reload to a burst of %d: %d more, want %d", step.burst, n, step.want)
		}
	}
	without, err := gate.New(gate.Config{}, g.State())
	if err != nil {
		t.Fatal(err)
	}
	if d := without.Begin(now, &comporta.Request{Method: "GET", Path: "/x", Header: http.Header{}}); d.Limits != nil {
		t.Error("rules that are gone are asked")
	}
}

// A denied request costs no body, where one that passes is read.
func TestRateLimitReadsNoBody(t *testing.T) {
	c := limited(perClient("per-client", 1, time.Hour, 2))
	c.Admission.Capacity = 4
	g, err := gate.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	ask := func(key string) gate.Decision {
		return g.Begin(time.Now(), &comporta.Request{
			Method: "POST", Path: "/x", Remote: netip.MustParseAddr("192.0.2.1"), Header: http.Header{"X-Api-Key": {key}},
			Body: digester(func() { read++ }), BodySize: 5,
		})
	}
	for _, key := range []string{"a", "b", "k"} { // half of the house is taken
		ask(key)
	}
	d := ask("k")
	d.FinishAt(time.Now(), comporta.Outcome{Status: 503, Result: comporta.ResultFailed})
	before := read
	if before == 0 {
		t.Fatal("no body was read at all")
	}
	for range 3 {
		if d := ask("k"); d.Reason != comporta.RateLimited {
			t.Errorf("got %v", d.Reason)
		}
	}
	if read != before {
		t.Errorf("%d bodies of denied requests were read", read-before)
	}
}

type digester func()

func (f digester) DigestBody() (uint64, bool) {
	f()
	return 1, true
}

func TestRateLimitProblems(t *testing.T) {
	bad := perClient("", 1, time.Second, 1)
	bad.Match.Routes = []string{"nowhere"}
	twice := perClient("twice", 1, time.Second, 1)
	c := limited(bad, twice, twice)
	c.RateLimits.Keys = 7
	if _, err := gate.New(c, nil); err == nil || !strings.Contains(err.Error(), "7 keys") {
		t.Errorf("got %v", err)
	}
	c.RateLimits.Keys = 0
	_, err := gate.New(c, nil)
	for _, want := range []string{"name", "nowhere", "twice"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not told: %v", want, err)
		}
	}
}

// cases/ratelimit.md 29 and 30, with the gate's own identities: what one peer
// invents, in whatever header, comes out of one bucket.
func TestCase_RateLimit_29_30_InventedIdentities(t *testing.T) {
	rule := perClient("per-client", 1, time.Hour, 5)
	rule.NoAggregates = false
	for _, header := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "X-Api-Key", "Authorization"} {
		t.Run(header, func(t *testing.T) {
			inBubble(t, limited(rule), func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusUnauthorized) // nothing here proves a credential
			}, func(t *testing.T, h *house) {
				passed := 0
				for i := range 300 {
					value := fmt.Sprintf("198.51.%d.%d", i/250, i%250)
					if header == "Forwarded" {
						value = "for=" + value
					}
					if a := h.ask(t.Context(), "GET", "/x", header, value); a.status != http.StatusTooManyRequests {
						passed++
					}
				}
				if passed != 5 {
					t.Errorf("%d requests of one peer passed, want 5", passed)
				}
			})
		})
	}
}
