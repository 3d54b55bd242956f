//go:build integration

package test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// ledger is a service that counts how often each key was carried out. Its answer has
// the status that the query asks for; one with cut in it breaks off.
type ledger struct {
	url   string
	total atomic.Int64

	mu    sync.Mutex
	times map[string]int
}

// newLedger serves one. before is called before each operation is carried out,
// after behind it; nil does nothing.
func newLedger(t *testing.T, before, after func(key string, r *http.Request)) *ledger {
	t.Helper()
	l := &ledger{times: map[string]int{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		body, err := io.ReadAll(r.Body) // first: else nobody looks whether the caller is still there
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if before != nil {
			before(key, r)
		}
		l.mu.Lock()
		l.times[key]++
		n := l.times[key]
		l.mu.Unlock()
		l.total.Add(1)
		if after != nil {
			after(key, r)
		}
		h, query := w.Header(), r.URL.Query()
		h.Set("Location", "/orders/"+key)
		h.Set("Set-Cookie", "session=first")
		h.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		if query.Has("cut") {
			h.Set("Content-Length", "1000")
		}
		status, err := strconv.Atoi(query.Get("status"))
		if err != nil {
			status = http.StatusCreated
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "%s, time %d, for %s: %s", key, n, r.Header.Get("X-Api-Key"), body)
	}))
	t.Cleanup(s.Close)
	l.url = s.URL
	return l
}

// newHangingLedger serves one that tells arrived when it has carried something out, and
// then hangs; until heal is called.
func newHangingLedger(t *testing.T) (l *ledger, arrived <-chan struct{}, heal func()) {
	t.Helper()
	came := make(chan struct{}, 16)
	var healed atomic.Bool
	l = newLedger(t, nil, func(_ string, r *http.Request) {
		if !healed.Load() {
			came <- struct{}{}
			<-r.Context().Done()
		}
	})
	return l, came, func() { healed.Store(true) }
}

// of is how often a key was carried out.
func (l *ledger) of(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.times[key]
}

// keyed starts a gateway that keeps keys in front of a ledger. /lenient does what is
// done unless nothing is known, /patient has repeats stand by. more goes into the
// section idempotency, sections stand beside it.
func keyed(t *testing.T, p place, upstream, more string, sections ...string) *gateway {
	t.Helper()
	file := filepath.Join(t.TempDir(), "comporta.yaml")
	write(t, file, fmt.Sprintf(`admission: {capacity: 500}
access_log: {format: off}
routes: [{match: POST /lenient, name: lenient}, {match: POST /patient, name: patient}]
store: %s
idempotency: {routes: [other, %s, {route: patient, in_flight: wait}], on_503: release, timeout: 20s%s}
%s
`, p.section(), "{route: lenient, on_5xx: release, on_unknown: execute, on_store_failure: pass}", more, strings.Join(sections, "\n")))
	g := serve(t, "-config", file, "-upstream", upstream)
	g.file = file
	return g
}

// anew is the gateway in a new process: what it knows of keys is from the store.
func (g *gateway) anew(t *testing.T, upstream string) *gateway {
	t.Helper()
	g.stop(t)
	next := serve(t, "-config", g.file, "-upstream", upstream)
	next.file = g.file
	return next
}

// said is an answer as far as keys are concerned.
type said struct {
	status   int
	replayed bool
	code     string // of a refusal
	after    time.Duration
	body     string
	header   http.Header
	err      error
}

// caller is a client of the tests with connections of its own.
var caller = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}, Timeout: time.Minute}

func post(ctx context.Context, url, client, key, body string) said {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return said{err: err}
	}
	req.GetBody = nil // else net/http repeats what breaks off under a key, and nobody hears of it
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	req.Header.Set("X-Api-Key", client)
	res, err := caller.Do(req)
	if err != nil {
		return said{err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return said{err: err}
	}
	s := said{status: res.StatusCode, replayed: res.Header.Get("Idempotency-Replayed") == "true", body: string(b), header: res.Header}
	if s.code = res.Header.Get("Comporta-Decision"); s.replayed {
		s.code = ""
	}
	if n, err := strconv.Atoi(res.Header.Get("Retry-After-Ms")); err == nil {
		s.after = time.Duration(n) * time.Millisecond
	}
	return s
}

