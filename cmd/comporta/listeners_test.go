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

// docs/wire.md, section 2: what is answered before the gate can read it. None of
// these carries the contract.
func TestAnswersBeforeTheGate(t *testing.T) {
	g := start(t, service(t, fine), "limits: {header: 4KiB, header_timeout: 50ms}")
	for _, c := range []struct {
		name, text string
		status     int // 0: the connection closes without an answer
	}{
		{"no HTTP", "hello\r\n\r\n", 400},
		{"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
		{"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		{"header with a control character", "GET / HTTP/1.1\r\nHost: a\r\nA: \x01\r\n\r\n", 400},
		{"two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
		{"expectation", "POST / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\nContent-Length: 1\r\n\r\n", 417},
		{"large head", "GET / HTTP/1.1\r\nHost: a\r\nA: " + strings.Repeat("a", 16<<10) + "\r\n\r\n", 431},
		{"transfer coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
		{"version", "GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505},
		{"slow head", "GET / HTTP/1.1\r\nHost: a\r\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := g.raw(t, c.text)
			switch {
			case res == nil && c.status == 0:
			case res == nil || res.StatusCode != c.status:
				t.Errorf("got %+v, want %d", res, c.status)
			case res.Header.Get(comporta.HeaderDecision) != "" || !res.Close:
				t.Errorf("got %+v, want a bare answer that closes", res)
			}
		})
	}
	if lines := g.access.String(); lines != "" {
		t.Errorf("the gate has seen them:\n%s", lines)
	}
}
