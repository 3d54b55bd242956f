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
	"time"

	"go.uber.org/goleak"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func address(t testing.TB, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// notes is what a proxy under test told: its failures and its reports.
type notes struct {
	mu      sync.Mutex
	reasons []comporta.Reason
	errs    []error
	reports []proxy.Report
}

func (n *notes) fail(w http.ResponseWriter, _ *http.Request, reason comporta.Reason, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reasons, n.errs = append(n.reasons, reason), append(n.errs, err)
	w.Header().Set(comporta.HeaderDecision, reason.String())
	w.WriteHeader(reason.Info().Status)
}

func (n *notes) observe(r proxy.Report) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reports = append(n.reports, r)
}

// said returns the failures and results so far, and forgets them.
func (n *notes) said() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := fmt.Sprintf("%v", n.reasons)
	for _, r := range n.reports {
		s += " " + r.Result.String()
		if r.Moved {
			s += ",moved"
		}
		if r.Retried {
			s += ",retried"
		}
	}
	n.reasons, n.errs, n.reports = nil, nil, nil
	return s
}

// front starts a proxy on loopback in front of upstreams. change may alter its
// configuration; nil changes nothing.
func front(t testing.TB, change func(*proxy.Config), upstreams ...string) (base string, n *notes) {
	t.Helper()
	n = &notes{}
	c := proxy.Config{Fail: n.fail, Observe: n.observe}
	for _, u := range upstreams {
		c.Upstreams = append(c.Upstreams, address(t, u))
	}
	if change != nil {
		change(&c)
	}
	p, err := proxy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, p), n
}

// serve starts a server with HTTP/1 and h2c that is gone when the test ends.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(func() {
		if p, ok := h.(*proxy.Proxy); ok {
			p.Close()
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		s.Close()
	})
	return s.URL
}

func service(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	return serve(t, h)
}

// raw sends bytes on a connection of its own and returns all that comes back
// until the other side closes.
func raw(t testing.TB, base, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("%v after %q", err, answer)
	}
	return string(answer)
}

func get(t testing.TB, url string) (*http.Response, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func TestConfigProblems(t *testing.T) {
	tests := []struct {
		name string
		c    proxy.Config
		want []string
	}{
		{"nothing", proxy.Config{}, []string{"Upstreams is empty"}},
		{"everything at once", proxy.Config{
			Upstreams: []*url.URL{
				nil, address(t, "ftp://host"), address(t, "http:///x"), address(t, "http://a:secret@host"), address(t, "https://host/base"),
			},
			Timeout: -1, ConnectTimeout: -1, IdleTimeout: -1, MaxConnections: -1,
		}, []string{
			"Upstreams[0]: nil", "Upstreams[1]: \"ftp://host\": the scheme", "Upstreams[2]", "Upstreams[3]", "Upstreams[4]",
			"Timeout is", "ConnectTimeout is", "IdleTimeout is", "MaxConnections is",
		}},
		{"fine", proxy.Config{Upstreams: []*url.URL{address(t, "http://host/"), address(t, "https://host"), address(t, "h2c://host:1")}}, nil},
	}
	for _, tt := range tests {
		_, err := proxy.New(tt.c)
		if (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v", tt.name, err)
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in\n%v", tt.name, want, err)
			}
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: a password in %v", tt.name, err)
		}
	}
}

// The line of the request arrives as it was sent: cases/proxy.md G 50 for paths,
// and the query byte for byte.
func TestCase_Proxy_G50_TargetPassesRaw(t *testing.T) {
	var target atomic.Value
	up := service(t, func(_ http.ResponseWriter, r *http.Request) { target.Store(r.RequestURI) })
	base, n := front(t, nil, up)
	for _, want := range []string{
		"/", "/a%20b/%e4%C3", "/a%2Fb", "//a///b/", "/%61", "/a;v=1/b",
		"/?", "/?a=1;b=2", "/?a=%zz&b=%", "/?a=b+c&a=d%20e&&=", "/?q=/../x", "/?" + strings.Repeat("a&", 12000),
	} {
		answer := raw(t, base, "GET "+want+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(answer, "HTTP/1.1 200") {
			t.Errorf("%.40q: %s", want, answer)
		}
		if got := target.Load(); got != want {
			t.Errorf("sent %.40q, arrived %.40q", want, got)
		}
	}
	n.said()
	target.Store("")
	for _, bad := range []string{"/a/%2e%2e/admin", "/a//../admin", "/..", "/a/..;/b", "/p#/admin", "/a%00"} {
		answer := raw(t, base, "GET "+bad+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(answer, "HTTP/1.1 400") {
			t.Errorf("%q: %s", bad, answer)
		}
		if got := n.said(); got != "[malformed_request]" {
			t.Errorf("%q: %s", bad, got)
		}
	}
	if got := target.Load(); got != "" {
		t.Errorf("%q reached the service", got)
	}
}

// cases/proxy.md G 51: a gRPC path without its slash never reaches policy or
// service.
func TestCase_Proxy_G51_PathWithoutSlash(t *testing.T) {
	up := service(t, func(http.ResponseWriter, *http.Request) { t.Error("reached the service") })
	n := &notes{}
	p, err := proxy.New(proxy.Config{Upstreams: []*url.URL{address(t, up)}, Fail: n.fail})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"pkg.Service/Method", ""} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.URL.Path = path
		p.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || n.said() != "[malformed_request]" {
			t.Errorf("%q: %d", path, w.Code)
		}
	}
}

