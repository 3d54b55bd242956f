package client_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/retry"
	"github.com/comporta/comporta/internal/memhttp"
)

// roundTripper answers as a function does.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// FuzzAnswer holds for any answer: at most four calls within Total, and the body
// comes back whole.
func FuzzAnswer(f *testing.F) {
	f.Add(503, "3", "Thu, 01 Jan 2026 00:00:00 GMT", "2500", "true", "v1.x", "application/json", []byte(`{"retryable":false}`), int64(19))
	f.Add(409, strings.Repeat("9", 40), "x", "-1", "", "", "text/plain", []byte("x"), int64(-1))
	f.Add(426, "", "", "", "", strings.Repeat("t", 300), "application/json", []byte(`{`), int64(1<<40))
	f.Fuzz(func(t *testing.T, status int, after, date, ms, word, ticket, kind string, body []byte, length int64) {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			next := roundTripper(func(r *http.Request) (*http.Response, error) {
				calls++
				if len(r.Header.Get("Retry-Ticket")) > 200 {
					t.Error("a ticket that nobody reads was shown")
				}
				return &http.Response{
					StatusCode: status, ContentLength: length, Body: io.NopCloser(bytes.NewReader(body)),
					Header: http.Header{
						"Retry-After": {after}, "Date": {date}, "Retry-After-Ms": {ms}, "X-Should-Retry": {word},
						"Retry-Ticket": {ticket}, "Content-Type": {kind},
					},
				}, nil
			})
			start := time.Now()
			resp, err := make1(t, client.Config{Version: "a/1.0.0"}).Transport(next).RoundTrip(request(t, t.Context(), "GET", nil))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			if err != nil || !bytes.Equal(got, body) || resp.Body.Close() != nil {
				t.Fatalf("body %q, %v", got, err)
			}
			if took := time.Since(start); calls > 4 || took > retry.DefaultTotal || client.Report(resp).Attempts != calls {
				t.Fatalf("%d calls in %v", calls, took)
			}
		})
	})
}

// FuzzServer lets net/http read whatever a server writes.
func FuzzServer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 503 x\r\nRetry-After: 1\r\nContent-Length: 3\r\n\r\nabc"))
	f.Add([]byte("HTTP/1.1 500 x\r\nContent-Type: application/json\r\nContent-Length: 30\r\n\r\n{\"retryable\":"))
	f.Add([]byte("HTTP/1.1 101 x\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 100 x\r\n\r\nHTTP/1.1 503 y\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\nx"))
	f.Add([]byte("garbage"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		synctest.Test(t, func(t *testing.T) {
			var network memhttp.Network
			listener, err := network.Listen("service")
			if err != nil {
				t.Fatal(err)
			}
			served, connections := make(chan struct{}), 0
			go func() {
				defer close(served)
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					connections++
					write(conn, answer)
				}
			}()
			wire := network.Client().Transport.(*http.Transport)
			c := make1(t, client.Config{}).HTTP(&http.Client{Transport: wire})
			c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			start := time.Now()
			resp, err := c.Do(request(t, t.Context(), "GET", nil))
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			if took := time.Since(start); took > retry.DefaultTotal+time.Second {
				t.Errorf("took %v", took)
			}
			wire.CloseIdleConnections()
			_ = listener.Close()
			<-served
			if connections > 4 {
				t.Errorf("%d connections", connections)
			}
		})
	})
}

// write answers and hangs up, after the request has come.
func write(conn net.Conn, answer []byte) {
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = conn.Read(make([]byte, 4096))
	_, _ = conn.Write(answer)
	_ = conn.Close()
}

// A transport below that breaks the contract of RoundTripper breaks nothing here.
func TestStrangeTransports(t *testing.T) {
	for name, next := range map[string]roundTripper{
		"neither": func(*http.Request) (*http.Response, error) { return nil, nil }, //nolint:nilnil // that is the point
		"both": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: http.NoBody}, context.DeadlineExceeded
		},
		"no body": func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: 503}, nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			resp, err := make1(t, client.Config{}).Transport(next).RoundTrip(request(t, t.Context(), "GET", nil))
			if (err == nil) != (name == "no body") {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil {
				if _, err := io.ReadAll(resp.Body); err != nil || resp.Body.Close() != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	req := request(t, t.Context(), "GET", nil)
	req.URL.Host = ""
	if _, err := make1(t, client.Config{}).Transport(nil).RoundTrip(req); err == nil {
		t.Error("a request without a host was sent")
	}
	files := &http.Transport{} // serves file:///…, without a host
	files.RegisterProtocol("file", http.NewFileTransport(http.Dir(".")))
	req.URL = &url.URL{Scheme: "file", Path: "/doc.go"}
	resp, err := make1(t, client.Config{}).Transport(files).RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("a file: %v", err)
	}
	_ = resp.Body.Close()
}
