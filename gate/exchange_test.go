package gate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/overload"
)

// journal collects what the gate says became of its requests.
type journal struct {
	mu   sync.Mutex
	done []entry
}

type entry struct {
	path     string
	kind     comporta.Kind
	decision comporta.Decision
	outcome  comporta.Outcome
}

func (j *journal) trace() gate.Trace {
	return gate.Trace{Done: func(_ time.Time, r *comporta.Request, d comporta.Decision, o comporta.Outcome) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.done = append(j.done, entry{r.Path, r.Sighting.Kind, d, o})
	}}
}

// last returns what became of the latest request, and expects there to be one.
func (j *journal) last(t *testing.T) entry {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.done) == 0 {
		t.Fatal("nothing was told")
	}
	return j.done[len(j.done)-1]
}

// The permit is back before the last byte, also when the service lingers after it.
func TestPermitIsBackBeforeTheLastByte(t *testing.T) {
	linger := make(chan struct{})
	const size = 256 << 10
	g, do := serve(t, gate.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(make([]byte, size))
		_ = http.NewResponseController(w).Flush() // net/http holds the tail back otherwise
		<-linger
	})
	for range 5 {
		resp := do("GET", "/") // reads the whole answer while the service lingers
		if resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
		if n := g.StatsAt(time.Now()).Inflight; n != 0 {
			t.Errorf("%d in flight although the answer has arrived", n)
		}
		linger <- struct{}{}
	}
}

// What the proxy and the service say of a failure is what the detector, the
// learner and the calendar hear.
func TestRefusalsBehindTheGateTellWhatHappened(t *testing.T) {
	for _, tc := range []struct {
		ref     overload.Refusal
		method  string
		result  comporta.Result
		outcome string
		again   bool
	}{
		{overload.Refusal{Reason: comporta.UpstreamUnavailable}, "POST", comporta.ResultUnreachable, "", true},
		{overload.Refusal{Reason: comporta.UpstreamFailed}, "GET", comporta.ResultUnreachable, "", true},
		{overload.Refusal{Reason: comporta.UpstreamFailed}, "POST", comporta.ResultUnreachable, "unknown", false},
		{overload.Refusal{Reason: comporta.UpstreamTimeout}, "GET", comporta.ResultTimeout, "", true},
		{overload.Refusal{Reason: comporta.UpstreamTimeout}, "POST", comporta.ResultTimeout, "unknown", false},
		{overload.Refusal{Reason: comporta.MalformedRequest}, "POST", comporta.ResultDeterministic, "", false},
		{overload.Refusal{Reason: comporta.RequestTimeout}, "POST", comporta.ResultRefused, "", true},
	} {
		t.Run(tc.ref.Reason.String()+" "+tc.method, func(t *testing.T) {
			var j journal
			inBubble(t, gate.Config{Trace: j.trace()}, func(w http.ResponseWriter, r *http.Request) {
				ref := tc.ref
				overload.Refuse(w, r, &ref)
			}, func(t *testing.T, h *house) {
				waits := map[int64]bool{}
				for i := range 4 {
					a := h.ask(t.Context(), tc.method, "/x", "X-Api-Key", strconv.Itoa(i), "X-Request-Id", "r-1")
					if a.problem.Code != tc.ref.Reason.String() || a.problem.Outcome != tc.outcome || a.problem.Retryable != tc.again {
						t.Fatalf("%+v", a.problem)
					}
					waits[a.problem.RetryAfterMs] = true
					if slotted := tc.ref.Reason.Info().Slotted && tc.again; slotted != (a.header.Get("Retry-Ticket") != "") {
						t.Errorf("ticket: %v", a.header)
					}
				}
				if tc.ref.Reason.Info().Slotted && tc.again && len(waits) < 2 {
					t.Errorf("four clients were told the same wait: %v", waits)
				}
				if e := j.last(t); e.outcome.Result != tc.result || e.decision.Reason != tc.ref.Reason {
					t.Errorf("%v and %v, want %v", e.outcome.Result, e.decision.Reason, tc.result)
				}
				if e, ok := h.gate.State().Explain("r-1"); !ok || e.Reason != tc.ref.Reason.String() {
					t.Errorf("explain: %+v %v", e, ok)
				}
			})
		})
	}
}

