package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/internal/memhttp"
	"github.com/comporta/comporta/proxy"
)

// street is a proxy in front of services in virtual time.
type street struct {
	network memhttp.Network
	proxy   *proxy.Proxy
	notes   notes
}

// along runs f in a bubble with a proxy in front of a service for each handler, which
// are called a, b and so on.
func along(t *testing.T, c proxy.Config, f func(t *testing.T, s *street), handlers ...http.HandlerFunc) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &street{}
		for i, h := range handlers {
			name := string(rune('a' + i))
			service := s.network.Serve(name, h)
			defer service.Close() //nolint:gocritic // each lives as long as the bubble
			c.Upstreams = append(c.Upstreams, address(t, "http://"+name))
		}
		c.DialContext, c.Fail, c.Observe = s.network.DialContext, s.notes.fail, s.notes.observe
		var err error
		if s.proxy, err = proxy.New(c); err != nil {
			t.Fatal(err)
		}
		defer s.proxy.Close()
		f(t, s)
	})
}

func (s *street) get() int {
	w, _ := call(s.proxy, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	return w.Code
}

func answering(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// An upstream that does not answer is left alone, also when it stands alone, and who
// is turned away hears for how long.
func TestBreakerStopsSilence(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	var states []string
	c := proxy.Config{Breaker: &breaker.Config{}, Trace: proxy.Trace{Breaker: func(_ time.Time, u *url.URL, change breaker.Change) {
		states = append(states, u.Host+" "+change.To.String())
	}}}
	along(t, c, func(t *testing.T, s *street) {
		for range breaker.DefaultMinimum {
			if code := s.get(); code != 502 {
				t.Fatal(code)
			}
		}
		s.notes.said()
		if code := s.get(); code != 503 {
			t.Fatal(code)
		}
		e, ok := errors.AsType[*proxy.UnavailableError](s.notes.errs[0])
		if !ok || !errors.Is(e, breaker.ErrOpen) || e.RetryAfter < breaker.DefaultOpen || e.RetryAfter > 2*breaker.DefaultOpen {
			t.Errorf("%v", s.notes.errs)
		}
		if said := s.notes.said(); said != "[upstream_unavailable]" {
			t.Errorf("%s: nobody was asked", said)
		}
		if st := s.proxy.StatsAt(time.Now()).Upstreams[0]; st.Breaker != breaker.Open || st.Opened != 1 {
			t.Errorf("%+v", st)
		}
		broken.Store(false)
		time.Sleep(2 * breaker.DefaultOpen) // virtual
		for range 3 {
			if code := s.get(); code != 200 {
				t.Error(code)
			}
		}
		if got := strings.Join(states, ", "); got != "a open, a half_open, a closed" {
			t.Error(got)
		}
	}, func(http.ResponseWriter, *http.Request) {
		if broken.Load() {
			panic(http.ErrAbortHandler)
		}
	})
}

// The wait reaches a caller of a proxy that stands alone.
func TestOpenBreakerTellsTheWait(t *testing.T) {
	w := httptest.NewRecorder()
	p, err := proxy.New(proxy.Config{
		Upstreams: []*url.URL{address(t, "http://"+refusing(t))}, Breaker: &breaker.Config{Minimum: 1, Open: 30 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w = httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	}
	if got := w.Header().Get("Retry-After"); len(got) != 2 || got < "30" || got > "45" {
		t.Errorf("%d, Retry-After %q", w.Code, got)
	}
}

// What an upstream answers never stops the last one.
func TestBreakerLeavesTheLastWhoAnswers(t *testing.T) {
	for _, handlers := range [][]http.HandlerFunc{{answering(500)}, {answering(500), answering(503)}} {
		along(t, proxy.Config{Breaker: &breaker.Config{}}, func(t *testing.T, s *street) {
			for range 200 {
				if code := s.get(); code != 500 && code != 503 {
					t.Fatal(code)
				}
			}
			if said := s.notes.said(); !strings.HasPrefix(said, "[]") {
				t.Error(said)
			}
		}, handlers...)
	}
}

// One that fails hands its traffic to the others, and comes back slowly.
func TestBreakerMovesTraffic(t *testing.T) {
	var bad atomic.Bool
	var atA atomic.Int64
	bad.Store(true)
	a := func(w http.ResponseWriter, _ *http.Request) {
		atA.Add(1)
		if bad.Load() {
			w.WriteHeader(500)
		}
	}
	along(t, proxy.Config{Breaker: &breaker.Config{}}, func(t *testing.T, s *street) {
		for range 200 { // so that a has had its twenty
			s.get()
		}
		if got := atA.Load(); got != breaker.DefaultMinimum {
			t.Errorf("asked %d times", got)
		}
		for range 100 {
			if code := s.get(); code != 200 {
				t.Fatal(code)
			}
		}
		bad.Store(false)
		time.Sleep(2 * breaker.DefaultOpen) // virtual
		for range 100 {                     // so that a has had its probe
			s.get()
		}
		st := s.proxy.StatsAt(time.Now()).Upstreams[0]
		if st.Breaker != breaker.Closed || st.Share > 0.2 || st.Share < 0.1 {
			t.Errorf("%+v", st)
		}
		time.Sleep(proxy.DefaultSlowStart) // virtual
		if st := s.proxy.StatsAt(time.Now()).Upstreams[0]; st.Share != 1 {
			t.Errorf("%+v", st)
		}
	}, a, answering(200))
}

// A caller's fault says nothing about an upstream.
func TestBreakerIgnoresTheCaller(t *testing.T) {
	along(t, proxy.Config{Breaker: &breaker.Config{Minimum: 1, Failures: 0.01}}, func(t *testing.T, s *street) {
		for range 50 {
			r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader("half"), readerFunc(func([]byte) (int, error) {
				return 0, io.ErrUnexpectedEOF
			})))
			r.ContentLength = -1
			call(s.proxy, r)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			call(s.proxy, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			if w, _ := call(s.proxy, httptest.NewRequestWithContext(ctx, http.MethodGet, "/slow", http.NoBody)); w.Code != 504 {
				t.Error(w.Code)
			}
			cancel()
		}
		if st := s.proxy.StatsAt(time.Now()).Upstreams[0]; st.Breaker != breaker.Closed {
			t.Errorf("%+v", st)
		}
		if code := s.get(); code != 200 {
			t.Error(code)
		}
	}, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
		}
	})
}

// A full pool shows, moves requests on where it can, and opens no breaker.
func TestExhaustedPoolShows(t *testing.T) {
	var free chan struct{}
	c := proxy.Config{MaxConnections: 1, ConnectTimeout: time.Second, Breaker: &breaker.Config{Minimum: 1, Failures: 0.01}}
	along(t, c, func(t *testing.T, s *street) {
		free = make(chan struct{})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { s.get() })
		}
		synctest.Wait()
		if st := s.proxy.StatsAt(time.Now()).Upstreams[0]; st.InFlight != 3 || st.Waiting != 2 {
			t.Errorf("%+v", st)
		}
		time.Sleep(time.Second) // virtual
		synctest.Wait()
		if st := s.proxy.StatsAt(time.Now()).Upstreams[0]; st.InFlight != 1 || st.Waiting != 0 || st.Exhausted != 2 || st.Breaker != breaker.Closed {
			t.Errorf("%+v", st)
		}
		close(free)
		all.Wait()
		if st := s.proxy.StatsAt(time.Now()).Upstreams[0]; st.Idle != 1 || st.Dialed != 1 {
			t.Errorf("%+v", st)
		}
	}, func(http.ResponseWriter, *http.Request) { <-free })
}

