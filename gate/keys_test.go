package gate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/memstore"
)

// counts holds how often each event of a keeper came.
type counts struct {
	mu sync.Mutex
	of map[idempotency.Event]int
}

func (c *counts) event(e idempotency.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[idempotency.Event]int{}
	}
	c.of[e]++
}

func (c *counts) wants(t *testing.T, e idempotency.Event, want int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[e] != want {
		t.Errorf("%d times %s, want %d: %v", c.of[e], e, want, c.of)
	}
}

// keyed is a house of a fixed size whose every route keeps keys.
type keyed struct {
	capacity int
	policy   idempotency.Policy
	store    func() store.Keys // nil: memory
	counts   counts
	trace    gate.Trace
	maxBody  int
	timeout  time.Duration // of /orders; 0: none
	keeper   *idempotency.Keeper
}

func (k *keyed) run(t *testing.T, service http.HandlerFunc, body func(t *testing.T, h *house)) {
	t.Helper()
	inBubbleOf(t, func() gate.Config {
		var s store.Keys = memstore.New(memstore.Config{})
		if k.store != nil {
			s = k.store()
		}
		var err error
		k.keeper, err = idempotency.New(idempotency.Config{Store: s, MaxBody: k.maxBody, Trace: idempotency.Trace{Event: k.counts.event}})
		if err != nil {
			t.Fatal(err)
		}
		c := static(max(k.capacity, 1), 0)
		if k.capacity == 0 {
			c = static(100, 0)
		}
		c.Idempotency = gate.Idempotency{Keeper: k.keeper, Other: &k.policy}
		if k.timeout > 0 {
			c.Routes = []gate.Route{{Match: "/orders", Name: "orders", Timeout: k.timeout, Idempotency: &k.policy}}
		}
		c.Trace = k.trace
		return c
	}, service, func(t *testing.T, h *house) {
		body(t, h)
		synctest.Wait()
		if err := k.keeper.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func (h *house) post(path, key, body string, header ...string) answer {
	return h.send(context.Background(), "POST", path, strings.NewReader(body), append([]string{"Idempotency-Key", key, "X-Api-Key", "a"}, header...)...)
}

// shop makes an order each time it is called.
type shop struct {
	orders atomic.Int64
	hold   chan struct{} // nil: it answers at once
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := s.orders.Add(1)
	b, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if s.hold != nil {
		<-s.hold
	}
	h := w.Header()
	h.Set("Location", fmt.Sprint("/orders/", n))
	h.Set("Content-Type", "text/x-order")
	for _, own := range []string{"Set-Cookie", "Date", "Age", "Connection", "Server-Timing", "Traceparent", "Tracestate", "X-Request-Id"} {
		h.Set(own, "mine")
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, "order %d: %s", n, b)
}

func (a *answer) replayed() bool { return a.header.Get("Idempotency-Replayed") == "true" }

func (a *answer) wants(t *testing.T, status int, code comporta.Reason) {
	t.Helper()
	if a.err != nil || a.status != status || a.problem.Code != code.String() {
		t.Fatalf("%d %q %v, want %d %v", a.status, a.body, a.err, status, code)
	}
	if retryable := code.Info().Retryable; retryable != (a.header.Get("Retry-After") != "") || a.problem.Retryable != retryable {
		t.Errorf("retryable %v: %v %+v", retryable, a.header, a.problem)
	}
}

// details checks the sentence for the developer.
func (a *answer) details(t *testing.T, want comporta.Detail) {
	t.Helper()
	if a.problem.Detail != want.String() {
		t.Errorf("detail %q, want %q", a.problem.Detail, want)
	}
}

// cases/proxy.md 36 and cases/events.md 42.
func TestCase_Proxy_F36_Events_E42_TheSameAnswerAgain(t *testing.T) {
	var s shop
	var j journal
	k := keyed{trace: j.trace()}
	k.run(t, s.ServeHTTP, func(t *testing.T, h *house) {
		first := h.post("/orders", `"k1"`, "one apple")
		if first.status != 201 || first.replayed() || first.header.Get("Set-Cookie") == "" {
			t.Fatalf("%+v", first)
		}
		for _, key := range []string{`"k1"`, "k1"} { // quoted and bare are one key
			again := h.post("/orders", key, "one apple")
			if again.status != 201 || again.body != first.body || !again.replayed() || again.header.Get("Comporta-Decision") != "replayed" {
				t.Fatalf("%+v", again)
			}
			if again.header.Get("Location") != "/orders/1" || again.header.Get("Content-Type") != "text/x-order" {
				t.Errorf("%v", again.header)
			}
			for _, own := range []string{"Set-Cookie", "Date", "Age", "Connection", "Server-Timing", "Traceparent", "Tracestate", "X-Request-Id"} {
				if again.header.Get(own) == "mine" {
					t.Errorf("%s is replayed", own)
				}
			}
		}
		if e := j.last(t); e.decision.Action != comporta.ActionReplay || e.outcome.Status != 201 || e.outcome.Result != comporta.ResultSuccess {
			t.Errorf("%+v", e)
		}
		for _, other := range []struct {
			path, body string
			detail     comporta.Detail
		}{
			{"/orders", "two apples", comporta.OtherBody},
			{"/orders?coupon=1", "one apple", comporta.OtherTarget},
			{"/orders/x", "one apple", comporta.OtherTarget},
		} {
			a := h.post(other.path, "k1", other.body)
			a.wants(t, 422, comporta.IdempotencyPayloadMismatch)
			a.details(t, other.detail)
		}
		if n := s.orders.Load(); n != 1 {
			t.Errorf("%d orders", n)
		}
		if a := h.post("/orders", "k2", "one apple"); a.status != 201 || a.replayed() || s.orders.Load() != 2 {
			t.Errorf("another key: %+v", a)
		}
	})
	k.counts.wants(t, idempotency.Executed, 2)
	k.counts.wants(t, idempotency.Recorded, 2)
	k.counts.wants(t, idempotency.Replayed, 2)
	k.counts.wants(t, idempotency.Mismatch, 3)
}

func TestCase_Events_E42_MissingAndInvalidKeys(t *testing.T) {
	var s shop
	k := keyed{policy: idempotency.Policy{Require: true}}
	k.run(t, s.ServeHTTP, func(t *testing.T, h *house) {
		a := h.ask(t.Context(), "POST", "/orders")
		a.wants(t, 400, comporta.IdempotencyKeyMissing)
		for key, detail := range map[string]comporta.Detail{
			`""`: comporta.KeyEmpty, `"a`: comporta.KeyUnclosed, "a b": comporta.KeyNotVisible,
			strings.Repeat("k", 256): comporta.KeyTooLong, `"a\"b"`: comporta.KeyQuotes,
		} {
			a := h.post("/orders", key, "x")
			a.wants(t, 400, comporta.IdempotencyKeyInvalid)
			a.details(t, detail)
		}
		req := httptest.NewRequest(http.MethodPost, "http://gate/orders", http.NoBody)
		req.Header["Idempotency-Key"] = []string{"a", "a"}
		two := httptest.NewRecorder()
		h.gate.Serve(two, req, &s)
		if !strings.Contains(two.Body.String(), comporta.KeySentTwice.String()) {
			t.Errorf("two lines: %s", two.Body)
		}
		if s.orders.Load() != 0 {
			t.Error("the service was asked")
		}
		if a := h.ask(t.Context(), "GET", "/orders"); a.status != 201 {
			t.Errorf("a safe method needs no key: %+v", a)
		}
		if a := h.post("/orders", strings.Repeat("k", 255), "x"); a.status != 201 {
			t.Errorf("the longest key: %+v", a)
		}
	})
	k.counts.wants(t, idempotency.KeyMissing, 1)
	k.counts.wants(t, idempotency.KeyInvalid, 6)
}

// Many clients offer h2c on every request: that must not switch keys off.
func TestUpgradeHeadersDoNotSwitchKeysOff(t *testing.T) {
	var s shop
	k := keyed{policy: idempotency.Policy{Require: true}}
	k.run(t, s.ServeHTTP, func(t *testing.T, h *house) {
		h.post("/orders", "k", "x")
		for _, header := range [][]string{
			{"Upgrade", "h2c"},
			{"Upgrade", "h2c", "Connection", "Upgrade, HTTP2-Settings", "Http2-Settings", "AAMAAABk"},
			{"Upgrade", "websocket", "Connection", "Upgrade"},
		} {
			if a := h.post("/orders", "k", "x", header...); !a.replayed() || a.status != 201 {
				t.Errorf("%v: %+v", header, a)
			}
			a := h.ask(t.Context(), "POST", "/orders", header...)
			a.wants(t, 400, comporta.IdempotencyKeyMissing)
		}
	})
	k.counts.wants(t, idempotency.Executed, 1)
}

// What is said on a connection that was taken over cannot be replayed.
func TestTakenOverConnectionLeavesItsKeyInDoubt(t *testing.T) {
	k := keyed{}
	k.run(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\nbye")
		_ = conn.Close()
	}, func(t *testing.T, h *house) {
		if a := h.post("/talk", "k", "x", "Connection", "Upgrade", "Upgrade", "talk"); a.status != 101 || a.body != "bye" {
			t.Fatalf("%+v", a)
		}
		a := h.post("/talk", "k", "x", "Connection", "Upgrade", "Upgrade", "talk")
		a.wants(t, 409, comporta.IdempotencyInProgress)
		time.Sleep(idempotency.DefaultLease)
		a = h.post("/talk", "k", "x", "Connection", "Upgrade", "Upgrade", "talk")
		a.wants(t, 409, comporta.IdempotencyOutcomeUnknown)
	})
	k.counts.wants(t, idempotency.Doubted, 1)
}

func TestCase_Proxy_F36_InFlightIsAConflict(t *testing.T) {
	var s shop
	k := keyed{}
	k.run(t, s.ServeHTTP, func(t *testing.T, h *house) {
		s.hold = make(chan struct{})
		var first answer
		var all sync.WaitGroup
		all.Go(func() { first = h.post("/orders", "k", "x") })
		synctest.Wait()
		time.Sleep(3 * time.Second)
		a := h.post("/orders", "k", "x")
		a.wants(t, 409, comporta.IdempotencyInProgress)
		if a.header.Get("Retry-After") != "3" { // as long as it has run
			t.Errorf("%v", a.header)
		}
		other := h.post("/orders?y", "k", "x")
		other.wants(t, 422, comporta.IdempotencyPayloadMismatch)
		if h.inflight() != 1 {
			t.Errorf("%d permits", h.inflight())
		}
		time.Sleep(2 * time.Minute) // longer than a lease: it is renewed
		late := h.post("/orders", "k", "x")
		late.wants(t, 409, comporta.IdempotencyInProgress)
		close(s.hold)
		all.Wait()
		if a := h.post("/orders", "k", "x"); !a.replayed() || a.body != first.body {
			t.Errorf("%+v", a)
		}
		if s.orders.Load() != 1 {
			t.Errorf("%d orders", s.orders.Load())
		}
	})
}

// Who stands by holds no permit and gets the first one's answer; more than 64 do not.
func TestCase_Proxy_F36_InFlightIsAwaited(t *testing.T) {
	var s shop
	k := keyed{capacity: 1, policy: idempotency.Policy{Wait: true}}
	k.run(t, s.ServeHTTP, func(t *testing.T, h *house) {
		s.hold = make(chan struct{})
		var mu sync.Mutex
		var all sync.WaitGroup
		answers := map[int]int{}
		for range 80 {
			all.Go(func() {
				a := h.post("/orders", "k", "x")
				mu.Lock()
				defer mu.Unlock()
				answers[a.status]++
			})
			synctest.Wait()
		}
		if h.inflight() != 1 {
			t.Errorf("%d permits", h.inflight())
		}
		close(s.hold)
		all.Wait()
		if answers[201] != 1+idempotency.MaxWaitersKey || answers[409] != 80-65 || s.orders.Load() != 1 {
			t.Errorf("%v, %d orders", answers, s.orders.Load())
		}
	})
	k.counts.wants(t, idempotency.Waited, 64)
	k.counts.wants(t, idempotency.Executed, 1)
}

// Those who stood by for a call that the service refused are told so at once, and do
// not try one after the other. The key is free.
func TestCase_Proxy_F36_RefusalsArePassedToThoseWhoStandBy(t *testing.T) {
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			var calls atomic.Int64
			k := keyed{capacity: 1, policy: idempotency.Policy{Wait: true}}
			k.run(t, func(w http.ResponseWriter, _ *http.Request) {
				if calls.Add(1) > 1 {
					w.WriteHeader(http.StatusCreated)
					return
				}
				time.Sleep(2 * time.Second)
				w.Header().Set("Retry-After", "7")
				w.Header().Set("Content-Type", "text/x-busy")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, "busy")
			}, func(t *testing.T, h *house) {
				var all sync.WaitGroup
				began := time.Now()
				for i := range 10 {
					if i == 1 {
						time.Sleep(time.Millisecond) // the first has its permit and its claim
					}
					all.Go(func() {
						a := h.post("/orders", "k", "x")
						after, err := strconv.Atoi(a.header.Get("Retry-After"))
						if a.status != status || a.body != "busy" || a.replayed() || err != nil || after < 7 || a.header.Get("Content-Type") != "text/x-busy" {
							t.Errorf("%+v", a)
						}
						if took := time.Since(began); took != 2*time.Second {
							t.Errorf("told after %v", took)
						}
					})
				}
				all.Wait()
				if calls.Load() != 1 || h.inflight() != 0 {
					t.Errorf("%d calls, %d permits", calls.Load(), h.inflight())
				}
				if a := h.post("/orders", "k", "x"); a.status != 201 || a.replayed() || calls.Load() != 2 {
					t.Errorf("the key is not free: %+v", a)
				}
			})
			k.counts.wants(t, idempotency.Waited, 9)
			k.counts.wants(t, idempotency.Executed, 2)
		})
	}
}

