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
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/comporta/comporta/proxy"
	"github.com/comporta/comporta/proxy/h1"
)

// talking is an upstream that handles each of its connections as it likes. It counts
// those that say something: others may be those of another test, to a port that was
// closed and is this one's now.
func talking(t testing.TB, talk func(conn net.Conn, br *bufio.Reader)) (base string, conns *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns = new(atomic.Int64)
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer conn.Close()
				br := bufio.NewReader(conn)
				if _, err := br.Peek(1); err != nil {
					return
				}
				conns.Add(1)
				talk(conn, br)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		open.Wait()
	})
	return "http://" + l.Addr().String(), conns
}

// recorder is a ResponseRecorder that knows informational answers.
type recorder struct{ *httptest.ResponseRecorder }

func (r recorder) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		r.ResponseRecorder.WriteHeader(status)
	}
}

// call passes a request through p; cut says that the answer was broken off.
func call(p http.Handler, r *http.Request) (w recorder, cut bool) {
	w = recorder{httptest.NewRecorder()}
	defer func() {
		if v := recover(); v != nil {
			cut = true
		}
	}()
	p.ServeHTTP(w, r)
	return w, false
}

// An upstream that breaks off while the caller's body is awaited is a failure: what is
// flushed then must not be the head of an answer that nobody gave.
func TestABrokenUpstreamWhileTheBodyIsAwaited(t *testing.T) {
	up, _ := talking(t, func(conn net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err == nil {
			_, _ = io.ReadFull(br, make([]byte, 3))
			_, _ = io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 2")
		}
	})
	n := &notes{}
	p := newProxy(t, n, up)
	body, caller := io.Pipe()
	defer func() { _ = caller.Close() }()
	go func() { _, _ = io.WriteString(caller, "abc") }() // and no more
	w, cut := call(p, httptest.NewRequest(http.MethodPost, "/", body))
	if w.Code != http.StatusBadGateway || cut {
		t.Errorf("%d, cut %v, %s", w.Code, cut, n.said())
	}
}