// An answer that breaks off after its head was no success: the next try is a retry.
func TestTruncatedAnswerIsCorrected(t *testing.T) {
	var j journal
	inBubble(t, gate.Config{Trace: j.trace()}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "the beginning")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}, func(t *testing.T, h *house) {
		for want := range 2 {
			if a := h.ask(t.Context(), "GET", "/x", "X-Api-Key", "k"); a.err == nil {
				t.Fatal("the answer was whole")
			}
			synctest.Wait()
			if e := j.last(t); e.kind.Repeat() != (want == 1) || e.outcome.Result != comporta.ResultFailed {
				t.Errorf("try %d: %v, %v", want, e.kind, e.outcome.Result)
			}
		}
	})
}

// An answer of a public route proves nothing about the credential that came with it.
func TestPublicRouteProvesNothing(t *testing.T) {
	c := gate.Config{Routes: []gate.Route{{Match: "/public", Name: "public", Public: true}}}
	inBubble(t, c, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, h *house) {
		classes := func() (list []comporta.Class) {
			h.gate.State().EachRequestCount(func(c gate.RequestCount) bool { list = append(list, c.Class); return true })
			return list
		}
		for range 3 {
			h.ask(t.Context(), "GET", "/public", "X-Api-Key", "invented")
		}
		for _, c := range classes() {
			if c != comporta.ClassAnonymous {
				t.Errorf("a public route made the client %v", c)
			}
		}
		h.ask(t.Context(), "GET", "/private", "X-Api-Key", "real")
		h.ask(t.Context(), "GET", "/private", "X-Api-Key", "real")
		if all := classes(); !slices.Contains(all, comporta.ClassProven) {
			t.Errorf("a private route proves nobody: %v", all)
		}
	})
}

// A preflight is never refused: a browser would report a network error.
func TestPreflightsPass(t *testing.T) {
	inBubble(t, static(0, 0), func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) }, func(t *testing.T, h *house) {
		now := time.Now()
		if _, err := h.gate.State().ShedAt(now, gate.Lever{Route: "other", Percent: 100, Until: now.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		if a := h.ask(t.Context(), "OPTIONS", "/x", "Origin", "https://app.example", "Access-Control-Request-Method", "POST"); a.status != http.StatusNoContent {
			t.Errorf("a preflight got %d", a.status)
		}
		if a := h.ask(t.Context(), "OPTIONS", "/x"); a.status != http.StatusServiceUnavailable {
			t.Errorf("an OPTIONS that is none got %d", a.status)
		}
	})
}

// Patience that ends in the queue is said as such.
func TestPatienceEndsInTheQueue(t *testing.T) {
	var release chan struct{}
	inBubble(t, static(1, time.Second), func(http.ResponseWriter, *http.Request) { <-release }, func(t *testing.T, h *house) {
		release = make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() { h.ask(t.Context(), "GET", "/hold", "X-Api-Key", "a") })
		synctest.Wait()
		if a := h.ask(t.Context(), "GET", "/x", "X-Api-Key", "b", "Request-Timeout-Ms", "50"); a.problem.Code != "deadline_exceeded" {
			t.Errorf("%+v", a.problem)
		}
		if a := h.ask(t.Context(), "GET", "/y", "X-Api-Key", "c"); a.problem.Code != "capacity_exhausted" {
			t.Errorf("%+v", a.problem)
		}
		close(release)
		all.Wait()
	})
}

func TestRequestsAreNamed(t *testing.T) {
	var seen string
	for _, named := range []bool{true, false} {
		inBubble(t, gate.Config{NameRequests: named}, func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Get("X-Request-Id") }, func(t *testing.T, h *house) {
			h.ask(t.Context(), "GET", "/")
			if (seen != "") != named {
				t.Errorf("NameRequests %v: the service saw %q", named, seen)
			}
			h.ask(t.Context(), "GET", "/", "X-Request-Id", "mine")
			if seen != "mine" {
				t.Errorf("the caller's own name became %q", seen)
			}
		})
	}
}