// A service that says that a repeat cannot help is not made to promise a time.
func TestFinalRefusalsArePassedAsFinal(t *testing.T) {
	k := keyed{policy: idempotency.Policy{Wait: true}}
	k.run(t, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(2 * time.Second)
		w.Header().Set("X-Should-Retry", "false")
		w.WriteHeader(http.StatusServiceUnavailable)
	}, func(t *testing.T, h *house) {
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				a := h.post("/orders", "k", "x")
				if a.status != 503 || a.header.Get("X-Should-Retry") != "false" || a.header.Get("Retry-After") != "" {
					t.Errorf("%+v", a)
				}
			})
		}
		all.Wait()
	})
	k.counts.wants(t, idempotency.Waited, 2)
	k.counts.wants(t, idempotency.Executed, 1)
}

// A 401 is about the credentials of one try. Who stands by with better ones is
// carried out, and neither is told when to come, or not to.
func TestUnauthorizedIsForItsCallerAlone(t *testing.T) {
	var served []string
	k := keyed{policy: idempotency.Policy{Wait: true}}
	k.run(t, func(w http.ResponseWriter, r *http.Request) {
		token := r.Header.Get("Authorization")
		served = append(served, token)
		time.Sleep(2 * time.Second)
		if token == "Bearer old" {
			w.Header().Set("Www-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}, func(t *testing.T, h *house) {
		check := func(token string, status int, replayed bool) {
			a := h.post("/orders", "k", "x", "Authorization", token)
			if a.status != status || a.replayed() != replayed || (a.header.Get("Www-Authenticate") != "") != (status == 401) {
				t.Errorf("%s: %+v", token, a)
			}
			if a.header.Get("X-Should-Retry") != "" || a.header.Get("Retry-After") != "" {
				t.Errorf("%s: told %v", token, a.header)
			}
		}
		var all sync.WaitGroup
		all.Go(func() { check("Bearer old", 401, false) })
		time.Sleep(time.Second) // it has its claim
		all.Go(func() { check("Bearer new", 201, false) })
		all.Wait()
		check("Bearer newer", 201, true)
		if got := strings.Join(served, ","); got != "Bearer old,Bearer new" {
			t.Errorf("served %s", got)
		}
	})
	k.counts.wants(t, idempotency.Released, 1)
	k.counts.wants(t, idempotency.Recorded, 1)
}

// A finished key is replayed when the house is full, and takes no permit.
func TestReplayNeedsNoPermit(t *testing.T) {
	var s shop
	k := keyed{capacity: 1}
	hold := make(chan struct{})
	k.run(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			<-hold
		}
		s.ServeHTTP(w, r)
	}, func(t *testing.T, h *house) {
		hold = make(chan struct{})
		first := h.post("/orders", "k", "x")
		var all sync.WaitGroup
		all.Go(func() { h.ask(t.Context(), "GET", "/hold") })
		synctest.Wait()
		if a := h.post("/orders", "k", "x"); !a.replayed() || a.body != first.body {
			t.Errorf("in a full house: %+v", a)
		}
		if a := h.post("/orders", "k", "y"); a.status != 422 {
			t.Errorf("in a full house: %+v", a)
		}
		if a := h.post("/orders", "new", "x"); a.status != 503 {
			t.Errorf("a new key in a full house: %+v", a)
		}
		close(hold)
		all.Wait()
		if a := h.post("/orders", "new", "x"); a.status != 201 || a.replayed() {
			t.Errorf("a refusal claimed the key: %+v", a)
		}
	})
}