// cases/proxy.md A 14 and A 16: an upstream that answers before it has the body is
// relayed, and its connection is never used again: what it reads of the body next it
// would take for a request.
func TestCase_Proxy_A14_A16_EarlyAnswerEndsTheConnection(t *testing.T) {
	up, conns := talking(t, func(conn net.Conn, br *bufio.Reader) {
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if r.Method == http.MethodGet {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				continue
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 413 Large\r\nContent-Length: 2\r\n\r\nno")
		}
	})
	for name, length := range map[string]int64{"length": 1 << 20, "chunks": -1} {
		t.Run(name, func(t *testing.T) {
			p := newProxy(t, &notes{}, up)
			before := conns.Load()
			rest := make(chan struct{})
			body := io.MultiReader(strings.NewReader("some"), readerFunc(func([]byte) (int, error) {
				<-rest // the caller says no more until it has its answer
				return 0, io.ErrUnexpectedEOF
			}))
			r := httptest.NewRequest(http.MethodPost, "/", body)
			r.ContentLength = length
			w := &closing{ResponseRecorder: httptest.NewRecorder(), answered: sync.OnceFunc(func() { close(rest) })}
			p.ServeHTTP(w, r)
			if w.Code != 413 || w.Body.String() != "no" || w.Header().Get("Connection") != "close" {
				t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
			}
			if w, _ := call(p, httptest.NewRequest(http.MethodGet, "/", http.NoBody)); w.Code != 200 || w.Body.String() != "ok" {
				t.Errorf("%d %q", w.Code, w.Body)
			}
			if got := conns.Load() - before; got != 2 {
				t.Errorf("%d connections, want one for each", got)
			}
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// closing calls answered with the first byte of the answer.
type closing struct {
	*httptest.ResponseRecorder

	answered func()
}

func (c *closing) Write(p []byte) (int, error) {
	c.answered()
	return c.ResponseRecorder.Write(p)
}

// A server that cannot end reading does not keep the answer waiting.
func TestEarlyAnswerWithoutDeadlines(t *testing.T) {
	up, _ := talking(t, func(conn net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 413 Large\r\nContent-Length: 2\r\n\r\nno")
		}
	})
	p := newProxy(t, &notes{}, up)
	closed := make(chan struct{})
	body := readerFunc(func([]byte) (int, error) {
		<-closed
		return 0, io.ErrClosedPipe
	})
	r := httptest.NewRequest(http.MethodPost, "/", body)
	r.ContentLength = -1
	w, cut := call(p, r) // a recorder knows no deadlines
	if w.Code != 413 || w.Body.String() != "no" || cut {
		t.Errorf("%d %q, cut %v", w.Code, w.Body, cut)
	}
	close(closed)
}

// cases/proxy.md A 16, CVE-2024-24791: a final answer where leave to send the body
// was asked ends the connection, and the body is never sent; leave that comes lets it
// flow, and silence does after a second.
func TestCase_Proxy_A16_ExpectContinue(t *testing.T) {
	read := make(chan string, 1)
	up, conns := talking(t, func(conn net.Conn, br *bufio.Reader) {
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			switch r.URL.Path {
			case "/no":
				_, _ = io.WriteString(conn, "HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n")
				rest, _ := io.ReadAll(br)
				read <- string(rest)
				return
			case "/yes":
				_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
			}
			body, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
	})
	base, _ := front(t, nil, up)
	ask := func(path string) string {
		return raw(t, base, "POST "+path+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody")
	}
	if got := ask("/no"); !strings.HasPrefix(got, "HTTP/1.1 417") {
		t.Error(got)
	}
	if got := <-read; got != "" {
		t.Errorf("%q was sent without leave", got)
	}
	for _, path := range []string{"/yes", "/silent"} {
		if got := ask(path); !strings.Contains(got, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK") || !strings.HasSuffix(got, "\r\n\r\nbody") {
			t.Errorf("%s: %q", path, got)
		}
	}
	if got := conns.Load(); got != 2 {
		t.Errorf("%d connections, want one for the refused and one for the others", got)
	}
}

// cases/proxy.md C 26: a hundred declined upgrades go over one connection, and leave
// no goroutine.
func TestCase_Proxy_C26_DeclinedUpgradesShareAConnection(t *testing.T) {
	up, conns := talking(t, func(conn net.Conn, br *bufio.Reader) {
		for {
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			if _, err := io.WriteString(conn, "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno"); err != nil {
				return
			}
		}
	})
	p := newProxy(t, &notes{}, up)
	ask := func() {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		if w, _ := call(p, r); w.Code != 403 || w.Body.String() != "no" {
			t.Fatalf("%d %q", w.Code, w.Body)
		}
	}
	ask()
	before := runtime.NumGoroutine()
	for range 100 {
		ask()
	}
	if got := runtime.NumGoroutine(); got > before {
		t.Errorf("%d goroutines, %d before", got, before)
	}
	if got := conns.Load(); got != 1 {
		t.Errorf("%d connections", got)
	}
}

// cases/proxy.md C 28: the upstream hears within 100 ms that a caller has left,
// wherever the exchange is.
func TestCase_Proxy_C28_LeavingIsHeardAtOnce(t *testing.T) {
	const stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"
	for _, tt := range []struct {
		name, head string
		after      time.Duration // before and after the exchange first looks at the clock
	}{
		{"before the head", "", 10 * time.Millisecond},
		{"long before the head", "", 2 * h1.Patience},
		{"in an event stream", stream, 10 * time.Millisecond},
		{"long in an event stream", stream, 2 * h1.Patience},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked, gone := make(chan struct{}), make(chan time.Time, 1)
			up, _ := talking(t, func(conn net.Conn, br *bufio.Reader) {
				if _, err := http.ReadRequest(br); err != nil {
					return
				}
				_, _ = io.WriteString(conn, tt.head)
				asked <- struct{}{}
				_, _ = io.Copy(io.Discard, conn)
				gone <- time.Now()
			})
			p := newProxy(t, &notes{}, up)
			least := time.Hour // of several: the machine may be busy with something else
			for try := 0; try < 5 && least > 100*time.Millisecond; try++ {
				ctx, cancel := context.WithCancel(t.Context())
				over := make(chan struct{})
				go func() {
					defer close(over)
					call(p, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
				}()
				<-asked
				<-time.After(tt.after)
				left := time.Now()
				cancel()
				least = min(least, (<-gone).Sub(left))
				<-over
			}
			if least > 100*time.Millisecond {
				t.Errorf("heard after %v", least)
			}
		})
	}
}

// cases/proxy.md D 33: whatever of a body was read, it goes along when the request
// moves, and a body that streams has not been touched.
func TestCase_Proxy_D33_BodyMovesAlong(t *testing.T) {
	up := service(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	})
	p := newProxy(t, &notes{}, "http://"+refusing(t), up)
	for _, size := range []int{1, 1 << 10, 64 << 10, 64<<10 + 1, 1 << 20} {
		for _, chunked := range []bool{false, true} {
			for range 8 { // of which about half begin at the refusing one
				body := strings.Repeat("x", size)
				r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
				if chunked {
					r.ContentLength = -1
				}
				if w, _ := call(p, r); w.Code != 200 || w.Body.String() != body {
					t.Fatalf("%d bytes: %d, %d bytes", size, w.Code, w.Body.Len())
				}
			}
		}
	}
}

// cases/proxy.md D 32 for what has no body and what has a short one: a service that
// executes and closes is asked once, and nothing moves although there is elsewhere
// to go.
func TestCase_Proxy_D32_ExecutedAndClosed(t *testing.T) {
	for _, tt := range []struct{ method, body, key string }{
		{"GET", "", ""}, {"POST", "", `"k"`}, {"POST", "body", `"k"`}, {"PUT", strings.Repeat("x", 100<<10), ""},
	} {
		one, atOne := scripted(t, ok, "")
		two, atTwo := scripted(t, ok, "")
		n := &notes{}
		p := newProxy(t, n, one, two)
		for range 2 { // so that kept connections are used
			call(p, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		}
		before := atOne.Load() + atTwo.Load()
		n.said()
		asked := int64(0)
		for range 4 {
			r := httptest.NewRequest(tt.method, "/", strings.NewReader(tt.body))
			if tt.key != "" {
				r.Header.Set("Idempotency-Key", tt.key)
			}
			call(p, r)
			asked++
		}
		if got := atOne.Load() + atTwo.Load() - before; got != asked {
			t.Errorf("%s of %d bytes: executed %d times for %d requests", tt.method, len(tt.body), got, asked)
		}
		if said := n.said(); strings.Contains(said, "moved") {
			t.Error(said)
		}
	}
}

// An upstream that has closed a kept connection is asked on a new one, at once and
// without a failure.
func TestClosedConnectionIsNoticed(t *testing.T) {
	closed := make(chan struct{})
	up, conns := talking(t, func(conn net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err == nil {
			_, _ = io.WriteString(conn, ok)
		}
		_ = conn.Close()
		closed <- struct{}{}
	})
	n := &notes{}
	p := newProxy(t, n, up)
	for range 5 {
		if w, _ := call(p, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("once"))); w.Code != 200 {
			t.Fatal(w.Code)
		}
		<-closed
		<-time.After(5 * time.Millisecond) // for the end to travel over loopback
	}
	if said := n.said(); said != "[]"+strings.Repeat(" success", 5) || conns.Load() != 5 {
		t.Errorf("%s over %d connections", said, conns.Load())
	}
}

// A tunnel does not take the place of a request.
func TestTunnelsLeaveThePool(t *testing.T) {
	up := upgrading(t)
	base, _ := front(t, func(c *proxy.Config) { c.MaxConnections = 1 }, up)
	for range 3 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 101") {
			t.Fatalf("%q, %v", line, err)
		}
	}
}

