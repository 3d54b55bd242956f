//go:build integration

package test

import (
	"context"
	"crypto/rand"
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

// engines are all on which keys are kept, each as the section of a configuration.
var engines = []struct {
	name   string
	shared bool
	store  func(t *testing.T) string
}{
	{"sqlite", false, func(t *testing.T) string {
		return fmt.Sprintf("{engine: sqlite, path: %s}", filepath.Join(t.TempDir(), "state.db"))
	}},
	{"postgres", true, func(t *testing.T) string {
		return fmt.Sprintf("{engine: postgres, url: %q}", service(t, "COMPORTA_TEST_POSTGRES_URL"))
	}},
	{"redis", true, func(t *testing.T) string {
		return fmt.Sprintf("{engine: redis, url: %q}", service(t, "COMPORTA_TEST_REDIS_URL"))
	}},
}

// ledger is a service that counts how often each key was carried out.
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
		w.Header().Set("Location", "/orders/"+key)
		w.Header().Set("Set-Cookie", "session=first")
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "%s, time %d, for %s: %s", key, n, r.Header.Get("X-Api-Key"), body)
	}))
	t.Cleanup(s.Close)
	l.url = s.URL
	return l
}

// of is how often a key was carried out.
func (l *ledger) of(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.times[key]
}

// keyed starts a gateway that keeps keys in front of a ledger. more goes into its
// section idempotency.
func keyed(t *testing.T, store, upstream, more string) *gateway {
	t.Helper()
	file := filepath.Join(t.TempDir(), "comporta.yaml")
	write(t, file, fmt.Sprintf("admission: {capacity: 500}\naccess_log: {format: off}\nstore: %s\nidempotency: {routes: [other], on_503: release, timeout: 20s%s}\n", store, more))
	g := serve(t, "-config", file, "-upstream", upstream)
	g.file = file
	return g
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

// onEngines runs a case on every engine, with keys that nobody else uses.
func onEngines(t *testing.T, try func(t *testing.T, store string, key func(string) string)) {
	t.Helper()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			own := rand.Text()
			try(t, e.store(t), func(name string) string { return own + "-" + name })
		})
	}
}

// cases/proxy.md 36 and cases/events.md 42.
func TestCase_Proxy_F36_Events_E42_OnEveryEngine(t *testing.T) {
	onEngines(t, func(t *testing.T, store string, key func(string) string) {
		arrived, leave := make(chan struct{}), make(chan struct{})
		l := newLedger(t, nil, func(k string, _ *http.Request) {
			if strings.HasSuffix(k, "slow") {
				close(arrived)
				<-leave
			}
		})
		g := keyed(t, store, l.url, ", require: true")
		k := key("k")
		first := post(t.Context(), g.url+"/orders", "a", k, "apple")
		again := post(t.Context(), g.url+"/orders", "a", `"`+k+`"`, "apple")
		if first.status != 201 || first.replayed || !again.replayed || again.status != 201 || again.body != first.body || again.header.Get("Location") != "/orders/"+k {
			t.Errorf("%+v\n%+v", first, again)
		}
		if again.header.Get("Set-Cookie") != "" || first.header.Get("Set-Cookie") == "" {
			t.Errorf("cookies: %v", again.header)
		}
		if s := post(t.Context(), g.url+"/orders", "a", k, "pear"); s.status != 422 || s.code != "idempotency_payload_mismatch" {
			t.Errorf("another body: %+v", s)
		}
		if s := post(t.Context(), g.url+"/orders", "a", "", "apple"); s.status != 400 || s.code != "idempotency_key_missing" {
			t.Errorf("no key: %+v", s)
		}
		slow := key("slow")
		done := make(chan said, 1)
		go func() { done <- post(context.Background(), g.url+"/orders", "a", slow, "apple") }()
		<-arrived
		if s := post(t.Context(), g.url+"/orders", "a", slow, "apple"); s.status != 409 || s.code != "idempotency_in_progress" || s.after <= 0 {
			t.Errorf("while it runs: %+v", s)
		}
		close(leave)
		if s := <-done; s.status != 201 || l.of(slow) != 1 {
			t.Errorf("%+v, %d times", s, l.of(slow))
		}
		if l.of(k) != 1 {
			t.Errorf("%d times", l.of(k))
		}
	})
}

// cases/events.md 44.
func TestCase_Events_E44_OnEveryEngine(t *testing.T) {
	onEngines(t, func(t *testing.T, store string, key func(string) string) {
		l := newLedger(t, nil, nil)
		g := keyed(t, store, l.url, "")
		for _, client := range []string{"a", "b"} {
			s := post(t.Context(), g.url+"/orders", client, key("k"), "apple")
			if s.status != 201 || s.replayed || !strings.Contains(s.body, "for "+client) {
				t.Errorf("%s: %+v", client, s)
			}
		}
	})
}

// cases/events.md 46: a gateway is killed in the middle of a call. Until its lease
// ends the key is in use, then the policy decides; a restart changes nothing of that.
func TestCase_Events_E46_OnEveryEngine(t *testing.T) {
	onEngines(t, func(t *testing.T, store string, key func(string) string) {
		for _, policy := range []string{"refuse", "execute"} {
			t.Run(policy, func(t *testing.T) {
				k := key(policy)
				arrived := make(chan struct{})
				var first atomic.Bool
				l := newLedger(t, nil, func(_ string, r *http.Request) {
					if first.CompareAndSwap(false, true) {
						close(arrived)
						<-r.Context().Done()
					}
				})
				more := ", lease: 3s, on_unknown: " + policy
				g := keyed(t, store, l.url, more)
				go post(context.Background(), g.url+"/orders", "a", k, "apple")
				<-arrived
				g.kill()
				g = keyed(t, store, l.url, more)
				s := post(t.Context(), g.url+"/orders", "a", k, "apple")
				busy := 0
				for ; s.code == "idempotency_in_progress"; s = post(t.Context(), g.url+"/orders", "a", k, "apple") {
					busy++
					pause(t, min(s.after, time.Second))
				}
				if busy == 0 || busy > 20 {
					t.Errorf("told to wait %d times", busy)
				}
				switch {
				case policy == "refuse" && (s.status != 409 || s.code != "idempotency_outcome_unknown" || l.of(k) != 1):
					t.Errorf("%+v, %d times", s, l.of(k))
				case policy == "execute" && (s.status != 201 || s.replayed || l.of(k) != 2):
					t.Errorf("%+v, %d times", s, l.of(k))
				}
			})
		}
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
	for _, e := range engines {
		if !e.shared {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			const callers, keys = 64, 1000
			store, own := e.store(t), rand.Text()
			l := newLedger(t, nil, nil)
			fleet := []*gateway{keyed(t, store, l.url, ", in_flight: wait"), keyed(t, store, l.url, ", in_flight: wait")}
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
