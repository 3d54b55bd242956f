package gate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/admission"
	"github.com/comporta/comporta/gate/keys"
	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/internal/memhttp"
)

// house is a gate around a service in virtual time.
type house struct {
	t       *testing.T
	gate    *gate.Gate
	network memhttp.Network
	client  *http.Client
}

// inBubble serves a gated service in a synctest bubble. When body has returned,
// everything is closed and the house must be empty.
func inBubble(t *testing.T, c gate.Config, service http.HandlerFunc, body func(t *testing.T, h *house)) {
	t.Helper()
	inBubbleOf(t, func() gate.Config { return c }, service, body)
}

// inBubbleOf is inBubble for a configuration with parts that belong into the bubble.
func inBubbleOf(t *testing.T, c func() gate.Config, service http.HandlerFunc, body func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g, err := gate.New(c(), nil)
		if err != nil {
			t.Fatal(err)
		}
		h := &house{t: t, gate: g}
		server := h.network.ServeConfig("service", &http.Server{Handler: g.Wrap(service), ErrorLog: nil, ReadHeaderTimeout: time.Minute})
		h.client = h.network.Client()
		body(t, h)
		h.client.CloseIdleConnections()
		synctest.Wait()
		if s := g.StatsAt(time.Now()); s.Inflight != 0 || s.Waiting != 0 || s.Streams != 0 {
			t.Errorf("the house is not empty at rest: %d in flight, %d waiting, %d streams", s.Inflight, s.Waiting, s.Streams)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
}

type answer struct {
	status  int
	header  http.Header
	problem comporta.Problem
	body    string
	err     error
}

func (h *house) ask(ctx context.Context, method, path string, header ...string) answer {
	return h.send(ctx, method, path, http.NoBody, header...)
}

func (h *house) send(ctx context.Context, method, path string, body io.Reader, header ...string) answer {
	req, err := http.NewRequestWithContext(ctx, method, "http://service"+path, body)
	if err != nil {
		return answer{err: err}
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header, body: string(b), err: err}
	_ = json.Unmarshal(b, &a.problem) // only refusals are documents
	return a
}

func (h *house) inflight() int { return h.gate.StatsAt(time.Now()).Inflight }

// static is a gate of a fixed size whose originals wait for at most wait.
func static(capacity int, wait time.Duration) gate.Config {
	if wait == 0 {
		wait = -1
	}
	return gate.Config{Admission: gate.Admission{Capacity: capacity, QueueWait: wait}}
}

// cases/overload.md 1: permits of abandoned waiters are not lost, a thousand times.
func TestCase_Overload_A1_AbandonedWaiters(t *testing.T) {
	var release chan struct{} // made in the bubble
	inBubble(t, static(8, 20*time.Millisecond), func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			<-release
		}
	}, func(t *testing.T, h *house) {
		release = make(chan struct{})
		const rounds = 50 // of 8 holders and 2 waiters through real net/http; the core's own test makes 1,000
		for range rounds {
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() { h.ask(t.Context(), "GET", "/hold", "X-Api-Key", "a") })
			}
			synctest.Wait()
			for range 2 {
				all.Go(func() {
					if a := h.ask(t.Context(), "GET", "/x", "X-Api-Key", "b"); a.status != http.StatusServiceUnavailable {
						t.Errorf("a waiter got %d", a.status)
					}
				})
			}
			time.Sleep(25 * time.Millisecond) // virtual: the waiters time out
			for range 8 {
				release <- struct{}{}
			}
			all.Wait()
		}
		if n := h.inflight(); n != 0 {
			t.Errorf("%d permits are lost", n)
		}
	})
}