// cases/proxy.md C 31: a limit on bodies holds on the stream, and the upstream never
// sees a whole message.
func TestCase_Proxy_C31_LimitOfAStream(t *testing.T) {
	whole := make(chan error, 1)
	up := service(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		whole <- err
	})
	n := &notes{}
	p := newProxy(t, n, up)
	base := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 100<<10)
		p.ServeHTTP(w, r)
	}))
	for name, request := range map[string]string{
		"chunked": "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("8000\r\n"+strings.Repeat("x", 0x8000)+"\r\n", 5),
		"length":  "Content-Length: 163840\r\n\r\n" + strings.Repeat("x", 163840),
	} {
		answer := raw(t, base, "POST / HTTP/1.1\r\nHost: h\r\n"+request)
		if said := n.said(); !strings.HasPrefix(answer, "HTTP/1.1 413") || said != "[body_too_large] abandoned" {
			t.Errorf("%s: %.60q, %s", name, answer, said)
		}
		if err := <-whole; err == nil {
			t.Errorf("%s: the service saw a whole message", name)
		}
	}
}

// A request that cannot be written as one is the caller's fault.
func TestRequestThatCannotBeWritten(t *testing.T) {
	var asked atomic.Int64
	up := service(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	n := &notes{}
	forged := "a"
	p, err := proxy.New(proxy.Config{
		Upstreams: []*url.URL{address(t, up)}, Fail: n.fail, Observe: n.observe,
		Forward: func(_ *http.Request, out http.Header) { out["X-Client"] = []string{forged} },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	call(p, httptest.NewRequest(http.MethodGet, "/", http.NoBody)) // over a connection that will be kept
	forged = "a\r\nX-Admin: 1"
	call(p, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	if said := n.said(); said != "[malformed_request] success abandoned" || asked.Load() != 1 {
		t.Error(said, asked.Load())
	}
}

// An upstream that answers while it reads, and reads because it is read, is served in
// both directions.
func TestBothDirectionsOverHTTP1(t *testing.T) {
	up := service(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.Copy(w, r.Body)
	})
	p := newProxy(t, &notes{}, up)
	const size = 8 << 20 // more than all buffers on the way
	r := httptest.NewRequest(http.MethodPost, "/", io.LimitReader(zeros{}, size))
	r.ContentLength = -1
	if w, cut := call(p, r); w.Code != 200 || w.Body.Len() != size || cut {
		t.Errorf("%d, %d bytes, cut %v", w.Code, w.Body.Len(), cut)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Too many informational answers are none.
func TestEndlessInterimAnswers(t *testing.T) {
	up, _ := talking(t, func(conn net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		for {
			if _, err := io.WriteString(conn, "HTTP/1.1 102 Processing\r\n\r\n"); err != nil {
				return
			}
		}
	})
	base, n := front(t, nil, up)
	res, err := http.Get(base)
	if err == nil {
		_ = res.Body.Close()
	} else if !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "1xx") {
		t.Error(err)
	}
	eventually := time.Now().Add(5 * time.Second)
	for said := ""; !strings.HasPrefix(said, "[upstream_failed]"); said = n.said() {
		if time.Now().After(eventually) {
			t.Fatal("never failed")
		}
		<-time.After(time.Millisecond)
	}
}