// Checks send an upstream away and bring it back; when all are out, all are in.
func TestHealthChecks(t *testing.T) {
	var up [2]atomic.Bool
	var asked [2]atomic.Int64
	handler := func(i int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/healthz" && r.URL.RawQuery == "full" {
				if r.Header.Get("User-Agent") != "comporta-health" {
					t.Errorf("%v", r.Header)
				}
				if !up[i].Load() {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				return
			}
			asked[i].Add(1)
		}
	}
	up[0].Store(true)
	up[1].Store(true)
	var mu sync.Mutex
	var changes []string
	c := proxy.Config{
		Health: &proxy.Health{Path: "/healthz?full"},
		Trace: proxy.Trace{Health: func(_ time.Time, u *url.URL, why error) {
			mu.Lock()
			defer mu.Unlock()
			changes = append(changes, fmt.Sprintf("%s %v", u.Host, why))
		}},
	}
	along(t, c, func(t *testing.T, s *street) {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.proxy.Run(ctx) })
		defer running.Wait()
		defer cancel()
		// A check takes no time here, and three in a row no more than four intervals.
		rounds := func(n int) { time.Sleep(time.Duration(n) * proxy.DefaultHealthInterval * 12 / 10) }
		share := func() (a, b int64) {
			before := [2]int64{asked[0].Load(), asked[1].Load()}
			for range 100 {
				if code := s.get(); code != 200 {
					t.Fatal(code)
				}
			}
			return asked[0].Load() - before[0], asked[1].Load() - before[1]
		}
		rounds(2)
		if a, b := share(); a == 0 || b == 0 {
			t.Errorf("both are in: %d and %d", a, b)
		}
		up[0].Store(false)
		rounds(4)
		if a, _ := share(); a != 0 {
			t.Errorf("a is out, and asked %d times", a)
		}
		up[1].Store(false)
		rounds(4)
		if st := s.proxy.StatsAt(time.Now()); !st.Panic || st.Upstreams[0].Healthy || st.Upstreams[1].Healthy {
			t.Errorf("%+v", st)
		}
		if a, b := share(); a == 0 || b == 0 {
			t.Errorf("all are out, so all are in: %d and %d", a, b)
		}
		up[0].Store(true)
		up[1].Store(true)
		rounds(2) // the first good check may be the one that follows at once: the slow start is not over
		if st := s.proxy.StatsAt(time.Now()); st.Panic || !st.Upstreams[0].Healthy || st.Upstreams[0].Share > 0.99 {
			t.Errorf("%+v", st)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(changes) != 4 || changes[0] != "a proxy: /healthz?full answers 503 Service Unavailable" {
			t.Errorf("%q", changes)
		}
	}, handler(0), handler(1))
}