// cases/events.md 44.
func TestCase_Events_E44_KeysBelongToTheirClient(t *testing.T) {
	var s shop
	k := keyed{}
	k.run(t, s.ServeHTTP, func(t *testing.T, h *house) {
		seen := map[string]bool{}
		for i, header := range [][]string{
			{"X-Api-Key", "a"}, {"X-Api-Key", "b"}, {"Authorization", "Bearer a"},
			{"Cookie", "session=a"}, {"Cookie", "session=b"}, {}, // one network
		} {
			header = append(header, "Idempotency-Key", "k")
			a := h.send(t.Context(), "POST", "/orders", strings.NewReader("x"), header...)
			if a.status != 201 || a.replayed() || seen[a.body] {
				t.Errorf("client %d got another's answer: %+v", i, a)
			}
			seen[a.body] = true
			if again := h.send(t.Context(), "POST", "/orders", strings.NewReader("x"), header...); !again.replayed() || again.body != a.body {
				t.Errorf("client %d: %+v", i, again)
			}
		}
		put := h.send(t.Context(), "PUT", "/orders", strings.NewReader("x"), "X-Api-Key", "a", "Idempotency-Key", "k")
		if put.replayed() || put.status != 201 {
			t.Errorf("another method: %+v", put)
		}
	})
}

