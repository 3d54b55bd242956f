package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/comporta/comporta/proxy"
)

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// cases/proxy.md D 32: the service executes a request on a kept connection and
// closes without an answer. Whoever sends it again executes twice. The proxy
// does not; the same transport without it does, which is why seal exists.
func TestCase_Proxy_D32_NoHiddenReplay(t *testing.T) {
	requests := []struct {
		name, method, body string
		header             []string
		replayed           bool // by a bare httputil.ReverseProxy
	}{
		{"GET", http.MethodGet, "", nil, true},
		{"HEAD", http.MethodHead, "", nil, true},
		{"empty POST with a key", http.MethodPost, "", []string{"Idempotency-Key", "k"}, true},
		{"empty DELETE with the other key", http.MethodDelete, "", []string{"X-Idempotency-Key", "k"}, true},
		{"empty POST", http.MethodPost, "", nil, false},
		{"POST with a key", http.MethodPost, "body", []string{"Idempotency-Key", "k"}, false},
	}
	// executed counts how often the service sees the request that it cuts off.
	executed := func(t *testing.T, handler func(upstream *url.URL) http.Handler, method, body string, header []string) int64 {
		t.Helper()
		up, requests := scripted(t, ok, "") // each connection: one answer, then a cut
		h := handler(address(t, up))
		for i := range 2 {
			r := httptest.NewRequest(method, "/", strings.NewReader(body))
			if i == 0 {
				r = httptest.NewRequest(http.MethodGet, "/warm", http.NoBody)
			} else if len(header) > 0 {
				r.Header.Set(header[0], header[1])
			}
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		return requests.Load() - 1
	}
	for _, tt := range requests {
		t.Run(tt.name, func(t *testing.T) {
			n := &notes{}
			ours := func(u *url.URL) http.Handler { return newProxy(t, n, u.String()) }
			if got := executed(t, ours, tt.method, tt.body, tt.header); got != 1 {
				t.Errorf("executed %d times", got)
			}
			if said := n.said(); said != "[upstream_failed] success unreachable" {
				t.Error(said)
			}
			bare := func(u *url.URL) http.Handler {
				transport := &http.Transport{}
				t.Cleanup(transport.CloseIdleConnections)
				return &httputil.ReverseProxy{
					Transport:    transport,
					Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(u) },
					ErrorHandler: func(http.ResponseWriter, *http.Request, error) {},
				}
			}
			if got := executed(t, bare, tt.method, tt.body, tt.header); (got > 1) != tt.replayed {
				t.Errorf("httputil.ReverseProxy executed %d times: has net/http changed?", got)
			}
		})
	}
}

// Taking the look of a replayable request away must not show on the wire.
func TestSealedRequestsOnTheWire(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heads := make(chan string, 1)
	go func() {
		defer close(heads)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			br, head := bufio.NewReader(conn), ""
			for {
				line, err := br.ReadString('\n')
				if head += line; err != nil || line == "\r\n" {
					break
				}
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
			_ = conn.Close()
			heads <- head
		}
	}()
	base, _ := front(t, nil, "http://"+l.Addr().String())
	defer func() {
		_ = l.Close()
		<-heads
	}()
	for _, tt := range []struct{ method, has, hasNot string }{
		{"GET", "GET / HTTP/1.1\r\n", "content-length|transfer-encoding"},
		{"HEAD", "HEAD / HTTP/1.1\r\n", "content-length|transfer-encoding"},
		{"OPTIONS", "OPTIONS / HTTP/1.1\r\n", "content-length|transfer-encoding"},
		{"POST", "content-length: 0\r\n", "transfer-encoding"},
		{"PUT", "idempotency-key: \"k\"\r\n", "transfer-encoding"},
	} {
		raw(t, base, tt.method+" / HTTP/1.1\r\nHost: h\r\nIdempotency-Key: \"k\"\r\nConnection: close\r\n\r\n")
		head := <-heads
		lower := strings.ToLower(head)
		if !strings.Contains(head, tt.has) && !strings.Contains(lower, tt.has) {
			t.Errorf("%s: no %q in\n%s", tt.method, tt.has, head)
		}
		if strings.Count(lower, "idempotency-key:") != 1 {
			t.Errorf("%s: not one key in\n%s", tt.method, head)
		}
		for name := range strings.SplitSeq(tt.hasNot, "|") {
			if strings.Contains(lower, name+":") {
				t.Errorf("%s: %s in\n%s", tt.method, name, head)
			}
		}
	}
}

