package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta/proxy"
)

// newProxy returns a proxy that tells n, for tests that wrap it.
func newProxy(t *testing.T, n *notes, upstreams ...string) *proxy.Proxy {
	t.Helper()
	c := proxy.Config{Fail: n.fail, Observe: n.observe}
	for _, u := range upstreams {
		c.Upstreams = append(c.Upstreams, address(t, u))
	}
	p, err := proxy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// cases/proxy.md C 29: each message is flushed alone, and the head before the
// first.
func TestCase_Proxy_C29_EachMessageAtOnce(t *testing.T) {
	for name, head := range map[string]func(http.Header){
		"no length": func(http.Header) {},
		"event stream": func(h http.Header) {
			h.Set("Content-Type", "text/event-stream; charset=utf-8")
			h.Set("Content-Length", "9")
		},
	} {
		t.Run(name, func(t *testing.T) {
			next := make(chan struct{})
			up := service(t, func(w http.ResponseWriter, _ *http.Request) {
				head(w.Header())
				rc := http.NewResponseController(w)
				_ = rc.Flush()
				for range 3 {
					<-next
					_, _ = io.WriteString(w, "one")
					_ = rc.Flush()
				}
			})
			base, _ := front(t, nil, up)
			res, err := http.Get(base) // returns although no message was sent
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			for range 3 {
				next <- struct{}{}
				p := make([]byte, 16)
				if n, err := res.Body.Read(p); string(p[:n]) != "one" {
					t.Fatalf("%q, %v", p[:n], err)
				}
			}
		})
	}
}

// cases/proxy.md C 30: trailers pass, announced or not, with or without a body.
func TestCase_Proxy_C30_Trailers(t *testing.T) {
	up := service(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("announced") {
			w.Header().Set("Trailer", "Sum")
		}
		w.WriteHeader(http.StatusOK)
		if r.URL.Query().Has("body") {
			_, _ = io.WriteString(w, "body")
		}
		_ = http.NewResponseController(w).Flush()
		if r.URL.Query().Has("announced") {
			w.Header().Set("Sum", "42")
		} else {
			w.Header().Set(http.TrailerPrefix+"Sum", "42")
			w.Header().Set(http.TrailerPrefix+"Comporta-Decision", "forged")
		}
	})
	base, _ := front(t, nil, up)
	h2c := strings.Replace(up, "http:", "h2c:", 1)
	overH2C, _ := front(t, nil, h2c)
	for _, base := range []string{base, overH2C} {
		for _, query := range []string{"", "body", "announced", "announced&body"} {
			res, _ := get(t, base+"/?"+query)
			if got := res.Trailer.Get("Sum"); got != "42" || len(res.Trailer) != 1 {
				t.Errorf("%s?%s: trailers %v", base, query, res.Trailer)
			}
		}
	}
}

// cases/proxy.md B 25: informational answers lose what concerns their
// connection, and cost the final answer nothing.
func TestCase_Proxy_B25_EarlyHints(t *testing.T) {
	up := service(t, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Link", "</style.css>; rel=preload")
		h.Set("Connection", "X-Nominated")
		h.Set("X-Nominated", "1")
		h.Set("Comporta-Decision", "forged")
		w.WriteHeader(http.StatusEarlyHints)
		clear(h)
		_, _ = io.WriteString(w, "done")
	})
	p := newProxy(t, &notes{}, up)
	base := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("From-Middleware", "1")
		p.ServeHTTP(w, r)
	}))
	var hints textproto.MIMEHeader
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if code == http.StatusEarlyHints {
				hints = h
			}
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
	if _, err := io.ReadAll(res.Body); err != nil {
		t.Error(err)
	}
	if len(hints) != 1 || hints.Get("Link") == "" {
		t.Errorf("103 with %v", hints)
	}
	if res.Header.Get("From-Middleware") != "1" || res.Header.Get("Link") != "" {
		t.Errorf("final answer with %v", res.Header)
	}
	if answer := raw(t, base, "GET / HTTP/1.0\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.0 200") {
		t.Errorf("HTTP/1.0 was told %q", answer)
	}
}

// upgrading is a service that switches to "echo" and repeats what it hears, in
// capitals, until it has heard all.
func upgrading(t *testing.T) string {
	t.Helper()
	return service(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "echo" {
			http.Error(w, "no: "+r.Header.Get("Upgrade"), http.StatusForbidden)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: Echo\r\nComporta-Decision: forged\r\nX-Kept: 1\r\n\r\nhello ")
		_ = rw.Flush()
		for {
			line, err := rw.ReadString('\n')
			fmt.Fprint(rw, strings.ToUpper(line))
			_ = rw.Flush()
			if err != nil {
				fmt.Fprint(rw, "bye")
				_ = rw.Flush()
				return
			}
		}
	})
}