// cases/proxy.md 36 and cases/events.md 42.
func TestCase_Proxy_F36_Events_E42_OnEveryEngine(t *testing.T) {
	onEngines(t, func(t *testing.T, p place, key func(string) string) {
		arrived, leave := make(chan struct{}, 1), make(chan struct{})
		l := newLedger(t, nil, func(k string, _ *http.Request) {
			if strings.HasSuffix(k, "slow") {
				arrived <- struct{}{}
				<-leave
			}
		})
		g := keyed(t, p, l.url, ", require: true")
		k := key("k")
		first := post(t.Context(), g.url+"/orders", "a", k, "apple")
		g = g.anew(t, l.url)
		again := post(t.Context(), g.url+"/orders", "a", `"`+k+`"`, "apple")
		if first.status != 201 || first.replayed || !again.replayed || again.status != 201 || again.body != first.body || again.header.Get("Location") != "/orders/"+k {
			t.Errorf("%+v\n%+v", first, again)
		}
		for _, own := range []string{"Set-Cookie", "Traceparent"} {
			if first.header.Get(own) == "" || again.header.Get(own) != "" {
				t.Errorf("%s: first %q, again %q", own, first.header.Get(own), again.header.Get(own))
			}
		}
		if s := post(t.Context(), g.url+"/orders", "a", k, "pear"); s.status != 422 || s.code != "idempotency_payload_mismatch" {
			t.Errorf("another body: %+v", s)
		}
		if s := post(t.Context(), g.url+"/orders", "a", "", "apple"); s.status != 400 || s.code != "idempotency_key_missing" {
			t.Errorf("no key: %+v", s)
		}
		for _, bad := range []string{`""`, `"` + k, k + " " + k, strings.Repeat("k", 256)} {
			if s := post(t.Context(), g.url+"/orders", "a", bad, "apple"); s.status != 400 || s.code != "idempotency_key_invalid" {
				t.Errorf("%s: %+v", bad, s)
			}
		}
		done := make(chan said, 2)
		slow := func() { done <- post(context.Background(), g.url+"/patient", "a", key("slow"), "apple") }
		go slow()
		<-arrived
		if s := post(t.Context(), g.url+"/patient?pears", "a", key("slow"), "apple"); s.status != 422 || s.code != "idempotency_payload_mismatch" {
			t.Errorf("another query while it runs: %+v", s)
		}
		go slow() // it stands by
		go func() { done <- post(context.Background(), g.url+"/orders", "a", key("very-slow"), "apple") }()
		<-arrived
		if s := post(t.Context(), g.url+"/orders", "a", key("very-slow"), "apple"); s.status != 409 || s.code != "idempotency_in_progress" || s.after <= 0 {
			t.Errorf("while it runs: %+v", s)
		}
		close(leave)
		for range 3 {
			if s := <-done; s.status != 201 || !strings.Contains(s.body, "slow, time 1, ") {
				t.Errorf("%+v", s)
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for k, times := range l.times {
			if times != 1 || !strings.HasPrefix(k, key("")) {
				t.Errorf("%s was carried out %d times", k, times)
			}
		}
	})
}

// cases/proxy.md 36: which answers are kept.
func TestCase_Proxy_F36_AnswersKeptOnEveryEngine(t *testing.T) {
	onEngines(t, func(t *testing.T, p place, key func(string) string) {
		l := newLedger(t, nil, nil)
		g := keyed(t, p, l.url, "")
		cases := []struct {
			path   string
			status int // 0: it breaks off
			times  int // how often two requests are carried out
			code   string
		}{
			{"/orders?status=404", 404, 1, ""},
			{"/orders?status=401", 401, 2, ""},
			{"/orders?status=500", 500, 1, ""},
			{"/lenient?status=500", 500, 2, ""}, // on_5xx: release
			{"/orders?status=503", 503, 2, ""},
			{"/orders?status=429", 429, 2, ""},
			{"/orders?cut", 0, 1, "idempotency_in_progress"},
		}
		firsts := make([]said, len(cases))
		for i, tc := range cases {
			firsts[i] = post(t.Context(), g.url+tc.path, "a", key(tc.path), "apple")
			if first := firsts[i]; first.status != tc.status || (first.err != nil) != (tc.status == 0) || first.replayed {
				t.Errorf("%s: %+v", tc.path, first)
			}
		}
		g = g.anew(t, l.url)
		for i, tc := range cases {
			k, first := key(tc.path), firsts[i]
			again := post(t.Context(), g.url+tc.path, "a", k, "apple")
			if again.code != tc.code || again.replayed != (tc.times == 1 && tc.code == "") || l.of(k) != tc.times {
				t.Errorf("%s again, carried out %d times: %+v", tc.path, l.of(k), again)
			}
			if again.replayed && (again.status != first.status || again.body != first.body) {
				t.Errorf("%s: %+v, replayed as %+v", tc.path, first, again)
			}
		}
	})
}

// cases/events.md 44.
func TestCase_Events_E44_OnEveryEngine(t *testing.T) {
	onEngines(t, func(t *testing.T, p place, key func(string) string) {
		l := newLedger(t, nil, nil)
		g := keyed(t, p, l.url, "")
		for _, client := range []string{"a", "b"} {
			s := post(t.Context(), g.url+"/orders", client, key("k"), "apple")
			if s.status != 201 || s.replayed || !strings.Contains(s.body, "for "+client) {
				t.Errorf("%s: %+v", client, s)
			}
		}
	})
}

// fates are what is told of a key in doubt when its lease is over, by path.
var fates = []struct {
	path  string
	times int // how often the key was carried out in the end
	code  string
}{
	{"/orders", 1, "idempotency_outcome_unknown"},
	{"/lenient", 2, ""}, // on_unknown: execute
}

// meetFates holds keys that are in doubt against fates, each named by its path. Until
// their lease ends they are in use.
func meetFates(t *testing.T, g *gateway, l *ledger, key func(string) string) {
	t.Helper()
	ask := func(path string) said { return post(t.Context(), g.url+path, "a", key(path), "apple") }
	for _, f := range fates {
		if s := ask(f.path); s.status != 409 || s.code != "idempotency_in_progress" || s.after <= 0 {
			t.Errorf("%s before the lease ends: %+v", f.path, s)
		}
	}
	for _, f := range fates {
		s := ask(f.path)
		busy := 0
		for ; s.code == "idempotency_in_progress" && busy < 20; s = ask(f.path) {
			busy++
			pause(t, min(s.after, time.Second))
		}
		want := 201
		if f.code != "" {
			want = 409
		}
		if s.status != want || s.code != f.code || s.replayed || l.of(key(f.path)) != f.times {
			t.Errorf("%s after the lease, carried out %d times: %+v", f.path, l.of(key(f.path)), s)
		}
	}
}

// cases/events.md 46: a gateway is killed in the middle of a call. Until its lease
// ends the key is in use, then the policy decides; a restart changes nothing of that.
func TestCase_Events_E46_OnEveryEngine(t *testing.T) {
	onEngines(t, func(t *testing.T, p place, key func(string) string) {
		l, arrived, heal := newHangingLedger(t)
		g := keyed(t, p, l.url, ", lease: 3s")
		for _, f := range fates {
			go post(context.Background(), g.url+f.path, "a", key(f.path), "apple")
			<-arrived
		}
		g.kill()
		heal()
		meetFates(t, g.anew(t, l.url), l, key)
	})
}

// cases/events.md 18: a service that hangs is given up after upstream.timeout, whether
// its caller stays or has left. Its place is free, and the key is in doubt until its
// lease ends, no longer.
func TestCase_Events_B18_OnEveryEngine(t *testing.T) {
	onEngines(t, func(t *testing.T, p place, key func(string) string) {
		l, arrived, heal := newHangingLedger(t)
		g := keyed(t, p, l.url, ", lease: 3s", "upstream: {timeout: 1s}")
		ctx, leave := context.WithCancel(t.Context())
		left, stayed := make(chan said, 1), make(chan said, 1)
		go func() { left <- post(ctx, g.url+fates[0].path, "a", key(fates[0].path), "apple") }()
		go func() { stayed <- post(t.Context(), g.url+fates[1].path, "a", key(fates[1].path), "apple") }()
		for range fates {
			<-arrived
		}
		leave()
		if s := <-left; !errors.Is(s.err, context.Canceled) {
			t.Errorf("who left: %+v", s)
		}
		if s := <-stayed; s.status != 504 || s.code != "upstream_timeout" || s.after <= 0 || s.after > 3*time.Second {
			t.Errorf("who stayed: %+v", s)
		}
		heal()
		eventually(t, "the places are free", func() bool { return g.metric(t, "comporta_inflight") == 0 })
		if n := g.metric(t, `comporta_idempotency_total{outcome="in_doubt"}`); n != 2 {
			t.Errorf("%v are in doubt", n)
		}
		meetFates(t, g, l, key)
	})
}

func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal("the test is over")
	}
}