func TestWhatBecomesOfFailures(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy idempotency.Policy
		answer func(w http.ResponseWriter, r *http.Request)
		again  string // replayed, executed, in_progress
		status int    // of the first answer
	}{
		{"202 says when to look", idempotency.Policy{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusAccepted)
		}, "replayed", 202},
		{"500 is replayed", idempotency.Policy{}, status(500), "replayed", 500},
		{"500 released", idempotency.Policy{Release5xx: true}, status(500), "executed", 500},
		{"404 is replayed", idempotency.Policy{}, status(404), "replayed", 404},
		{"401 is not stored", idempotency.Policy{}, status(401), "executed", 401},
		{"407 is not stored", idempotency.Policy{}, status(407), "executed", 407},
		{"421 is not stored", idempotency.Policy{}, status(421), "executed", 421},
		{"425 is not stored", idempotency.Policy{}, status(425), "executed", 425},
		{"408 is replayed", idempotency.Policy{}, status(408), "replayed", 408},
		{"429 is not stored", idempotency.Policy{}, status(429), "executed", 429},
		{"503 is not stored", idempotency.Policy{}, status(503), "executed", 503},
		{"503 in doubt", idempotency.Policy{Doubt503: true}, status(503), "in_progress", 503},
		{"busy service", idempotency.Policy{}, func(w http.ResponseWriter, r *http.Request) { overload.Busy(w, r, time.Second) }, "executed", 503},
		{"deterministic", idempotency.Policy{}, func(w http.ResponseWriter, r *http.Request) { overload.Deterministic(w, r, 422, "sold_out", "") }, "replayed", 422},
		{"dial failed", idempotency.Policy{}, refuse(comporta.UpstreamUnavailable), "executed", 503},
		{"patience was spent before", idempotency.Policy{}, refuse(comporta.DeadlineExceeded), "executed", 504},
		{"hung up", idempotency.Policy{}, refuse(comporta.UpstreamFailed), "in_progress", 502},
		{"timed out", idempotency.Policy{}, refuse(comporta.UpstreamTimeout), "in_progress", 504},
		{"its own body broke", idempotency.Policy{}, refuse(comporta.MalformedRequest), "in_progress", 400},
		{"panicked", idempotency.Policy{}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "in_progress", 0},
		{"cut short", idempotency.Policy{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "short")
			panic(http.ErrAbortHandler)
		}, "in_progress", 0},
		{"shorter than it said", idempotency.Policy{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "short")
		}, "in_progress", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			calls := 0
			k := keyed{policy: tc.policy}
			k.run(t, func(w http.ResponseWriter, r *http.Request) {
				calls++
				tc.answer(w, r)
			}, func(t *testing.T, h *house) {
				first := h.post("/x", "k", "body")
				if tc.status == 0 && first.err == nil || tc.status != 0 && first.status != tc.status {
					t.Fatalf("%+v", first)
				}
				if tc.again == "in_progress" && first.problem.Code != "" {
					again := tc.status >= 500
					if p := first.problem; p.Outcome != "unknown" || p.Retryable != again || again && p.RetryAfterMs < 29_000 {
						t.Errorf("the first is told %+v", p)
					}
				}
				again := h.post("/x", "k", "body")
				switch tc.again {
				case "executed":
					if calls != 2 || again.replayed() {
						t.Errorf("%d calls: %+v", calls, again)
					}
				case "replayed":
					if calls != 1 || !again.replayed() || again.status != tc.status || again.body != first.body {
						t.Errorf("%d calls: %+v", calls, again)
					}
					if (again.header.Get("X-Should-Retry") == "false") != (tc.status >= 400) {
						t.Errorf("a repeat under the key is the same again: %v", again.header)
					}
					if kept := again.header.Get("Retry-After") == "7"; kept != (tc.status < 400) {
						t.Errorf("Retry-After %q", again.header.Get("Retry-After"))
					}
				case "in_progress":
					again.wants(t, 409, comporta.IdempotencyInProgress)
					time.Sleep(31 * time.Second)
					lapsed := h.post("/x", "k", "body")
					lapsed.wants(t, 409, comporta.IdempotencyOutcomeUnknown)
					if calls != 1 {
						t.Errorf("%d calls", calls)
					}
				}
			})
		})
	}
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `{"what":"happened"}`)
	}
}

