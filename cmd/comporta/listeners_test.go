package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

// raw sends text over a connection of its own and returns the answer; nil when the
// connection is closed without one.
func (g *gateway) raw(t *testing.T, text string) *http.Response {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(context.Background(), "tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// OPTIONS * is a request like any other: the gate decides on it and logs it, and the
// service answers.
func TestOptionsAsteriskGoesThroughTheGate(t *testing.T) {
	const text = "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", r.Method+" "+r.URL.Path)
	}))
	s.Config.DisableGeneralOptionsHandler = true
	s.Start()
	t.Cleanup(s.Close)
	g := start(t, s.URL, "")
	if res := g.raw(t, text); res == nil || res.StatusCode != http.StatusOK || res.Header.Get("Allow") != "OPTIONS *" {
		t.Errorf("got %+v, want the answer of the service", res)
	}
	var line struct{ Path, Decision string }
	if g.access.await(t, "request", &line); line.Path != "*" || line.Decision != "admitted" {
		t.Errorf("access log: %+v", line)
	}
	g.command(t, exitFine, "shed", "add", "-route", "other")
	if res := g.raw(t, text); res == nil || res.StatusCode != http.StatusServiceUnavailable || res.Header.Get(comporta.HeaderDecision) != "shed_by_operator" {
		t.Errorf("got %+v, want the gate's refusal", res)
	}
}

// docs/wire.md, section 2: what no service can be asked is refused in the words of
// the contract too, counted and logged.
func TestHeadsThatAreNoRequests(t *testing.T) {
	g := start(t, service(t, fine), "limits: {header: 4KiB, uri: 1KiB, header_timeout: 50ms}")
	for _, c := range []struct {
		name, text string
		status     int
		code       string
	}{
		{"no HTTP", "hello\r\n\r\n", 400, "malformed_request"},
		{"no Host", "GET / HTTP/1.1\r\n\r\n", 400, "malformed_request"},
		{"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "malformed_request"},
		{"header with a control character", "GET / HTTP/1.1\r\nHost: a\r\nA: \x01\r\n\r\n", 400, "malformed_request"},
		{"line feeds", "GET / HTTP/1.1\nHost: a\n\n", 400, "malformed_request"},
		{"two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400, "malformed_request"},
		{"two framings", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "malformed_request"},
		{"fragment", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400, "malformed_request"},
		{"CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 405, "method_not_allowed"},
		{"long target", "GET /" + strings.Repeat("a", 4<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n", 414, "uri_too_long"},
		{"expectation", "POST / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\nContent-Length: 1\r\n\r\n", 417, "malformed_request"},
		{"large head", "GET / HTTP/1.1\r\nHost: a\r\nA: " + strings.Repeat("a", 16<<10) + "\r\n\r\n", 431, "header_too_large"},
		{"transfer coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "unimplemented_transfer_coding"},
		{"version", "GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505, "malformed_request"},
		{"slow head", "GET / HTTP/1.1\r\nHost: a\r\n", 408, "request_timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := g.raw(t, c.text)
			if res == nil || res.StatusCode != c.status || res.Header.Get(comporta.HeaderDecision) != c.code || !res.Close {
				t.Errorf("got %+v, want %d %s that closes", res, c.status, c.code)
			}
			var line struct {
				Status   int
				Decision string
			}
			if g.access.await(t, "request", &line); line.Decision != c.code {
				t.Errorf("access log: %+v", line)
			}
		})
	}
	if res := g.raw(t, ""); res != nil {
		t.Errorf("silence is answered: %+v", res)
	}
}

// cases/proxy.md A 13: an upgrade to h2c is served as HTTP/1, and tunnels nothing.
func TestCase_Proxy_A13_NoUpgradeToH2C(t *testing.T) {
	g := start(t, service(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Got", r.Header.Get("Upgrade")+r.Header.Get("Http2-Settings"))
	}), "")
	res := g.raw(t, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
	if res == nil || res.StatusCode != http.StatusOK || res.Header.Get("X-Got") != "" {
		t.Errorf("got %+v", res)
	}
}