// A reload keeps what it does not change: connections, breakers, health.
func TestReloadKeepsUpstreams(t *testing.T) {
	up, conns := talking(t, func(conn net.Conn, br *bufio.Reader) {
		for {
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			_, _ = io.WriteString(conn, ok)
		}
	})
	dead := "http://" + refusing(t)
	c := proxy.Config{Upstreams: []*url.URL{address(t, up), address(t, dead)}, Breaker: &breaker.Config{Minimum: 1, Open: time.Hour}}
	first, err := proxy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(p *proxy.Proxy) {
		t.Helper()
		for range 10 {
			if w, _ := call(p, httptest.NewRequest(http.MethodGet, "/", http.NoBody)); w.Code != 200 {
				t.Fatal(w.Code)
			}
		}
	}
	ask(first)
	c.Keep, c.Upstreams = first, []*url.URL{address(t, dead), address(t, up)}
	second, err := proxy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	ask(second)
	st := second.StatsAt(time.Now()).Upstreams
	if got := conns.Load(); got != 1 || st[0].Breaker != first.StatsAt(time.Now()).Upstreams[1].Breaker || st[1].Idle != 1 {
		t.Errorf("%d connections, %+v", got, st)
	}
	c.Keep, c.MaxConnections = second, 7
	third, err := proxy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
	ask(third)
	third.Close()
	if got := conns.Load(); got != 2 {
		t.Errorf("%d connections after a change", got)
	}
}

// A check speaks what its upstream speaks.
func TestHealthChecksSpeakHTTP2(t *testing.T) {
	seen := make(chan int, 100)
	up := service(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.ProtoMajor })
	p, err := proxy.New(proxy.Config{
		Upstreams: []*url.URL{address(t, strings.Replace(up, "http:", "h2c:", 1))},
		Health:    &proxy.Health{Path: "/healthz", Interval: 10 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	for range 4 {
		if proto := <-seen; proto != 2 {
			t.Errorf("HTTP/%d", proto)
		}
	}
	cancel()
	running.Wait()
	if st := p.StatsAt(time.Now()).Upstreams[0]; !st.Healthy {
		t.Errorf("%+v", st)
	}
}