func refuse(reason comporta.Reason) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		overload.Refuse(w, r, &overload.Refusal{Reason: reason})
	}
}

// cases/events.md 46: the lease is short and the record long; after the lease the
// policy decides, and nobody is told for a day that it still runs.
func TestCase_Events_E46_AfterTheLeaseThePolicyDecides(t *testing.T) {
	for _, execute := range []bool{false, true} {
		t.Run(fmt.Sprint("execute ", execute), func(t *testing.T) {
			calls := 0
			k := keyed{policy: idempotency.Policy{ExecuteUnknown: execute}}
			k.run(t, func(w http.ResponseWriter, _ *http.Request) {
				if calls++; calls == 1 {
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, "done")
			}, func(t *testing.T, h *house) {
				if a := h.post("/x", "k", "x"); a.err == nil {
					t.Fatalf("%+v", a)
				}
				a := h.post("/x", "k", "x")
				a.wants(t, 409, comporta.IdempotencyInProgress)
				// There is no news before the lease ends, and the client is told so at once.
				time.Sleep(time.Duration(a.problem.RetryAfterMs) * time.Millisecond)
				a = h.post("/x", "k", "x")
				if other := h.post("/x", "k", "other"); execute && other.status != 422 {
					t.Errorf("%+v", other)
				}
				if !execute {
					a.wants(t, 409, comporta.IdempotencyOutcomeUnknown)
					time.Sleep(24 * time.Hour)
					if a := h.post("/x", "k", "x"); a.status != 200 || calls != 2 {
						t.Errorf("after its time: %d calls, %+v", calls, a)
					}
					return
				}
				if a.status != 200 || a.body != "done" || calls != 2 {
					t.Fatalf("%d calls, %+v", calls, a)
				}
				if a := h.post("/x", "k", "x"); !a.replayed() || calls != 2 {
					t.Errorf("%d calls, %+v", calls, a)
				}
			})
			if execute {
				k.counts.wants(t, idempotency.TakenOver, 1)
			}
		})
	}
}