// limits.body holds for bodies of unknown length, limits.body_idle for silent ones.
func TestBodyLimits(t *testing.T) {
	var read error
	c := gate.Config{Limits: gate.Limits{Body: 1000, BodyIdle: 3 * time.Second}}
	inBubble(t, c, func(_ http.ResponseWriter, r *http.Request) { _, read = io.Copy(io.Discard, r.Body) }, func(t *testing.T, h *house) {
		if a := h.send(t.Context(), "POST", "/declared", bytes.NewReader(make([]byte, 1001))); a.problem.Code != "body_too_large" {
			t.Errorf("declared: %d %+v", a.status, a.problem)
		}
		h.send(t.Context(), "POST", "/chunked", io.LimitReader(zeros{}, 5000))
		if _, ok := errors.AsType[*http.MaxBytesError](read); !ok {
			t.Errorf("chunked: %v", read)
		}
		conn, err := h.network.DialContext(t.Context(), "tcp", "service")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, _ = io.WriteString(conn, "POST /silent HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345")
		_, _ = io.ReadAll(conn)
		_ = conn.Close()
		if took := time.Since(start); took != 3*time.Second || read == nil {
			t.Errorf("a silent body ended after %v with %v", took, read)
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Callers that take their answer slowly cannot shut the house: what is on its way
// leaves the gate as a stream, sooner when others wait.
func TestSlowReadersCannotShutTheHouse(t *testing.T) {
	inBubble(t, static(2, 0), func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/big" {
			w.Header().Set("Content-Length", strconv.Itoa(8<<20))
			_, _ = w.Write(make([]byte, 4<<20))
			_, _ = w.Write(make([]byte, 4<<20))
		}
	}, func(t *testing.T, h *house) {
		var conns []net.Conn
		for range 2 {
			conn, err := h.network.DialContext(t.Context(), "tcp", "service")
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
			_, _ = io.WriteString(conn, "GET /big HTTP/1.1\r\nHost: h\r\n\r\n")
		}
		synctest.Wait()
		if a := h.ask(t.Context(), "GET", "/x"); a.status != http.StatusServiceUnavailable {
			t.Fatalf("the house is not full: %d", a.status)
		}
		time.Sleep(6 * time.Second)
		if a := h.ask(t.Context(), "GET", "/x"); a.status != http.StatusOK {
			t.Errorf("two slow readers shut a house of two: %d", a.status)
		}
		if s := h.gate.StatsAt(time.Now()); s.Streams == 0 || s.Streams+s.Inflight != 2 {
			t.Errorf("%d streams, %d in flight: want as many streams as it takes to have room", s.Streams, s.Inflight)
		}
		for _, c := range conns {
			_ = c.Close()
		}
	})
}

// Nor can callers that send their body slowly, while others wait.
func TestSlowSendersCannotShutTheHouse(t *testing.T) {
	var j journal
	c := static(2, 0)
	c.Trace = j.trace()
	inBubble(t, c, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			overload.Refuse(w, r, &overload.Refusal{Reason: comporta.RequestTimeout})
		}
	}, func(t *testing.T, h *house) {
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 2 {
			conn, err := h.network.DialContext(t.Context(), "tcp", "service")
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				_, _ = io.WriteString(conn, "POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n")
				for ctx.Err() == nil {
					if _, err := io.WriteString(conn, "x"); err != nil {
						break
					}
					time.Sleep(time.Second)
				}
				_ = conn.Close()
			})
		}
		synctest.Wait()
		if a := h.ask(t.Context(), "GET", "/x"); a.status != http.StatusServiceUnavailable {
			t.Fatalf("the house is not full: %d", a.status)
		}
		time.Sleep(7 * time.Second)
		if a := h.ask(t.Context(), "GET", "/x"); a.status != http.StatusOK {
			t.Errorf("two slow senders shut a house of two: %d", a.status)
		}
		stop()
		all.Wait()
		synctest.Wait()
		// A house with room lets the slow take their time.
		pr, pw := io.Pipe()
		all.Go(func() {
			for range 30 {
				_, _ = io.WriteString(pw, "x")
				time.Sleep(time.Second)
			}
			_ = pw.Close()
		})
		if a := h.send(t.Context(), "POST", "/patient", pr); a.status != http.StatusOK {
			t.Errorf("with room for all a slow body got %d", a.status)
		}
		all.Wait()
	})
}