// A sealed GET also works over HTTP/2.
func TestSealedOverH2C(t *testing.T) {
	up := service(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if len(body) != 0 || err != nil || r.ProtoMajor != 2 {
			t.Errorf("%q, %v, %s", body, err, r.Proto)
		}
		_, _ = io.WriteString(w, r.Method+r.Header.Get("Idempotency-Key"))
	})
	base, _ := front(t, nil, strings.Replace(up, "http:", "h2c:", 1))
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		answer := raw(t, base, method+" / HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\nConnection: close\r\n\r\n")
		if !strings.Contains(answer, method+"k") {
			t.Errorf("%s: %q", method, answer)
		}
	}
}

// cases/proxy.md D 33: a refused dial moves on once, for every method and with
// its body, and says so.
func TestCase_Proxy_D33_RefusedDialMovesOn(t *testing.T) {
	up := service(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	base, n := front(t, nil, "http://"+refusing(t), up)
	moved := 0
	for range 40 {
		res, err := http.Post(base, "text/plain", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != 200 || string(body) != "body" || err != nil {
			t.Fatalf("%s %q %v", res.Status, body, err)
		}
		switch said := n.said(); said {
		case "[] success":
		case "[] unreachable,moved success":
			moved++
		default:
			t.Fatal(said)
		}
	}
	if moved == 0 {
		t.Error("never moved in 40 requests to two upstreams")
	}

	t.Run("only once", func(t *testing.T) {
		base, n := front(t, nil, "http://"+refusing(t), "http://"+refusing(t), "http://"+refusing(t))
		if res, _ := get(t, base); res.StatusCode != http.StatusServiceUnavailable {
			t.Error(res.Status)
		}
		if said := n.said(); said != "[upstream_unavailable] unreachable,moved unreachable" {
			t.Error(said)
		}
	})
}

// What may have been executed does not move on, although there is elsewhere to go.
func TestAskedOnceIsAskedOnce(t *testing.T) {
	one, atOne := scripted(t, "")
	two, atTwo := scripted(t, "")
	base, n := front(t, nil, one, two)
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPost} {
		before := atOne.Load() + atTwo.Load()
		raw(t, base, method+" / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		if said, asked := n.said(), atOne.Load()+atTwo.Load()-before; said != "[upstream_failed] unreachable" || asked != 1 {
			t.Errorf("%s: asked %d times, %s", method, asked, said)
		}
	}
}

// dying is a connection whose writes fail, without a byte, after the first
// request: as on one that its peer has reset meanwhile.
type dying struct {
	net.Conn

	writes *atomic.Int64
	whole  bool // false: the failing write lets a byte through
}

func (d *dying) Write(p []byte) (int, error) {
	if d.writes.Add(1) != 2 {
		return d.Conn.Write(p)
	}
	if !d.whole {
		n, _ := d.Conn.Write(p[:1])
		return n, syscall.EPIPE
	}
	return 0, syscall.EPIPE
}

// A kept connection that died before the first byte is replaced; one byte later
// it is not.
func TestStaleConnection(t *testing.T) {
	for _, tt := range []struct {
		name  string
		whole bool
		want  string
	}{
		{"nothing left", true, "[] success unreachable,moved success"},
		{"one byte left", false, "[upstream_failed] success unreachable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := service(t, func(http.ResponseWriter, *http.Request) {})
			writes := new(atomic.Int64)
			base, n := front(t, func(c *proxy.Config) {
				c.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := new(net.Dialer).DialContext(ctx, network, addr)
					if err != nil {
						return nil, err
					}
					return &dying{Conn: conn, writes: writes, whole: tt.whole}, nil
				}
			}, up)
			for range 2 {
				_, _ = get(t, base)
			}
			if said := n.said(); said != tt.want {
				t.Errorf("got %s, want %s", said, tt.want)
			}
		})
	}
}