// cases/overload.md 2: a client that disconnects (a) before the handler starts,
// (b) while queued, (c) while the service works, (d) in mid-body gives back
// exactly one permit.
func TestCase_Overload_A2_ClientLeaves(t *testing.T) {
	for _, where := range []string{"queued", "working", "body"} {
		t.Run(where, func(t *testing.T) {
			inBubble(t, static(1, time.Second), func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/work":
					<-r.Context().Done()
				case "/body":
					_, _ = io.WriteString(w, "the beginning")
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				}
			}, func(t *testing.T, h *house) {
				ctx, leave := context.WithCancel(t.Context())
				var all sync.WaitGroup
				path := map[string]string{"queued": "/work", "working": "/work", "body": "/body"}[where]
				holder, done := context.WithCancel(t.Context())
				if where == "queued" {
					all.Go(func() { h.ask(holder, "GET", "/work", "X-Api-Key", "holder") })
					synctest.Wait()
				}
				all.Go(func() {
					if a := h.ask(ctx, "GET", path); a.err == nil {
						t.Errorf("the client left and got %d", a.status)
					}
				})
				synctest.Wait()
				leave()
				synctest.Wait()
				if where == "queued" {
					if s := h.gate.StatsAt(time.Now()); s.Inflight != 1 || s.Waiting != 0 {
						t.Errorf("after leaving the queue: %d in flight, %d waiting", s.Inflight, s.Waiting)
					}
				}
				done()
				all.Wait()
				synctest.Wait()
				if a := h.ask(t.Context(), "GET", "/next"); a.status != http.StatusOK {
					t.Errorf("the next request got %d", a.status)
				}
			})
		})
	}
}

// cases/overload.md 3: a panic, a hijack, an event stream, an upgrade and a
// handler that writes nothing each release once; streams are counted apart.
func TestCase_Overload_A3_EveryWayOut(t *testing.T) {
	var end chan struct{} // made in the bubble
	var hijacked net.Conn
	inBubble(t, static(1, 0), func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panic":
			panic(http.ErrAbortHandler)
		case "/panic-late":
			_, _ = io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		case "/hijack":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			hijacked = conn // outlives the handler, as WebSocket libraries do
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-end
		}
	}, func(t *testing.T, h *house) {
		end = make(chan struct{})
		for _, path := range []string{"/panic", "/panic-late", "/nothing", "/panic", "/nothing"} {
			a := h.ask(t.Context(), "GET", path)
			if strings.HasPrefix(path, "/panic") != (a.err != nil) {
				t.Errorf("%s: %d, %v", path, a.status, a.err)
			}
			if n := h.inflight(); n != 0 {
				t.Fatalf("%s left %d in flight", path, n)
			}
		}
		// Two streams live beside a gate of 1, and leave room for requests.
		var all sync.WaitGroup
		all.Go(func() { h.ask(t.Context(), "GET", "/events") })
		synctest.Wait()
		conn, err := h.network.DialContext(t.Context(), "tcp", "service")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "GET /hijack HTTP/1.1\r\nHost: service\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		synctest.Wait()
		if s := h.gate.StatsAt(time.Now()); s.Inflight != 0 || s.Streams != 2 {
			t.Errorf("%d in flight and %d streams, want 0 and 2", s.Inflight, s.Streams)
		}
		if a := h.ask(t.Context(), "GET", "/nothing"); a.status != http.StatusOK {
			t.Errorf("beside two streams: %d", a.status)
		}
		close(end)
		all.Wait()
		_ = hijacked.Close()
		_ = hijacked.Close() // finish and close both fire
		_ = conn.Close()
	})
}

// cases/overload.md 16: streams of an hour do not teach the limit, nor take its room.
func TestCase_Overload_B16_LongStreams(t *testing.T) {
	inBubble(t, gate.Config{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Hour)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}, func(t *testing.T, h *house) {
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { h.ask(t.Context(), "GET", "/stream") })
			synctest.Wait() // until its head is written a stream takes room, and all at once would take too much
		}
		for range 400 {
			if a := h.ask(t.Context(), "GET", "/short"); a.status != http.StatusOK {
				t.Fatalf("a short call got %d", a.status)
			}
		}
		if s := h.gate.StatsAt(time.Now()); s.Streams != 50 || s.Capacity < 32 || s.Learned.Baseline > 20*time.Millisecond {
			t.Errorf("%d streams, capacity %d, baseline %v", s.Streams, s.Capacity, s.Learned.Baseline)
		}
		all.Wait()
	})
}

