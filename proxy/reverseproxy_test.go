package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/proxy"
)

// What net/http/httputil.ReverseProxy promises, and this proxy too. What stands in
// the other files of this folder is not repeated.

// noise is n bytes that no two places share.
func noise(n int) []byte {
	p := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(p) // never fails
	return p
}

// Bodies of all sizes pass both ways, with a length and without, to HTTP/1 and
// to HTTP/2.
func TestBodiesPassWhole(t *testing.T) {
	up := service(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Sum", fmt.Sprintf("%x", sha256.Sum256(body)))
		w.Header().Set("Length", fmt.Sprint(r.ContentLength))
		if r.URL.Path == "/chunked" {
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = w.Write(body)
	})
	for _, up := range []string{up, strings.Replace(up, "http:", "h2c:", 1)} {
		base, _ := front(t, nil, up)
		for _, size := range []int{0, 1, 4095, 4096, 4097, 64 << 10, 1<<20 + 7} {
			for _, path := range []string{"/sized", "/chunked"} {
				body := noise(size)
				var reader io.Reader = bytes.NewReader(body)
				if path == "/chunked" {
					reader = io.MultiReader(reader) // whose length nobody knows
				}
				res, err := http.Post(base+path, "application/octet-stream", reader)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || !bytes.Equal(got, body) || res.Header.Get("Sum") != fmt.Sprintf("%x", sha256.Sum256(body)) {
					t.Errorf("%s%s, %d bytes: %d came back, %v", up, path, size, len(got), err)
				}
				if length := res.Header.Get("Length"); path == "/sized" && length != fmt.Sprint(size) {
					t.Errorf("%s%s, %d bytes: the service was told %s", up, path, size, length)
				}
			}
		}
	}
}

// Answers without a body keep what their header says of one.
func TestBodilessAnswers(t *testing.T) {
	up := service(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			w.Header().Set("Etag", `"e"`)
			w.WriteHeader(http.StatusNotModified)
		default:
			w.Header().Set("Content-Length", "1234567")
		}
	})
	for _, up := range []string{up, strings.Replace(up, "http:", "h2c:", 1)} {
		base, _ := front(t, nil, up)
		for _, ask := range []struct{ method, path, header, want string }{
			{http.MethodHead, "/", "Content-Length", "1234567"},
			{http.MethodGet, "/204", "Content-Length", ""},
			{http.MethodGet, "/304", "Etag", `"e"`},
			{http.MethodHead, "/304", "Etag", `"e"`},
		} {
			for range 2 { // the second on the same connection
				req, err := http.NewRequest(ask.method, base+ask.path, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || len(body) > 0 || res.Header.Get(ask.header) != ask.want {
					t.Errorf("%s: %s %s: %s %v %q, %v", up, ask.method, ask.path, res.Status, res.Header, body, err)
				}
			}
		}
	}
}

// The caller's request is as it was when the proxy returns: the gate still reads it.
func TestRequestIsNotModified(t *testing.T) {
	up := service(t, func(http.ResponseWriter, *http.Request) {})
	p := newProxy(t, &notes{}, up)
	base := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header, url, host := r.Header.Clone(), *r.URL, r.Host
		p.ServeHTTP(w, r)
		if !maps.EqualFunc(header, r.Header, slices.Equal) || url != *r.URL || host != r.Host {
			t.Errorf("before %v %v %s, after %v %v %s", header, &url, host, r.Header, r.URL, r.Host)
		}
	}))
	raw(t, base, "POST /a%2fb?x;y HTTP/1.1\r\nHost: h\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\nForwarded: for=a\r\nTE: trailers\r\nIdempotency-Key: k\r\nContent-Length: 2\r\n\r\nhi")
}

// Informational answers pass, each with what it says, before the final one.
func TestInformationalAnswers(t *testing.T) {
	up := service(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, link := range []string{"</a>", "</b>", "</c>"} {
			w.Header().Add("Link", link)
			w.WriteHeader(http.StatusEarlyHints)
		}
		w.WriteHeader(http.StatusProcessing)
		w.Header().Set("Last", "1")
		_, _ = io.WriteString(w, "done")
	})
	base, _ := front(t, nil, up)
	var said []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			said = append(said, fmt.Sprint(code, h["Link"]))
			return nil
		},
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || string(body) != "done" || res.Header.Get("Last") != "1" || len(res.Header["Link"]) != 3 {
		t.Errorf("%v %q, %v", res.Header, body, err)
	}
	want := []string{"103 [</a>]", "103 [</a> </b>]", "103 [</a> </b> </c>]", "102 [</a> </b> </c>]"}
	if !slices.Equal(said, want) {
		t.Errorf("got %q, want %q", said, want)
	}
}

