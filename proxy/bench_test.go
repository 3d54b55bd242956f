package proxy_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/comporta/comporta/proxy"
)

// rivals are our proxy and a tuned one of the standard library.
func rivals(b *testing.B, up string) map[string]http.Handler {
	b.Helper()
	ours, err := proxy.New(proxy.Config{Upstreams: []*url.URL{address(b, up)}})
	if err != nil {
		b.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: proxy.DefaultMaxConnections}
	b.Cleanup(func() {
		ours.Close()
		transport.CloseIdleConnections()
	})
	return map[string]http.Handler{"comporta": ours, "httputil": &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(address(b, up))
			r.SetXForwarded()
		},
	}}
}

// BenchmarkForward measures a small exchange over loopback, ours beside the
// standard library's; both ends' servers and the client are part of it.
func BenchmarkForward(b *testing.B) {
	up := service(b, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	for name, handler := range rivals(b, up) {
		b.Run(name, func(b *testing.B) {
			base := serve(b, handler)
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
			defer client.CloseIdleConnections()
			b.ReportAllocs()
			for b.Loop() {
				res, err := client.Get(base)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		})
	}
}

// canned is an upstream that reads requests without looking at them, and answers
// each with the same kilobyte: what is measured is the proxy's side.
func canned(b testing.TB) string {
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\n" +
		"Server: canned\r\nX-Request-Id: 0123456789abcdef\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024))
	up, _ := talking(b, func(conn net.Conn, br *bufio.Reader) {
		for {
			length := 0
			for {
				line, err := br.ReadSlice('\n')
				if err != nil {
					return
				}
				if digits, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
					for _, c := range bytes.TrimSpace(digits) {
						length = 10*length + int(c-'0')
					}
				}
				if len(line) == 2 {
					break
				}
			}
			if _, err := br.Discard(length); err != nil {
				return
			}
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	})
	return up
}

// blank is a ResponseWriter that keeps nothing.
type blank struct{ h http.Header }

func (b *blank) Header() http.Header         { return b.h }
func (b *blank) Write(p []byte) (int, error) { return len(p), nil }
func (b *blank) WriteHeader(int)             {}
func (b *blank) Flush()                      {}

// cpu is what the process has used of the processor so far, in nanoseconds.
func cpu() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkUpstream measures the upstream side alone: a request as a browser sends
// it, to a service on loopback that costs next to nothing. The service's side is part
// of the processor's time.
func BenchmarkUpstream(b *testing.B) {
	up := canned(b)
	for _, body := range []string{"", strings.Repeat("x", 10<<10)} {
		method := http.MethodGet
		if body != "" {
			method = http.MethodPost
		}
		for name, handler := range rivals(b, up) {
			b.Run(method+"/"+name, func(b *testing.B) {
				header := http.Header{
					"Accept": {"application/json"}, "User-Agent": {"Mozilla/5.0 (X11; Linux x86_64)"}, "Accept-Encoding": {"gzip"},
					"Authorization": {"Bearer 0123456789abcdef0123456789abcdef"}, "X-Request-Id": {"0123456789abcdef"}, "Content-Type": {"application/json"},
				}
				r := httptest.NewRequestWithContext(b.Context(), method, "/orders/17?expand=lines", http.NoBody)
				r.Header, r.RemoteAddr = header, "192.0.2.1:1234"
				r.ContentLength = int64(len(body))
				w := &blank{http.Header{}}
				reader := strings.NewReader(body)
				callers := io.NopCloser(reader)
				b.ReportAllocs()
				before := cpu()
				for b.Loop() {
					clear(w.h)
					if body != "" {
						reader.Reset(body)
						r.Body = callers
					}
					handler.ServeHTTP(w, r)
				}
				b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}