// cases/overload.md 17: half of the answers are our own refusals; they enter
// neither latency nor success.
func TestCase_Overload_B17_OwnRefusals(t *testing.T) {
	c := gate.Config{Routes: []gate.Route{{Match: "/closed", Name: "closed"}}}
	inBubble(t, c, func(http.ResponseWriter, *http.Request) { time.Sleep(50 * time.Millisecond) }, func(t *testing.T, h *house) {
		now := time.Now()
		if _, err := h.gate.State().ShedAt(now, gate.Lever{Route: "closed", Percent: 100, Until: now.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			if a := h.ask(t.Context(), "GET", "/closed"); a.problem.Code != "shed_by_operator" {
				t.Fatalf("%+v", a.problem)
			}
			h.ask(t.Context(), "GET", "/open")
		}
		s := h.gate.StatsAt(time.Now())
		if s.Learned.Baseline < 45*time.Millisecond || s.Learned.Baseline > 60*time.Millisecond {
			t.Errorf("the baseline is %v, the service takes 50ms", s.Learned.Baseline)
		}
	})
}

// cases/overload.md 20: a slow database with an idle CPU is seen by its latency.
func TestCase_Overload_B20_LatencyKnowsFirst(t *testing.T) {
	var pool chan struct{} // made in the bubble
	inBubble(t, gate.Config{}, func(http.ResponseWriter, *http.Request) {
		pool <- struct{}{}
		time.Sleep(200 * time.Millisecond) // asleep: no CPU is used
		<-pool
	}, func(t *testing.T, h *house) {
		pool = make(chan struct{}, 4)
		var all sync.WaitGroup
		var mu sync.Mutex
		refused := 0
		for i := range 3000 { // 100/s against 20/s
			all.Go(func() {
				if a := h.ask(t.Context(), "GET", "/"+strconv.Itoa(i), "X-Api-Key", "k"+strconv.Itoa(i%50)); a.status == http.StatusServiceUnavailable {
					mu.Lock()
					refused++
					mu.Unlock()
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		all.Wait()
		if refused < 2000 {
			t.Errorf("%d of 3000 refused at 5x the capacity", refused)
		}
	})
}

// cases/overload.md 21: only the sheddable traffic of the slow route is shed.
func TestCase_Overload_C21_LowPriorityPerRoute(t *testing.T) {
	c := static(40, 200*time.Millisecond)
	c.Routes = []gate.Route{
		{Match: "/foo/critical", Name: "foo", Share: 0.25},
		{Match: "/foo/batch", Name: "foo", Share: 0.25, Sheddable: true},
		{Match: "/bar/", Name: "bar"},
	}
	inBubble(t, c, func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/foo") {
			time.Sleep(200 * time.Millisecond)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}, func(t *testing.T, h *house) {
		refused := map[string]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 1000 { // forty seconds: /foo can do 50/s and is asked 125/s, of which 25/s are critical
			for path, n := range map[string]int{"/foo/critical": 1, "/foo/batch": 4, "/bar/critical": 1, "/bar/batch": 1} {
				for j := range n {
					all.Go(func() {
						a := h.ask(t.Context(), "GET", fmt.Sprintf("%s?%d-%d", path, i, j), "X-Api-Key", fmt.Sprint(path, i%100, j)) // so many clients that fairness among them protects nobody
						if a.status != http.StatusOK {
							mu.Lock()
							refused[path]++
							mu.Unlock()
						}
					})
				}
			}
			time.Sleep(40 * time.Millisecond)
		}
		all.Wait()
		if refused["/foo/batch"] < 2000 || len(refused) != 1 {
			t.Errorf("refused: %v, want many of /foo/batch and none of the others", refused)
		}
	})
}

// cases/overload.md 23, over HTTP: reserve keeps 30 % for originals, in the
// article's own words.
func TestCase_Overload_C23_ReserveSpeaksPortuguese(t *testing.T) {
	c := static(10, 0)
	c.Admission.Policy, c.Admission.Reserve = admission.PolicyReserve, 0.3
	c.Contract = overload.Config{Dialect: overload.DialectPortuguese}
	var release chan struct{} // made in the bubble
	inBubble(t, c, func(http.ResponseWriter, *http.Request) { <-release }, func(t *testing.T, h *house) {
		release = make(chan struct{})
		var all sync.WaitGroup
		hold := func(n int, header ...string) {
			for i := range n {
				all.Go(func() {
					h.ask(t.Context(), "GET", fmt.Sprintf("/%s%d", strings.Join(header, ""), i), append(header, "X-Api-Key", "k")...)
				})
			}
			synctest.Wait()
		}
		code := func(header ...string) string {
			a := h.ask(t.Context(), "GET", "/one-more", append(header, "X-Api-Key", "other")...)
			var p struct {
				Erro      string `json:"erro"`
				Repetivel bool   `json:"repetivel"`
			}
			if err := json.Unmarshal([]byte(a.body), &p); err != nil || !p.Repetivel {
				t.Errorf("%q: %v", a.body, err)
			}
			return p.Erro
		}
		hold(7, "X-Tentativa", "1")
		if got := code("X-Tentativa", "1"); got != "repeticao_adiada" {
			t.Errorf("the eighth repeat: %q", got)
		}
		hold(3)
		if got := code(); got != "capacidade_esgotada" {
			t.Errorf("the eleventh request: %q", got)
		}
		close(release)
		all.Wait()
	})
}

// cases/overload.md 27: 105 ms are said as 105 ms, and as 1 s, never as 0.
func TestCase_Overload_D27_NeverZero(t *testing.T) {
	inBubble(t, static(1, 0), func(w http.ResponseWriter, r *http.Request) {
		overload.Refuse(w, r, &overload.Refusal{Reason: comporta.RateLimited, Wait: 105 * time.Millisecond})
	}, func(t *testing.T, h *house) {
		a := h.ask(t.Context(), "GET", "/")
		if a.header.Get("Retry-After") != "1" || a.header.Get("Retry-After-Ms") != "105" || a.problem.RetryAfterMs != 105 || a.problem.RetryAfterS != 1 {
			t.Errorf("%v %+v", a.header, a.problem)
		}
	})
}

// cases/overload.md 29: a thousand clients refused in one second are told a
// thousand instants, spread so that no second holds more than 1.3 of what is
// free; asked twice, each has the same instant.
func TestCase_Overload_D29_NoConstantRetryAfter(t *testing.T) {
	var release chan struct{} // made in the bubble
	inBubble(t, static(100, 0), func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			<-release
		}
	}, func(t *testing.T, h *house) {
		release = make(chan struct{})
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() { h.ask(t.Context(), "GET", "/hold", "X-Api-Key", strconv.Itoa(i)) })
		}
		synctest.Wait()
		perSecond, first := map[int64]int{}, map[int]time.Time{}
		for i := range 1000 {
			a := h.ask(t.Context(), "POST", "/orders", "X-Api-Key", "c"+strconv.Itoa(i))
			due := time.Now().Add(time.Duration(a.problem.RetryAfterMs) * time.Millisecond)
			first[i] = due
			perSecond[due.Unix()]++
			time.Sleep(time.Millisecond)
		}
		free := h.gate.StatsAt(time.Now()).Estimates.Spare
		for second, n := range perSecond {
			if float64(n) > 1.3*free+1 {
				t.Errorf("second %d holds %d returns, %.0f are free", second, n, free)
			}
		}
		for i := range 1000 {
			a := h.ask(t.Context(), "POST", "/orders", "X-Api-Key", "c"+strconv.Itoa(i))
			due := time.Now().Add(time.Duration(a.problem.RetryAfterMs) * time.Millisecond)
			if d := due.Sub(first[i]); d < -time.Second || d > time.Second {
				if first[i].After(time.Now()) { // its instant is still to come
					t.Fatalf("client %d was told %v, then %v", i, first[i], due)
				}
			}
		}
		close(release)
		all.Wait()
	})
}