func TestConnectIsRefused(t *testing.T) {
	up := service(t, func(http.ResponseWriter, *http.Request) { t.Error("reached the service") })
	base, n := front(t, nil, up)
	answer := raw(t, base, "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 405") || n.said() != "[method_not_allowed]" {
		t.Error(answer)
	}
}

// The plain refusal of a proxy without a gate keeps the contract's headers.
func TestFailPlain(t *testing.T) {
	base, _ := front(t, func(c *proxy.Config) { c.Fail, c.Observe = nil, nil }, "http://"+refusing(t))
	res, body := get(t, base)
	if res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" || res.Header.Get("X-Should-Retry") != "true" ||
		res.Header.Get("Comporta-Decision") != "upstream_unavailable" || !strings.Contains(body, "unavailable") {
		t.Errorf("%s %v %q", res.Status, res.Header, body)
	}
}

// refusing returns an address of loopback that refuses connections.
func refusing(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// scripted is an upstream that answers request number i of each connection with
// what the script says; "" cuts the connection after reading the request.
func scripted(t testing.TB, script ...string) (base string, requests *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	requests = new(atomic.Int64)
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
				for _, answer := range script {
					r, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					requests.Add(1)
					_, _ = io.Copy(io.Discard, r.Body)
					if _, err := io.WriteString(conn, answer); err != nil || answer == "" {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		open.Wait()
	})
	return "http://" + l.Addr().String(), requests
}

// scriptedH2C is an upstream without TLS that speaks just enough HTTP/2 to answer
// each connection's first request with a status of up to five digits.
func scriptedH2C(t testing.TB, status string) (base string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const settings, headers, endStream, endHeaders = 4, 1, 1, 4
	serve := func(conn net.Conn) {
		defer conn.Close()
		preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
		if _, err := io.ReadFull(conn, preface); err != nil {
			return
		}
		_, _ = conn.Write([]byte{0, 0, 0, settings, 0, 0, 0, 0, 0})
		for head := make([]byte, 9); ; {
			if _, err := io.ReadFull(conn, head); err != nil {
				return
			}
			length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
			if _, err := io.CopyN(io.Discard, conn, length); err != nil {
				return
			}
			if head[3] == headers {
				// HPACK: a literal under name 8 of the static table, ":status".
				block := append([]byte{8, byte(len(status))}, status...)
				flags := byte(endHeaders | endStream)
				if len(status) == 3 {
					flags = endHeaders // an informational one does not end the stream
				}
				_, _ = conn.Write(append([]byte{0, 0, byte(len(block)), headers, flags, 0, 0, 0, 1}, block...))
			}
		}
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		open.Wait()
	})
	return "h2c://" + l.Addr().String()
}

func TestUpstreamFailures(t *testing.T) {
	garbage, _ := scripted(t, "this is no HTTP\r\n\r\n")
	silent, _ := scripted(t, "")
	oversized, _ := scripted(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 300<<10)+"\r\n\r\n")
	tests := []struct{ name, upstream, want string }{
		{"refused", "http://" + refusing(t), "[upstream_unavailable] unreachable"},
		{"not TLS", strings.Replace(garbage, "http:", "https:", 1), "[upstream_unavailable] unreachable"},
		{"garbage", garbage, "[upstream_failed] unreachable"},
		{"hung up", silent, "[upstream_failed] unreachable"},
		{"endless head", oversized, "[upstream_failed] unreachable"},
	}
	for _, status := range []string{"000", "007", "099", "+42"} { // three digits, but no status
		up, _ := scripted(t, "HTTP/1.1 "+status+" Odd\r\nContent-Length: 4\r\n\r\nbody")
		tests = append(tests, struct{ name, upstream, want string }{status, up, "[upstream_failed] unreachable"})
	}
	for _, status := range []string{"0", "101", "1000", "99999"} {
		tests = append(tests, struct{ name, upstream, want string }{"HTTP/2 " + status, scriptedH2C(t, status), "[upstream_failed] unreachable"})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base, n := front(t, nil, tt.upstream)
			res, _ := get(t, base)
			if got := n.said(); got != tt.want || !strings.HasPrefix(got, "["+res.Header.Get(comporta.HeaderDecision)+"]") {
				t.Errorf("got %s, want %s; answered %s", got, tt.want, res.Status)
			}
		})
	}
}