// An upstream that goes on to say 100 and then nothing that can be read, or breaks
// off, is a failure and no wait.
func TestBrokenInformationalAnswer(t *testing.T) {
	for _, answer := range []string{
		"HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 Continue\r\nno field\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 2000 OK\r\n\r\n",
	} {
		up, _ := scripted(t, answer)
		base, n := front(t, nil, up)
		for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
			got := raw(t, base, "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 2\r\n"+expect+"\r\nhi")
			if !strings.Contains(got, "HTTP/1.1 502") {
				t.Errorf("%q: %q", answer, got)
			}
			if said := n.said(); !strings.HasPrefix(said, "[upstream_failed]") {
				t.Errorf("%q: %s", answer, said)
			}
		}
	}
}

// A switch of protocols that the caller's writer cannot carry out is a failure,
// and the upstream's connection ends.
func TestUpgradeWithoutHijack(t *testing.T) {
	gone := make(chan struct{})
	up := service(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(io.Discard, rw)
		close(gone)
	})
	n := &notes{}
	p := newProxy(t, n, up)
	r := httptest.NewRequest(http.MethodGet, "http://h/", http.NoBody)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	if said := n.said(); w.Code != http.StatusBadGateway || !strings.HasPrefix(said, "["+comporta.UpstreamFailed.String()+"]") {
		t.Errorf("%d %s", w.Code, said)
	}
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the upstream's connection stays open")
	}
}

// upgraded is a connection that has been switched to echo, with what the service
// holds at the other end.
func upgraded(t *testing.T, change func(*proxy.Config)) (caller *net.TCPConn, from *bufio.Reader, held <-chan *net.TCPConn) {
	t.Helper()
	ends := make(chan *net.TCPConn, 1)
	up := service(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		ends <- conn.(*net.TCPConn)
	})
	base, _ := front(t, change, up)
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	from = bufio.NewReader(conn)
	res, err := http.ReadResponse(from, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", res, err)
	}
	return conn.(*net.TCPConn), from, ends
}

// Each side may end its direction first; the other still says what it has to say.
func TestUpgradeHalfClosed(t *testing.T) {
	t.Run("by the service", func(t *testing.T) {
		caller, from, held := upgraded(t, nil)
		end := <-held
		defer end.Close()
		_ = end.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprint(end, "last words")
		_ = end.CloseWrite()
		if got, err := io.ReadAll(from); string(got) != "last words" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		fmt.Fprint(caller, "an answer")
		_ = caller.CloseWrite()
		if got, err := io.ReadAll(end); string(got) != "an answer" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("by the caller, to a connection that cannot", func(t *testing.T) {
		caller, _, held := upgraded(t, func(c *proxy.Config) { c.DialContext = dialWhole })
		end := <-held
		defer end.Close()
		_ = end.SetDeadline(time.Now().Add(10 * time.Second))
		_ = caller.CloseWrite()
		if _, err := io.ReadAll(end); err != nil {
			t.Error(err)
		}
	})
}

// A caller that is gone ends the service's connection, and the other way round.
func TestCase_Proxy_C28_UpgradeEndsWithEitherSide(t *testing.T) {
	t.Run("the caller", func(t *testing.T) {
		caller, _, held := upgraded(t, nil)
		end := <-held
		defer end.Close()
		start := time.Now()
		_ = caller.SetLinger(0)
		_ = caller.Close()
		_ = end.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.ReadAll(end); err != nil && !isReset(err) || time.Since(start) > 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
	t.Run("the service", func(t *testing.T) {
		_, from, held := upgraded(t, nil)
		end := <-held
		start := time.Now()
		_ = end.SetLinger(0)
		_ = end.Close()
		if _, err := io.ReadAll(from); err != nil && !isReset(err) || time.Since(start) > 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// isReset reports the way in which a connection ends that was broken off.
func isReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }

// wholeConn cannot be closed in one direction.
type wholeConn struct{ net.Conn }

func dialWhole(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return wholeConn{conn}, err
}