// cases/overload.md 32: a deterministic failure carries no time to return and
// says stop; a 500 that repeats while others succeed becomes one.
func TestCase_Overload_D32_DeterministicStops(t *testing.T) {
	inBubble(t, gate.Config{}, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/invalid":
			w.Header().Set("Retry-After", "5")
			w.WriteHeader(http.StatusUnprocessableEntity)
		case r.URL.Query().Get("bad") != "":
			w.WriteHeader(http.StatusInternalServerError)
		}
	}, func(t *testing.T, h *house) {
		a := h.ask(t.Context(), "GET", "/invalid")
		if a.header.Get("X-Should-Retry") != "false" || a.header.Get("Retry-After") != "" {
			t.Errorf("422: %v", a.header)
		}
		for i := range 20 {
			h.ask(t.Context(), "GET", fmt.Sprintf("/items?n=%d", i), "X-Api-Key", "k")
		}
		said := ""
		for try := range 4 {
			time.Sleep(time.Second)
			h.ask(t.Context(), "GET", fmt.Sprintf("/items?n=%d", 100+try), "X-Api-Key", "k") // others succeed meanwhile
			a := h.ask(t.Context(), "GET", "/items?bad=1", "X-Api-Key", "k")
			said += a.header.Get("X-Should-Retry") + ";"
		}
		if said != ";;false;false;" {
			t.Errorf("four equal 500s said %q, want silence, then false from the third on", said)
		}
		kinds := map[comporta.Kind]uint64{}
		h.gate.State().EachRequestCount(func(c gate.RequestCount) bool { kinds[c.Kind] += c.Count; return true })
		if kinds[comporta.KindHopeless] != 1 {
			t.Errorf("kinds: %v, want one hopeless repeat", kinds)
		}
	})
}