// An answer that flows for thirty seconds is a stream also in a house with room.
func TestLongAnswersBecomeStreams(t *testing.T) {
	inBubble(t, static(5, 0), func(w http.ResponseWriter, _ *http.Request) {
		for range 60 {
			_, _ = io.WriteString(w, "more\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Second)
		}
	}, func(t *testing.T, h *house) {
		var all sync.WaitGroup
		all.Go(func() { h.ask(t.Context(), "GET", "/") })
		time.Sleep(29 * time.Second)
		if s := h.gate.StatsAt(time.Now()); s.Inflight != 1 || s.Streams != 0 {
			t.Errorf("after 29s: %d in flight, %d streams", s.Inflight, s.Streams)
		}
		time.Sleep(7 * time.Second)
		if s := h.gate.StatsAt(time.Now()); s.Inflight != 0 || s.Streams != 1 {
			t.Errorf("after 36s: %d in flight, %d streams", s.Inflight, s.Streams)
		}
		all.Wait()
	})
}

// A credential that its sender has removed on the way, as hop-by-hop, is none: the
// service never sees it, so its answer proves nothing.
func TestNominatedCredentialIsNotProven(t *testing.T) {
	inBubble(t, gate.Config{}, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, h *house) {
		for range 3 {
			conn, err := h.network.DialContext(t.Context(), "tcp", "service")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, "GET /x HTTP/1.1\r\nHost: h\r\nX-Api-Key: invented\r\nConnection: close, X-Api-Key\r\n\r\n")
			_, _ = io.ReadAll(conn)
			_ = conn.Close()
		}
		h.gate.State().EachRequestCount(func(c gate.RequestCount) bool {
			if c.Class != comporta.ClassAnonymous {
				t.Errorf("%+v", c)
			}
			return true
		})
	})
}

// cases/overload.md 10: statistics are read while eight recorders write them; the
// race detector is the judge, and the sums add up.
func TestCase_Overload_A10_StatisticsWithoutRaces(t *testing.T) {
	g, err := gate.New(gate.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const recorders, each = 8, 500
	var recording, reading sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		reading.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				now := time.Now()
				if s := g.StatsAt(now); s.Inflight < 0 || s.Inflight > recorders {
					t.Errorf("%d in flight of %d", s.Inflight, recorders)
				}
				g.State().VerdictAt(now)
				g.State().EachRequestCount(func(gate.RequestCount) bool { return true })
			}
		})
	}
	for i := range recorders {
		recording.Go(func() {
			for j := range each {
				r := &comporta.Request{Method: "GET", Path: fmt.Sprintf("/%d/%d", i, j), Header: http.Header{"X-Api-Key": {strconv.Itoa(i)}}}
				d := g.Begin(time.Now(), r)
				d.FinishAt(time.Now(), comporta.Outcome{Status: 200, Result: comporta.ResultSuccess, Latency: time.Millisecond})
			}
		})
	}
	recording.Wait()
	close(stop)
	reading.Wait()
	total := uint64(0)
	g.State().EachRequestCount(func(c gate.RequestCount) bool { total += c.Count; return true })
	if total != recorders*each || g.StatsAt(time.Now()).Inflight != 0 {
		t.Errorf("%d requests are counted, %d in flight", total, g.StatsAt(time.Now()).Inflight)
	}
}
