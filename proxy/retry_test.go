package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/comporta/comporta/proxy"
)

// flaky is an upstream that answers the first request with first, after which ""
// closes the connection, and all others with their body and their Retry-Attempt.
func flaky(t *testing.T, first string) (base string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	base, _ = talking(t, func(conn net.Conn, br *bufio.Reader) {
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			body, _ := io.ReadAll(r.Body)
			if asked.Add(1) == 1 {
				if _, err := io.WriteString(conn, first); err != nil || first == "" || strings.HasSuffix(first, "half") {
					return
				}
				continue
			}
			said := string(body) + "|" + r.Header.Get("Retry-Attempt")
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(said), said)
		}
	})
	return base, asked
}

func retrying(t *testing.T, n *notes, r *proxy.Retries, upstreams ...string) *proxy.Proxy {
	t.Helper()
	c := proxy.Config{Fail: n.fail, Observe: n.observe, Retries: r}
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

// cases/proxy.md D 32 to D 34: a retry happens only where it was configured, can do
// no harm, and shows.
func TestCase_Proxy_D32_D33_D34_Retries(t *testing.T) {
	for _, tt := range []struct {
		name, method, body string
		header             [2]string
		chunked, off       bool
		first              string // answer of the upstream; "" hangs up
		again              bool
	}{
		{name: "off", method: "GET", off: true},
		{name: "GET", method: "GET", again: true},
		{name: "PUT with its body", method: "PUT", body: "body", again: true},
		{name: "POST", method: "POST", body: "body"},
		{name: "POST with a key", method: "POST", body: "body", header: [2]string{"Idempotency-Key", `"k"`}, again: true},
		{name: "empty POST with a key", method: "POST", header: [2]string{"Idempotency-Key", `"k"`}, again: true},
		{name: "POST with a key that is none", method: "POST", body: "body", header: [2]string{"Idempotency-Key", `"k`}},
		{name: "PUT that streams", method: "PUT", body: "body", chunked: true},
		{name: "PUT too long", method: "PUT", body: strings.Repeat("x", 100<<10)},
		{name: "a retry of the caller's", method: "GET", header: [2]string{"Retry-Attempt", "1"}},
		{name: "a retry of the caller's, said otherwise", method: "GET", header: [2]string{"Amz-Sdk-Request", "attempt=2; max=3"}},
		{name: "a first attempt", method: "GET", header: [2]string{"Retry-Attempt", "0"}, again: true},
		{name: "upgrade", method: "GET", header: [2]string{"Upgrade", "websocket"}},
		{name: "garbage", method: "GET", first: "no HTTP\r\n\r\n", again: true},
		{name: "after an early hint", method: "GET", first: "HTTP/1.1 103 E\r\nLink: x\r\n\r\nno HTTP\r\n\r\n"},
		{name: "cut in the body", method: "GET", first: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nhalf"},
		{name: "503 of a single upstream", method: "GET", first: "HTTP/1.1 503 S\r\nContent-Length: 0\r\n\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up, asked := flaky(t, tt.first)
			n := &notes{}
			policy := &proxy.Retries{}
			if tt.off {
				policy = nil
			}
			p := retrying(t, n, policy, up)
			r := httptest.NewRequest(tt.method, "/", strings.NewReader(tt.body))
			if tt.chunked {
				r.ContentLength = -1
			}
			if tt.header[0] != "" {
				r.Header.Set(tt.header[0], tt.header[1])
			}
			if tt.header[0] == "Upgrade" {
				r.Header.Set("Connection", "upgrade")
			}
			w, _ := call(p, r)
			want := int64(1)
			if tt.again {
				want = 2
				if w.Code != 200 || w.Body.String() != tt.body+"|1" {
					t.Errorf("%d %q", w.Code, w.Body)
				}
			}
			if got := asked.Load(); got != want {
				t.Errorf("asked %d times, want %d", got, want)
			}
			if got := p.StatsAt(time.Now()).Upstreams[0].Retries; got != uint64(want-1) {
				t.Errorf("%d retries are shown", got)
			}
		})
	}
}

// A failure's answer is worth another upstream, unless it asks for patience.
func TestRetryElsewhere(t *testing.T) {
	for first, again := range map[string]bool{
		"502 B\r\n":                              true,
		"503 S\r\n":                              true,
		"504 T\r\n":                              true,
		"503 S\r\nRetry-After: 1\r\n":            false,
		"503 S\r\nX-Should-Retry: false\r\n":     false,
		"500 I\r\n":                              false,
		"429 M\r\n":                              false,
		"503 S\r\nComporta-Decision: forged\r\n": true,
	} {
		answer := "HTTP/1.1 " + first + "Content-Length: 2\r\n\r\nno"
		one, atOne := talkingAlways(t, answer)
		two, atTwo := talkingAlways(t, answer)
		n := &notes{}
		p := retrying(t, n, &proxy.Retries{}, one, two)
		w, _ := call(p, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		if w.Body.String() != "no" || w.Header().Get("Content-Length") != "2" {
			t.Errorf("%q: %d %q %v", first, w.Code, w.Body, w.Header())
		}
		want := int64(1)
		if again {
			want = 2
		}
		if got := atOne.Load() + atTwo.Load(); got != want {
			t.Errorf("%q: asked %d times, want %d", first, got, want)
		}
		if again && (atOne.Load() != 1 || atTwo.Load() != 1) {
			t.Errorf("%q: the same was asked twice", first)
		}
	}
}

// talkingAlways is an upstream that always says the same.
func talkingAlways(t *testing.T, answer string) (base string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	base, _ = talking(t, func(conn net.Conn, br *bufio.Reader) {
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			asked.Add(1)
			if _, err := io.WriteString(conn, answer); err != nil || answer == "" {
				return
			}
		}
	})
	return base, asked
}

// However many requests fail, their retries stay within the budget.
func TestRetryBudget(t *testing.T) {
	up, asked := talkingAlways(t, "")
	n := &notes{}
	p := retrying(t, n, &proxy.Retries{Budget: 0.1, Burst: 5}, up)
	const requests = 200
	for range requests {
		call(p, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	}
	st := p.StatsAt(time.Now())
	retries := asked.Load() - requests
	if retries < 20 || retries > 25 || st.Upstreams[0].Retries != uint64(retries) || st.RetriesRefused != uint64(requests-retries) {
		t.Errorf("%d retries, %+v", retries, st)
	}
	if got := strings.Count(n.said(), "retried"); int64(got) != retries {
		t.Errorf("%d retries were told", got)
	}
}

func TestRetriesProblems(t *testing.T) {
	_, err := proxy.New(proxy.Config{
		Upstreams: []*url.URL{address(t, "http://h")},
		Retries:   &proxy.Retries{Budget: 2, Burst: -1},
		Health:    &proxy.Health{Path: "healthz", Interval: -1, Healthy: -1},
		SlowStart: -1,
	})
	for _, want := range []string{"Retries.Budget is 2", "Retries.Burst is -1", "Health.Path is", "Health.Interval and", "Health.Healthy and", "SlowStart is"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}