// The work goes on for a caller who has left, with its permit, and the next repeat
// collects it.
func TestWorkOutlivesItsCaller(t *testing.T) {
	var s shop
	var j journal
	k := keyed{trace: j.trace()}
	k.run(t, s.ServeHTTP, func(t *testing.T, h *house) {
		s.hold = make(chan struct{})
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan answer, 1)
		go func() {
			gone <- h.send(ctx, "POST", "/orders", strings.NewReader("x"), "Idempotency-Key", "k", "X-Api-Key", "a")
		}()
		synctest.Wait()
		leave()
		if a := <-gone; !errors.Is(a.err, context.Canceled) {
			t.Fatalf("%+v", a)
		}
		synctest.Wait()
		if h.inflight() != 1 {
			t.Errorf("%d permits while the work goes on", h.inflight())
		}
		a := h.post("/orders", "k", "x")
		a.wants(t, 409, comporta.IdempotencyInProgress)
		close(s.hold)
		synctest.Wait()
		if h.inflight() != 0 {
			t.Errorf("%d permits after the work", h.inflight())
		}
		if e := j.last(t); e.outcome.Result != comporta.ResultSuccess || e.outcome.Status != 201 {
			t.Errorf("%+v", e)
		}
		if a := h.post("/orders", "k", "x"); !a.replayed() || a.body != "order 1: x" {
			t.Errorf("%+v", a)
		}
	})
	k.counts.wants(t, idempotency.Late, 1)
}

// The service is told how long its work may take, and not how long its caller waits:
// it would end what is to outlive the caller.
func TestPatienceOfTheCallerIsNotThatOfTheWork(t *testing.T) {
	for _, tc := range []struct {
		name   string
		bound  time.Duration
		header string
		want   string
	}{
		{"gRPC", 0, "Grpc-Timeout", ""},
		{"ours", 0, "Request-Timeout-Ms", ""},
		{"Envoy", 0, "X-Envoy-Expected-Rq-Timeout-Ms", ""},
		{"gRPC, bounded", 5 * time.Second, "Grpc-Timeout", "5000m"},
		{"ours, bounded", 5 * time.Second, "Request-Timeout-Ms", "5000"},
		{"Envoy, bounded", 5 * time.Second, "X-Envoy-Expected-Rq-Timeout-Ms", "5000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var told http.Header
			k := keyed{timeout: tc.bound}
			k.run(t, func(w http.ResponseWriter, r *http.Request) {
				told = r.Header.Clone()
				select {
				case <-time.After(3 * time.Second):
				case <-r.Context().Done():
					t.Error("ended with the caller's patience")
				}
				_, _ = io.WriteString(w, "done")
			}, func(t *testing.T, h *house) {
				value := "1000"
				if tc.header == "Grpc-Timeout" {
					value = "1S"
				}
				if a := h.post("/orders", "k", "x", tc.header, value); a.body != "done" {
					t.Errorf("%+v", a)
				}
				if got := told.Get(tc.header); got != tc.want {
					t.Errorf("%s: %q, want %q", tc.header, got, tc.want)
				}
				if a := h.post("/orders", "k", "x"); !a.replayed() {
					t.Errorf("%+v", a)
				}
			})
		})
	}
}

// cases/events.md 18: nobody waits for ever for a caller who has left.
func TestCase_Events_B18_WorkForNobodyIsBounded(t *testing.T) {
	var cause error
	k := keyed{}
	k.run(t, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		cause = context.Cause(r.Context())
		panic(http.ErrAbortHandler)
	}, func(t *testing.T, h *house) {
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		h.send(ctx, "POST", "/x", strings.NewReader("x"), "Idempotency-Key", "k", "X-Api-Key", "a")
		synctest.Wait()
		if h.inflight() != 1 {
			t.Errorf("%d permits", h.inflight())
		}
		time.Sleep(idempotency.DefaultLinger + time.Second)
		synctest.Wait()
		if h.inflight() != 0 || cause == nil {
			t.Errorf("%d permits, %v", h.inflight(), cause)
		}
		a := h.post("/x", "k", "x")
		a.wants(t, 409, comporta.IdempotencyInProgress)
	})
	k.counts.wants(t, idempotency.Doubted, 1)
}

// A body that does not arrive claims nothing.
func TestBrokenUploadLeavesTheKeyFree(t *testing.T) {
	var s shop
	k := keyed{}
	k.run(t, s.ServeHTTP, func(t *testing.T, h *house) {
		broken, w := io.Pipe()
		go func() {
			_, _ = io.WriteString(w, "half of")
			_ = w.CloseWithError(errors.New("the cable broke"))
		}()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://service/orders", broken)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = 1000
		req.Header.Set("Idempotency-Key", "k")
		req.Header.Set("X-Api-Key", "a")
		if resp, err := h.client.Do(req); err == nil {
			_ = resp.Body.Close()
			t.Fatal(resp.Status)
		}
		synctest.Wait()
		if a := h.post("/orders", "k", "whole"); a.status != 201 || a.replayed() || a.body != "order 1: whole" {
			t.Errorf("%+v", a)
		}
	})
}