// A refused caller keeps its connection when its body is small: in an outage new
// connections would add to the flood.
func TestRefusalKeepsTheConnection(t *testing.T) {
	base, _ := front(t, nil, "http://"+refusing(t))
	for size, closes := range map[int]bool{4: false, 60 << 10: false, 1 << 20: true} {
		res, err := http.Post(base, "text/plain", strings.NewReader(strings.Repeat("x", size)))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusServiceUnavailable || res.Close != closes {
			t.Errorf("%d bytes: %s, close %v", size, res.Status, res.Close)
		}
	}
}

// An answer that breaks off must not look complete.
func TestTruncatedAnswer(t *testing.T) {
	for name, answer := range map[string]string{
		"length":  "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			cut := make(chan struct{})
			up := service(t, func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_, _ = io.WriteString(conn, answer)
				close(cut)
			})
			base, _ := front(t, nil, up)
			res, err := http.Get(base)
			if err != nil {
				return // broken before the head came through: as good
			}
			defer res.Body.Close()
			<-cut
			if body, err := io.ReadAll(res.Body); err == nil {
				t.Errorf("%q looks complete", body)
			}
		})
	}
}

func TestCallersBody(t *testing.T) {
	t.Run("arrives whole, with its trailers", func(t *testing.T) {
		up := service(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%d %v %s %d", len(body), err, r.Trailer.Get("Checksum"), r.ContentLength)
		})
		base, _ := front(t, nil, up)
		req, err := http.NewRequest(http.MethodPost, base, io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20))))
		if err != nil {
			t.Fatal(err)
		}
		req.Trailer = http.Header{"Checksum": {"42"}}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if body, _ := io.ReadAll(res.Body); string(body) != "1048576 <nil> 42 -1" {
			t.Errorf("got %q", body)
		}
	})

	t.Run("its fault is the caller's", func(t *testing.T) {
		got := make(chan error, 1)
		up := service(t, func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			got <- err
		})
		base, n := front(t, nil, up)
		answer := raw(t, base, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\nzz\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")
		if !strings.HasPrefix(answer, "HTTP/1.1 400") {
			t.Error(answer)
		}
		if said := n.said(); said != "[malformed_request] abandoned" {
			t.Error(said)
		}
		if err := <-got; err == nil {
			t.Error("the service saw a complete message")
		}
		if strings.Count(answer, "HTTP/1.1 ") != 1 {
			t.Errorf("the rest of the body was read as a request:\n%s", answer)
		}
	})

	t.Run("beyond its limit", func(t *testing.T) {
		up := service(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
		n := &notes{}
		p, err := proxy.New(proxy.Config{Upstreams: []*url.URL{address(t, up)}, Fail: n.fail, Observe: n.observe})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		base := serve(t, http.MaxBytesHandler(p, 10))
		res, err := http.Post(base, "text/plain", strings.NewReader(strings.Repeat("x", 1000)))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if said := n.said(); res.StatusCode != http.StatusRequestEntityTooLarge || said != "[body_too_large]" {
			t.Errorf("%s, %s", res.Status, said)
		}
	})
}

// cases/proxy.md A 16: an upstream that answers before it has the whole body is
// relayed at once, although the caller sends nothing more.
func TestCase_Proxy_A16_EarlyAnswer(t *testing.T) {
	up := service(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})
	base, n := front(t, nil, up)
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nsome"); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if said := n.said(); res.StatusCode != http.StatusRequestEntityTooLarge || said != "[] deterministic" {
		t.Errorf("%s, %s", res.Status, said)
	}
	if !res.Close {
		t.Error("the connection goes on in the middle of a body")
	}
}

// cases/proxy.md C 28: a caller who leaves takes the upstream's request along,
// and is not answered.
func TestCase_Proxy_C28_CallerLeaves(t *testing.T) {
	asked, left := make(chan struct{}), make(chan struct{})
	up := service(t, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
		close(left)
	})
	n := &notes{}
	p, err := proxy.New(proxy.Config{Upstreams: []*url.URL{address(t, up)}, Fail: n.fail, Observe: n.observe})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	aborted := make(chan any, 1)
	base := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			aborted <- v
			panic(v)
		}()
		p.ServeHTTP(w, r)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := http.DefaultClient.Do(req); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", res, err)
	}
	<-left
	if v, isError := (<-aborted).(error); !isError || !errors.Is(v, http.ErrAbortHandler) {
		t.Errorf("the handler ended with %v, want http.ErrAbortHandler", v)
	}
	if said := n.said(); said != "[] abandoned" {
		t.Error(said)
	}
}

func ExampleNew() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.RequestURI, r.Header.Get("X-Forwarded-Proto"))
	}))
	defer service.Close()
	upstream, err := url.Parse(service.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := proxy.New(proxy.Config{Upstreams: []*url.URL{upstream}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()

	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/orders?id=1;2", http.NoBody))
	fmt.Print(w.Body)
	// Output: /orders?id=1;2 http
}
