package proxy_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/comporta/comporta/proxy"
)

// drinking is a service that reads whole bodies.
func drinking(t *testing.T) string {
	t.Helper()
	return service(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
}

// A body that comes too slowly is answered with 408, although net/http cancels a
// request of HTTP/1 when its read deadline has passed.
func TestLateBodyIsAnswered(t *testing.T) {
	n := &notes{}
	p := newProxy(t, n, drinking(t))
	base := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// What has come with the head is read, and then the deadline has passed.
		if err := http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)); err != nil {
			t.Error(err)
		}
		p.ServeHTTP(w, r)
	}))
	for name, tt := range map[string]struct{ request, want string }{
		"short":   {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf", "[request_timeout]"}, // nobody was asked
		"length":  {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nhalf", "[request_timeout] abandoned"},
		"chunked": {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", "[request_timeout] abandoned"},
		"nothing": {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n", "[request_timeout] abandoned"},
	} {
		for range 10 {
			answer := raw(t, base, tt.request)
			if said := n.said(); !strings.HasPrefix(answer, "HTTP/1.1 408 ") || said != tt.want {
				t.Fatalf("%s: %q, %s", name, answer, said)
			}
			if !strings.Contains(answer, "Connection: close") {
				t.Errorf("%s: the connection goes on in the middle of a body: %q", name, answer)
			}
		}
	}
}

// tellingConn tells when it is closed.
type tellingConn struct {
	net.Conn

	once   sync.Once
	closed chan struct{}
}

func (c *tellingConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// cancellingBody fails as a body of net/http does: the request is cancelled first,
// and the reader told afterwards, here when the try has long been given up.
type cancellingBody struct {
	cancel context.CancelFunc
	gone   <-chan struct{}
	err    error
}

func (b *cancellingBody) Read([]byte) (int, error) {
	b.cancel()
	<-b.gone
	<-time.After(20 * time.Millisecond)
	return 0, b.err
}

func (*cancellingBody) Close() error { return nil }

func TestFaultAfterCancellation(t *testing.T) {
	up := drinking(t)
	for _, tt := range []struct {
		name  string
		proto int
		err   error
		want  string
	}{
		{"late", 1, os.ErrDeadlineExceeded, "[request_timeout] abandoned"},
		{"late, HTTP/2", 2, os.ErrDeadlineExceeded, "[request_timeout] abandoned"},
		{"too large", 1, &http.MaxBytesError{Limit: 1}, "[body_too_large] abandoned"},
		{"malformed", 1, io.ErrNoProgress, "[malformed_request] abandoned"},
		{"stream reset", 2, io.ErrNoProgress, "[] abandoned"},
		{"cut off", 1, io.ErrUnexpectedEOF, "[] abandoned"},
		{"connection reset", 1, &net.OpError{Op: "read", Err: os.NewSyscallError("read", io.ErrNoProgress)}, "[] abandoned"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gone := make(chan struct{})
			n := &notes{}
			p, err := proxy.New(proxy.Config{
				Upstreams: []*url.URL{address(t, up)}, Fail: n.fail, Observe: n.observe,
				DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := new(net.Dialer).DialContext(ctx, network, addr)
					return &tellingConn{Conn: conn, closed: gone}, err
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			ctx, cancel := context.WithCancel(t.Context())
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", &cancellingBody{cancel, gone, tt.err})
			r.ContentLength, r.ProtoMajor = 1<<20, tt.proto
			func() {
				defer func() { _ = recover() }() // http.ErrAbortHandler for whom has left
				p.ServeHTTP(httptest.NewRecorder(), r)
			}()
			if said := n.said(); said != tt.want {
				t.Errorf("got %s, want %s", said, tt.want)
			}
		})
	}
}

// cases/proxy.md C 28, in the middle of a body: a caller who leaves is not
// answered.
func TestCase_Proxy_C28_CallerLeavesMidBody(t *testing.T) {
	n := &notes{}
	p := newProxy(t, n, drinking(t))
	over := make(chan struct{})
	base := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(over)
		p.ServeHTTP(w, r)
	}))
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nhalf"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	<-over
	if said := n.said(); said != "[] abandoned" {
		t.Error(said)
	}
}

// A request that ends while its caller says nothing does not wait for it, and the
// upstream is not to blame.
func TestTheEndDoesNotWaitForASilentCaller(t *testing.T) {
	for name, tt := range map[string]struct {
		bound func(context.Context) (context.Context, context.CancelFunc)
		want  string
	}{
		"cancelled": {context.WithCancel, "[] abandoned"},
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			t.Cleanup(cancel)
			return ctx, func() {} // its time ends it
		}, "[request_timeout] abandoned"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &notes{}
			p := newProxy(t, n, drinking(t))
			over := make(chan struct{})
			base := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(over)
				ctx, cancel := tt.bound(r.Context())
				r.Body = &cancelAtEnd{ReadCloser: r.Body, left: len("half"), cancel: cancel}
				p.ServeHTTP(w, r.WithContext(ctx))
			}))
			conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nhalf"); err != nil {
				t.Fatal(err)
			}
			<-over
			if said := n.said(); said != tt.want {
				t.Errorf("got %s, want %s", said, tt.want)
			}
		})
	}
}

// cancelAtEnd cancels before it reads on from where nothing will come.
type cancelAtEnd struct {
	io.ReadCloser

	left   int
	cancel context.CancelFunc
}

func (b *cancelAtEnd) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.cancel()
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	return n, err
}