// Large bodies pass without being held, and are told apart all the same.
func TestLargeBodiesAreDigestedAsTheyPass(t *testing.T) {
	var s shop
	k := keyed{maxBody: 1 << 20}
	large := strings.Repeat("x", 300<<10)
	k.run(t, s.ServeHTTP, func(t *testing.T, h *house) {
		for _, chunked := range []bool{false, true} {
			key := strconv.FormatBool(chunked)
			send := func(body string) answer {
				var r io.Reader = strings.NewReader(body)
				if chunked {
					r = io.MultiReader(r)
				}
				return h.send(t.Context(), "POST", "/orders", r, "Idempotency-Key", key, "X-Api-Key", "a")
			}
			first := send(large)
			if first.status != 201 || h.gate.StatsAt(time.Now()).BufferedBytes != 0 {
				t.Fatalf("%d, %d bytes held", first.status, h.gate.StatsAt(time.Now()).BufferedBytes)
			}
			if a := send(large); !a.replayed() || a.body != first.body {
				t.Errorf("the same: %d %v", a.status, a.header)
			}
			for what, other := range map[string]string{"shorter": large[1:], "longer": large + "x", "other": large[1:] + "y", "small": "x"} {
				a := send(other)
				if a.status != 422 {
					t.Errorf("%s: %d", what, a.status)
				}
				a.details(t, comporta.OtherBody)
			}
		}
	})
}

// A service that answers before it has read its body: that part decides.
func TestEarlyAnswerIsToldApartByWhatWasRead(t *testing.T) {
	k := keyed{}
	k.run(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, 100<<10)
		_, _ = io.WriteString(w, "enough")
	}, func(t *testing.T, h *house) {
		body := func(at int) string {
			b := bytes.Repeat([]byte("x"), 200<<10)
			b[at] = 'y'
			return string(b)
		}
		h.post("/x", "k", body(1))
		if a := h.post("/x", "k", body(1)); !a.replayed() {
			t.Errorf("the same: %d %s", a.status, a.body)
		}
		if a := h.post("/x", "k", body(2)); a.status != 422 {
			t.Errorf("another: %d", a.status)
		}
	})
}

// What is too large to keep is recorded as done, and said to be.
func TestAnswerTooLargeToKeep(t *testing.T) {
	calls := 0
	k := keyed{maxBody: 10}
	k.run(t, func(w http.ResponseWriter, _ *http.Request) {
		calls++
		_, _ = io.WriteString(w, strings.Repeat("x", 11))
	}, func(t *testing.T, h *house) {
		if a := h.post("/x", "k", "x"); a.status != 200 || len(a.body) != 11 {
			t.Fatalf("%+v", a)
		}
		a := h.post("/x", "k", "x")
		a.wants(t, 409, comporta.IdempotencyAnswerNotKept)
		if calls != 1 || a.problem.Outcome != "completed" || !strings.Contains(a.problem.Detail, "200") {
			t.Errorf("%d calls, %+v", calls, a.problem)
		}
	})
	k.counts.wants(t, idempotency.BodyNotKept, 1)
}

// slow is a store each of whose changes takes a while.
type slow struct {
	store.Keys

	takes time.Duration
}

func (s *slow) Claim(ctx context.Context, now time.Time, c store.Claim) (store.Claimed, error) {
	time.Sleep(s.takes)
	return s.Keys.Claim(ctx, now, c)
}

func (s *slow) Finish(ctx context.Context, now time.Time, h store.Hold, f store.Finish) error {
	time.Sleep(s.takes)
	return s.Keys.Finish(ctx, now, h, f)
}

// The answer leaves when it is recorded, and what that takes teaches nobody.
func TestStoreLatencyIsNotTheServices(t *testing.T) {
	var j journal
	k := keyed{trace: j.trace(), store: func() store.Keys { return &slow{memstore.New(memstore.Config{}), 400 * time.Millisecond} }}
	k.run(t, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(100 * time.Millisecond)
		_, _ = io.WriteString(w, "done")
	}, func(t *testing.T, h *house) {
		start := time.Now()
		h.post("/x", "k", "x")
		if took := time.Since(start); took != 900*time.Millisecond {
			t.Errorf("answered after %v", took)
		}
		if o := j.last(t).outcome; o.Latency != 100*time.Millisecond {
			t.Errorf("the service is said to have taken %v", o.Latency)
		}
	})
}

// failing is a store that is down.
type failing struct {
	store.Keys

	down atomic.Bool
}

var errCable = errors.New("the cable is out")

func (f *failing) Claim(ctx context.Context, now time.Time, c store.Claim) (store.Claimed, error) {
	if f.down.Load() {
		return store.Claimed{}, errCable
	}
	return f.Keys.Claim(ctx, now, c)
}

func (f *failing) Finish(ctx context.Context, now time.Time, h store.Hold, fin store.Finish) error {
	if f.down.Load() {
		return errCable
	}
	return f.Keys.Finish(ctx, now, h, fin)
}