// kill ends the process as a cut of power would.
func (g *gateway) kill() {
	_ = g.cmd.Process.Kill()
	<-g.done
	g.err = nil // as it was meant to
}

// Many callers, few keys, several gateways over one store: each key once, and
// every caller gets its answer.
func TestCase_Events_A6_FleetCarriesOutEachKeyOnce(t *testing.T) {
	for _, engine := range []string{postgres, redis} { // a file of SQLite is of one process
		t.Run(engine, func(t *testing.T) {
			const callers, keys = 64, 1000
			p, own := placeOn(t, engine), rand.Text()
			l := newLedger(t, nil, nil)
			fleet := []*gateway{keyed(t, p, l.url, ", in_flight: wait"), keyed(t, p, l.url, ", in_flight: wait")}
			var wrong, asked atomic.Int64
			start := time.Now()
			var all sync.WaitGroup
			for c := range callers {
				all.Go(func() {
					for i := range keys {
						// Each begins elsewhere, so that keys are met all at once and one by one.
						k := fmt.Sprintf("%s-%d", own, (i*(1+c%4)+c/4*61)%keys)
						s := post(context.Background(), fleet[c%len(fleet)].url+"/orders", "a", k, "apple")
						for s.err == nil && s.status == 409 && s.code == "idempotency_in_progress" {
							asked.Add(1)
							<-time.After(s.after / 10)
							s = post(context.Background(), fleet[c%len(fleet)].url+"/orders", "a", k, "apple")
						}
						asked.Add(1)
						if want := k + ", time 1, for a: apple"; s.err != nil || s.status != 201 || s.body != want {
							if wrong.Add(1) <= 5 {
								t.Errorf("caller %d, key %s: %+v", c, k, s)
							}
						}
					}
				})
			}
			all.Wait()
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.total.Load() != keys || len(l.times) != keys {
				t.Errorf("%d executions of %d keys", l.total.Load(), len(l.times))
			}
			t.Logf("%d callers, %d keys: %d executions, %d requests in %v", callers, keys, l.total.Load(), asked.Load(), time.Since(start).Round(time.Millisecond))
		})
	}
}