// cases/overload.md 34, cases/proxy.md 37: the service's own Retry-After is never
// lowered, and both 429 and 503 have one.
func TestCase_Overload_D34_RetryAfterIsKept(t *testing.T) {
	inBubble(t, gate.Config{}, func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Query().Get("status"))
		if v := r.URL.Query().Get("after"); v != "" {
			w.Header().Set("Retry-After", v)
		}
		w.WriteHeader(status)
	}, func(t *testing.T, h *house) {
		for _, status := range []string{"429", "503"} {
			a := h.ask(t.Context(), "GET", "/a?after=120&status="+status)
			if n, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || n < 120 || n > 130 {
				t.Errorf("%s with 120: %v", status, a.header)
			}
			a = h.ask(t.Context(), "GET", "/b?status="+status)
			if n, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || n < 1 || a.header.Get("Retry-Ticket") == "" {
				t.Errorf("%s without: %v", status, a.header)
			}
		}
	})
}

// The short circuit answers hopeless repeats with the service's own last answer,
// and lets one through every ten seconds.
func TestShortCircuit(t *testing.T) {
	asked := 0
	c := gate.Config{Repeats: gate.Repeats{ShortCircuit: true}}
	inBubble(t, c, func(w http.ResponseWriter, r *http.Request) {
		asked++
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"erro":"campo_invalido","repetivel":false}`)
	}, func(t *testing.T, h *house) {
		var last answer
		for range 10 {
			last = h.ask(t.Context(), "POST", "/orders", "X-Api-Key", "k", "Idempotency-Key", "abc")
		}
		if asked != 3 {
			t.Errorf("the service was asked %d times, want 3", asked)
		}
		if last.status != 422 || last.body != `{"erro":"campo_invalido","repetivel":false}` || last.header.Get("Comporta-Decision") != "hopeless_repeat" {
			t.Errorf("%d %q %v", last.status, last.body, last.header)
		}
		if last.header.Get("Retry-After") != "" {
			t.Error("a hopeless repeat was told when to return")
		}
		time.Sleep(11 * time.Second)
		h.ask(t.Context(), "POST", "/orders", "X-Api-Key", "k", "Idempotency-Key", "abc")
		if asked != 4 {
			t.Errorf("after ten seconds the service was asked %d times, want 4", asked)
		}
	})
}

// Two gateways with one key file honour each other's tickets; so does one that
// was started again. A ticket of another key proves nothing.
func TestTicketsTravel(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(strings.Repeat("0123456789abcdef", 3)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	load := func() *keys.Ring {
		ring, err := keys.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		return ring
	}
	synctest.Test(t, func(t *testing.T) {
		begin := func(g *gate.Gate, ticket string) gate.Decision {
			r := &comporta.Request{Method: "POST", Host: "h", Path: "/orders", Remote: netip.MustParseAddr("192.0.2.1"), Header: http.Header{"X-Api-Key": {"k"}}}
			if ticket != "" {
				r.Header.Set("Retry-Ticket", ticket)
			}
			d := g.Begin(time.Now(), r)
			if d.Action == comporta.ActionAdmit {
				d.FinishAt(time.Now(), comporta.Outcome{Status: 200, Result: comporta.ResultSuccess})
			}
			slotOf[ticket] = r.Slot.State
			return d
		}
		compile := func(ring *keys.Ring, capacity int) *gate.Gate {
			c := static(max(capacity, 1), 0)
			c.Keys = ring
			g, err := gate.New(c, nil)
			if err != nil {
				t.Fatal(err)
			}
			if capacity == 0 {
				now := time.Now()
				if _, err := g.State().ShedAt(now, gate.Lever{Route: "other", Percent: 100, Until: now.Add(time.Hour)}); err != nil {
					t.Fatal(err)
				}
			}
			return g
		}
		full := compile(load(), 0)
		refused := begin(full, "")
		ticket := string(refused.AppendTicket(nil))
		if ticket == "" {
			t.Fatal("no ticket")
		}
		time.Sleep(refused.Wait)
		for name, g := range map[string]*gate.Gate{"another gateway": compile(load(), 5), "a restarted one": compile(load(), 5)} {
			begin(g, ticket)
			if got := slotOf[ticket]; got != comporta.SlotRedeemed {
				t.Errorf("%s: slot %v, want redeemed", name, got)
			}
		}
		begin(compile(keys.Random(), 5), ticket)
		if got := slotOf[ticket]; got != comporta.SlotNone {
			t.Errorf("a gateway with another key: slot %v, want none", got)
		}
	})
}

var slotOf = map[string]comporta.SlotState{}

// A reload counts in the same words: what the old gate admitted is in flight for
// the new one.
func TestReloadCountsInTheSameWords(t *testing.T) {
	s, err := gate.NewState()
	if err != nil {
		t.Fatal(err)
	}
	compile := func(capacity int) *gate.Gate {
		g, err := gate.New(static(capacity, 0), s)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	ask := func(g *gate.Gate, path string) gate.Decision {
		r := &comporta.Request{Method: "GET", Path: path, Header: http.Header{}, Remote: netip.MustParseAddr("192.0.2.1")}
		return g.Begin(time.Now(), r)
	}
	before := compile(2)
	one, two := ask(before, "/1"), ask(before, "/2")
	after := compile(1)
	if d := ask(after, "/3"); d.Reason != comporta.CapacityExhausted {
		t.Errorf("the new gate of 1 let a third in: %+v", d.Decision)
	}
	one.FinishAt(time.Now(), comporta.Outcome{Status: 200, Result: comporta.ResultSuccess})
	if d := ask(after, "/4"); d.Reason != comporta.CapacityExhausted {
		t.Error("the new gate of 1 let one in beside that of the old gate")
	}
	two.FinishAt(time.Now(), comporta.Outcome{Status: 200, Result: comporta.ResultSuccess})
	two.FinishAt(time.Now(), comporta.Outcome{Status: 200, Result: comporta.ResultSuccess})
	if d := ask(after, "/5"); d.Action != comporta.ActionAdmit {
		t.Errorf("the house is empty and %v", d.Reason)
	}
}

// Observe mode lets everything in and counts what it would have refused.
func TestObserveMode(t *testing.T) {
	c := static(1, 0)
	c.Admission.Mode = admission.ModeObserve
	var release chan struct{} // made in the bubble
	inBubble(t, c, func(http.ResponseWriter, *http.Request) { <-release }, func(t *testing.T, h *house) {
		release = make(chan struct{})
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				if a := h.ask(t.Context(), "GET", "/"+strconv.Itoa(i), "X-Request-Id", "r"+strconv.Itoa(i)); a.status != http.StatusOK {
					t.Errorf("observe refused: %d", a.status)
				}
			})
			synctest.Wait()
		}
		if n := h.gate.State().WouldReject(comporta.KindOriginal, comporta.CapacityExhausted); n != 4 {
			t.Errorf("%d would have been refused, want 4", n)
		}
		if e, ok := h.gate.State().Explain("r4"); !ok || !e.Observed || e.Reason != "capacity_exhausted" {
			t.Errorf("%+v %v", e, ok)
		}
		close(release)
		all.Wait()
	})
}

// A body that can matter is read ahead under pressure, reaches the service whole,
// and tells two orders apart; without pressure the sighting is filed as it passes.
func TestBodiesTellOrdersApart(t *testing.T) {
	var hold chan struct{} // made in the bubble
	inBubble(t, static(4, 0), func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			<-hold
			return
		}
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write(b)
	}, func(t *testing.T, h *house) {
		hold = make(chan struct{})
		kinds := func() map[comporta.Kind]uint64 {
			m := map[comporta.Kind]uint64{}
			h.gate.State().EachRequestCount(func(c gate.RequestCount) bool { m[c.Kind] += c.Count; return true })
			return m
		}
		post := func(body string) {
			a := h.send(t.Context(), "POST", "/orders", bytes.NewReader([]byte(body)), "X-Api-Key", "k")
			if a.body != body {
				t.Errorf("the service saw %q of %q", a.body, body)
			}
		}
		post("order 1") // original
		post("order 1") // it failed: a retry, known when its body had passed
		post("order 2") // original
		if k := kinds(); k[comporta.KindOriginal] != 2 || k[comporta.KindRetry] != 1 {
			t.Errorf("streamed: %v", k)
		}
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() { h.ask(t.Context(), "GET", "/hold", "X-Api-Key", strconv.Itoa(i)) })
		}
		synctest.Wait()
		post("order 2") // a retry, known before admission
		post("order 3")
		if k := kinds(); k[comporta.KindOriginal] != 3 || k[comporta.KindRetry] != 2 {
			t.Errorf("read ahead: %v", k)
		}
		if n := h.gate.StatsAt(time.Now()).BufferedBytes; n != 0 {
			t.Errorf("%d bytes are still taken from the budget", n)
		}
		close(hold)
		all.Wait()
	})
}

// The caller's patience ends the service's work, and its end is a timeout.
func TestPatience(t *testing.T) {
	var cause error
	inBubble(t, gate.Config{}, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		cause = context.Cause(r.Context())
	}, func(t *testing.T, h *house) {
		start := time.Now()
		h.ask(t.Context(), "GET", "/", "Request-Timeout-Ms", "250")
		if took := time.Since(start); took != 250*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if cause == nil || errors.Is(cause, context.Canceled) || !strings.Contains(cause.Error(), "patience") {
			t.Errorf("cause: %v", cause)
		}
		if a := h.ask(t.Context(), "GET", "/x", "Request-Timeout-Ms", "0"); a.problem.Code != "deadline_exceeded" {
			t.Errorf("spent patience: %+v", a.problem)
		}
	})
}

// cases/proxy.md 50, 51: what could be read in two ways is refused before policy.
func TestCase_Proxy_G50_G51_TargetsAreCanonical(t *testing.T) {
	c := gate.Config{Routes: []gate.Route{{Match: "/admin", Name: "admin"}}}
	var paths []string
	inBubble(t, c, func(_ http.ResponseWriter, r *http.Request) { paths = append(paths, r.URL.Path) }, func(t *testing.T, h *house) {
		for target, want := range map[string]int{
			"/a/%2e%2e/admin": 400, "/a/../admin": 400, "/a//../admin": 400, "/admin": 200, "//admin": 200, "admin": 400, "/p#/admin": 400,
		} {
			conn, err := h.network.DialContext(t.Context(), "tcp", "service")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", target)
			b, _ := io.ReadAll(conn)
			_ = conn.Close()
			if !bytes.HasPrefix(b, fmt.Appendf(nil, "HTTP/1.1 %d", want)) {
				t.Errorf("%s: %.60q, want %d", target, b, want)
			}
		}
		if len(paths) != 2 {
			t.Errorf("the service saw %q", paths)
		}
	})
}

// A gRPC call says in its trailers what became of it: UNAVAILABLE is a failure,
// and its repeat a retry, although both came with 200.
func TestGRPCOutcomeTrails(t *testing.T) {
	for _, declared := range []bool{true, false} {
		inBubble(t, gate.Config{}, func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Content-Type", "application/grpc")
			status := "Grpc-Status"
			if declared {
				h.Set("Trailer", status)
			} else {
				status = http.TrailerPrefix + status
			}
			_, _ = io.WriteString(w, "\x00\x00\x00\x00\x00")
			_ = http.NewResponseController(w).Flush()
			h.Set(status, strings.TrimPrefix(r.URL.Path, "/"))
		}, func(t *testing.T, h *house) {
			for _, path := range []string{"/14", "/14", "/0", "/0"} {
				h.ask(t.Context(), "GET", path, "X-Api-Key", "k", "Content-Type", "application/grpc")
			}
			kinds := map[comporta.Kind]uint64{}
			h.gate.State().EachRequestCount(func(c gate.RequestCount) bool { kinds[c.Kind] += c.Count; return true })
			if kinds[comporta.KindOriginal] != 2 || kinds[comporta.KindRetry] != 1 || kinds[comporta.KindPoll] != 1 {
				t.Errorf("declared %v: %v", declared, kinds)
			}
			resp, err := h.client.Do(mustRequest(t, "http://service/14"))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if n, err := strconv.Atoi(resp.Trailer.Get("Grpc-Retry-Pushback-Ms")); err != nil || n < 1 {
				t.Errorf("declared %v: trailers %v", declared, resp.Trailer)
			}
		})
	}
}

func mustRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	return req
}

// A rotation of keys makes strangers of nobody: tickets of the old key are
// honoured for clients whose names hang on it, and who was proven stays proven.
func TestRotation(t *testing.T) {
	ring := func(secrets ...string) *keys.Ring {
		r, err := keys.Parse([]byte(strings.Join(secrets, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	older, newer := strings.Repeat("old key ", 5), strings.Repeat("new key ", 5)
	synctest.Test(t, func(t *testing.T) {
		s, err := gate.NewState()
		if err != nil {
			t.Fatal(err)
		}
		compile := func(k *keys.Ring) *gate.Gate {
			c := static(1, 0)
			c.Keys = k
			g, err := gate.New(c, s)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		ask := func(g *gate.Gate, path, ticket string) (gate.Decision, *comporta.Request) {
			r := &comporta.Request{Method: "POST", Host: "h", Path: path, Remote: netip.MustParseAddr("192.0.2.1"), Header: http.Header{"X-Api-Key": {"k"}}}
			if ticket != "" {
				r.Header.Set("Retry-Ticket", ticket)
			}
			return g.Begin(time.Now(), r), r
		}
		finish := func(d gate.Decision) {
			d.FinishAt(time.Now(), comporta.Outcome{Status: 200, Result: comporta.ResultSuccess})
		}
		before := compile(ring(older))
		proof, _ := ask(before, "/proof", "")
		finish(proof)
		holder, _ := ask(before, "/hold", "")
		refused, _ := ask(before, "/orders", "")
		ticket := string(refused.AppendTicket(nil))
		finish(holder)

		after := compile(ring(newer, older))
		time.Sleep(refused.Wait)
		d, r := ask(after, "/orders", ticket)
		if r.Slot.State != comporta.SlotRedeemed || r.Client.Class != comporta.ClassProven || d.Action != comporta.ActionAdmit {
			t.Errorf("after the rotation: slot %v, class %v, %v", r.Slot.State, r.Client.Class, d.Action)
		}
		finish(d)
		last := compile(ring(newer))
		if _, r := ask(last, "/more", ""); r.Client.Class != comporta.ClassProven {
			t.Errorf("after the end of the old key: class %v; the answer under both keys proved the new name", r.Client.Class)
		}
	})
}

// A service that says how long to stay away is obeyed, and those who are refused
// together still do not return together.
func TestBusySpreads(t *testing.T) {
	inBubble(t, gate.Config{}, func(w http.ResponseWriter, r *http.Request) {
		overload.Busy(w, r, 5*time.Second)
	}, func(t *testing.T, h *house) {
		waits := map[int64]bool{}
		for i := range 200 {
			a := h.ask(t.Context(), "GET", "/x", "X-Api-Key", strconv.Itoa(i))
			if a.problem.RetryAfterMs < 5000 || a.header.Get("Retry-Ticket") == "" {
				t.Fatalf("%+v %v", a.problem, a.header)
			}
			waits[a.problem.RetryAfterMs] = true
		}
		if len(waits) < 100 {
			t.Errorf("200 clients were told %d different waits", len(waits))
		}
	})
}