// cases/events.md 9: what cannot be claimed is not carried out, unless the route says so.
func TestCase_Events_A9_StoreDown(t *testing.T) {
	for _, pass := range []bool{false, true} {
		t.Run(fmt.Sprint("pass ", pass), func(t *testing.T) {
			var s shop
			f := &failing{}
			k := keyed{policy: idempotency.Policy{Pass: pass}, store: func() store.Keys {
				f.Keys = memstore.New(memstore.Config{})
				return f
			}}
			k.run(t, s.ServeHTTP, func(t *testing.T, h *house) {
				f.down.Store(true)
				for range 10 {
					a := h.post("/orders", "k", "x")
					if pass && (a.status != 201 || a.replayed()) {
						t.Errorf("%+v", a)
					} else if !pass {
						a.wants(t, 503, comporta.IdempotencyUnavailable)
					}
				}
				f.down.Store(false)
				time.Sleep(2 * time.Second)
				before := s.orders.Load()
				a := h.post("/orders", "k", "x")
				if b := h.post("/orders", "k", "x"); a.status != 201 || !b.replayed() || s.orders.Load() != before+1 {
					t.Errorf("after it is back: %+v, then %+v", a, b)
				}
				if !pass && before != 0 {
					t.Errorf("%d orders", before)
				}
			})
		})
	}
}

// The store fails while the service works: the answer is given, for it is true, and
// recorded when the store is back.
func TestStoreDownAtTheEnd(t *testing.T) {
	var s shop
	f := &failing{}
	k := keyed{store: func() store.Keys {
		f.Keys = memstore.New(memstore.Config{})
		return f
	}}
	k.run(t, func(w http.ResponseWriter, r *http.Request) {
		f.down.Store(true)
		s.ServeHTTP(w, r)
	}, func(t *testing.T, h *house) {
		first := h.post("/orders", "k", "x")
		if first.status != 201 {
			t.Fatalf("%+v", first)
		}
		a := h.post("/orders", "k", "x")
		a.wants(t, 409, comporta.IdempotencyInProgress)
		time.Sleep(5 * time.Second)
		f.down.Store(false)
		time.Sleep(2 * time.Second)
		if a := h.post("/orders", "k", "x"); !a.replayed() || a.body != first.body || s.orders.Load() != 1 {
			t.Errorf("%+v", a)
		}
	})
	k.counts.wants(t, idempotency.Unrecorded, 1)
	k.counts.wants(t, idempotency.Recorded, 1)
}

func TestPolicyWithoutAKeeperIsAnError(t *testing.T) {
	p := &idempotency.Policy{TTL: time.Millisecond}
	_, err := gate.New(gate.Config{Routes: []gate.Route{{Match: "/a", Name: "a", Idempotency: p}}}, nil)
	if err == nil || !strings.Contains(err.Error(), "Keeper is nil") {
		t.Errorf("%v", err)
	}
	k, err := idempotency.New(idempotency.Config{Store: memstore.New(memstore.Config{})})
	if err != nil {
		t.Fatal(err)
	}
	_, err = gate.New(gate.Config{Idempotency: gate.Idempotency{Keeper: k, Other: p}}, nil)
	if err == nil || !strings.Contains(err.Error(), "TTL 1ms") {
		t.Errorf("%v", err)
	}
}

// A request under a key stands in the queue like any other, and claims when it is in.
func TestKeyedRequestsQueue(t *testing.T) {
	var s shop
	inBubbleOf(t, func() gate.Config {
		k, err := idempotency.New(idempotency.Config{Store: memstore.New(memstore.Config{})})
		if err != nil {
			t.Fatal(err)
		}
		c := static(1, 10*time.Second)
		c.Idempotency = gate.Idempotency{Keeper: k, Other: &idempotency.Policy{}}
		return c
	}, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(2 * time.Second)
		s.ServeHTTP(w, r)
	}, func(t *testing.T, h *house) {
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				if a := h.post("/orders", strconv.Itoa(i), "x"); a.status != 201 || a.replayed() {
					t.Errorf("%+v", a)
				}
			})
			synctest.Wait()
		}
		if st := h.gate.StatsAt(time.Now()); st.Inflight != 1 || st.Waiting != 1 {
			t.Errorf("%d in flight, %d waiting", st.Inflight, st.Waiting)
		}
		all.Wait()
		if s.orders.Load() != 2 {
			t.Errorf("%d orders", s.orders.Load())
		}
	})
}

// A caller that waits to be asked for its body is asked once: by the gate, where it
// reads the body before the claim, and else by the service.
func TestTheBodyIsAskedForOnce(t *testing.T) {
	var expects []string
	k := keyed{}
	k.run(t, func(_ http.ResponseWriter, r *http.Request) { expects = append(expects, r.Header.Get("Expect")) }, func(t *testing.T, h *house) {
		for _, key := range []string{"k", ""} {
			header := []string{"X-Api-Key", "a", "Expect", "100-continue"}
			if key != "" {
				header = append(header, "Idempotency-Key", key)
			}
			if a := h.send(t.Context(), "POST", "/orders", strings.NewReader("x"), header...); a.status != 200 {
				t.Errorf("%+v", a)
			}
		}
	})
	if want := []string{"", "100-continue"}; !slices.Equal(expects, want) {
		t.Errorf("the service was told %q, want %q", expects, want)
	}
}