func TestUpgrade(t *testing.T) {
	base, n := front(t, nil, upgrading(t))
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The first line travels in the same packet as the head: it must not be lost.
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, upgrade\r\nUpgrade: echo\r\n\r\nfirst\n"); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(conn)
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 101 || res.Header.Get("X-Kept") != "1" || len(res.Header["Comporta-Decision"]) > 0 {
		t.Fatalf("%s %v", res.Status, res.Header)
	}
	if line, err := br.ReadString('\n'); line != "hello FIRST\n" {
		t.Fatalf("%q, %v", line, err)
	}
	fmt.Fprint(conn, "second\n")
	_ = conn.(*net.TCPConn).CloseWrite() // half closed: the rest must still come
	if rest, err := io.ReadAll(br); string(rest) != "SECOND\nbye" {
		t.Errorf("%q, %v", rest, err)
	}
	if said := n.said(); said != "[] success" {
		t.Error(said)
	}
}

// cases/proxy.md C 26 and A 13: a declined upgrade is an ordinary answer that
// leaves nothing behind, and h2c is never asked for.
func TestCase_Proxy_C26_A13_UpgradeDeclined(t *testing.T) {
	base, _ := front(t, nil, upgrading(t))
	ask := func(protocol, want string) {
		t.Helper()
		answer := raw(t, base, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings, close\r\nHTTP2-Settings: AAMAAABkAAQ\r\nUpgrade: "+protocol+"\r\n\r\n")
		if !strings.HasPrefix(answer, "HTTP/1.1 403") || !strings.Contains(answer, want) {
			t.Fatalf("got %q", answer)
		}
	}
	ask("h2c", "no: \n")
	ask("websocket, H2C", "no: \n")
	ask("websocket", "no: websocket\n")
	before := runtime.NumGoroutine()
	for range 100 {
		ask("websocket", "no: websocket\n")
	}
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before+10; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// An upstream that switches without being asked, or to something else, is no
// tunnel.
func TestUnaskedUpgrade(t *testing.T) {
	up, _ := scripted(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\nbytes")
	base, n := front(t, nil, up)
	for _, upgrade := range []string{"Connection: close\r\n", "Connection: close, Upgrade\r\nUpgrade: echo\r\n"} {
		raw(t, base, "GET / HTTP/1.1\r\nHost: h\r\n"+upgrade+"\r\n")
		if said := n.said(); !strings.HasPrefix(said, "[upstream_failed]") {
			t.Error(said)
		}
	}
}

// What a connection carries that has been switched is no HTTP: nobody's request may
// go there.
func TestSwitchedConnectionIsNotUsedAgain(t *testing.T) {
	up, requests := scripted(t,
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
	base, _ := front(t, nil, up)
	for range 3 {
		if res, body := get(t, base); res.StatusCode != http.StatusBadGateway {
			t.Errorf("%s %q", res.Status, body)
		}
	}
	if n := requests.Load(); n != 3 {
		t.Errorf("%d requests reached the service", n)
	}
}

// A call in both directions over HTTP/2 on both sides, as gRPC makes them.
func TestBothDirectionsOverH2C(t *testing.T) {
	up := service(t, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		w.Header().Set("Content-Type", "application/grpc")
		_ = rc.Flush()
		br := bufio.NewReader(r.Body)
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				break
			}
			_, _ = io.WriteString(w, strings.ToUpper(line))
			_ = rc.Flush()
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	base, n := front(t, nil, strings.Replace(up, "http:", "h2c:", 1))
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	pr, pw := io.Pipe()
	req, err := http.NewRequest(http.MethodPost, base+"/pkg.Service/Method", pr)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	br := bufio.NewReader(res.Body)
	for word, want := range map[string]string{"one\n": "ONE\n", "two\n": "TWO\n", "three\n": "THREE\n"} {
		if _, err := io.WriteString(pw, word); err != nil {
			t.Fatal(err)
		}
		if got, err := br.ReadString('\n'); got != want {
			t.Fatalf("%q, %v", got, err)
		}
	}
	_ = pw.Close()
	if _, err := io.ReadAll(br); err != nil {
		t.Error(err)
	}
	if got := res.Trailer.Get("Grpc-Status"); got != "0" {
		t.Errorf("Grpc-Status %q in %v", got, res.Trailer)
	}
	if said := n.said(); said != "[] success" {
		t.Error(said)
	}
}

// The last word of a gRPC call that fails at once is a head that ends the stream.
// Parted into a head and an end it would say to gRPC that the service broke off. The
// caller is still sending when it comes.
func TestTrailersOnlyStaysWhole(t *testing.T) {
	up := service(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = r.Body.Read(make([]byte, 1))
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "2")
		w.Header()["Content-Length"] = nil // which gRPC does not say
	})
	base, _ := front(t, nil, strings.Replace(up, "http:", "h2c:", 1))
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	pr, pw := io.Pipe()
	req, err := http.NewRequest(http.MethodPost, base+"/pkg.Service/Method", pr)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(pw, "a message, and then none for a while") }()
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	// The client knows the length of an answer without DATA: 0.
	if res.ContentLength != 0 || res.Header.Get("Grpc-Status") != "2" {
		t.Errorf("length %d, header %v", res.ContentLength, res.Header)
	}
	_ = pw.Close()
}
