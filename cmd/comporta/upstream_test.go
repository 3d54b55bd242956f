package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/proxy"
)

// A service that cannot be reached: the operator reads which, why and for whom, and
// no secret of the request. The access log has the reason too.
func TestFailureOfTheUpstreamIsTold(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close() // its port refuses from now on
	g := start(t, s.URL, "access_log: {sample: 0}")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/a?token=s3cret-query", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Request-Id", "r-7")
	req.Header.Set("X-Api-Key", "s3cret-key")
	req.Header.Set("Authorization", "Bearer s3cret-token")
	res, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	var line struct {
		Level, Upstream, Reason, Error string
		RequestID                      string `json:"request_id"`
	}
	g.log.await(t, "upstream", &line)
	host := strings.TrimPrefix(s.URL, "http://")
	if line.Level != "WARN" || line.Upstream != host || line.Reason != "upstream_unavailable" || !strings.Contains(line.Error, "connection refused") || line.RequestID != "r-7" {
		t.Errorf("got %+v, want why %s failed", line, host)
	}
	var access struct{ Reason, Decision string }
	g.access.await(t, "request", &access)
	if access.Decision != "admitted" || access.Reason != "upstream_unavailable" {
		t.Errorf("access log: %+v", access)
	}
	if all := g.log.String() + g.access.String(); strings.Contains(all, "s3cret") {
		t.Errorf("a secret is in the log:\n%s", all)
	}
}

// An outage is one line a second for each reason, with a count of the rest.
func TestUpstreamLogIsBounded(t *testing.T) {
	var out bytes.Buffer
	l := newUpstreamLog(slog.New(slog.NewTextHandler(&out, nil)), nil)
	now := time.Unix(1e9, 0)
	for _, step := range []struct {
		after  time.Duration
		reason comporta.Reason
		want   string // part of the one new line; empty: none
	}{
		{0, comporta.UpstreamFailed, "suppressed=0"},
		{0, comporta.UpstreamFailed, ""},
		{0, comporta.UpstreamTimeout, "reason=upstream_timeout suppressed=0"},
		{999 * time.Millisecond, comporta.UpstreamFailed, ""},
		{time.Millisecond, comporta.UpstreamFailed, "suppressed=2"},
		{time.Hour, comporta.UpstreamFailed, "suppressed=0"},
		{-2 * time.Hour, comporta.UpstreamFailed, "suppressed=0"}, // the clock was set back: no silence of hours
		{0, comporta.UpstreamFailed, ""},
		{0, comporta.MalformedRequest, ""}, // the caller's own fault
		{0, comporta.BodyTooLarge, ""},
	} {
		now = now.Add(step.after)
		out.Reset()
		l.writeAt(now, httptest.NewRequest(http.MethodGet, "/", http.NoBody), step.reason, errors.New("no"))
		if got := out.String(); strings.Count(got, "\n") > 1 || (got == "") != (step.want == "") || !strings.Contains(got, step.want) {
			t.Errorf("%+v: got %q", step, got)
		}
	}
}

// What is told of an error is its cause: of what the request or the answer held,
// nothing.
func TestUpstreamLogHoldsNoSecret(t *testing.T) {
	a, b := &url.URL{Scheme: "http", Host: "10.0.0.1:80"}, &url.URL{Scheme: "http", Host: "10.0.0.2:80"}
	for _, c := range []struct {
		err            error
		upstream, text string
	}{
		{errors.New("proxy: 10.0.0.2:80: dial tcp: refused"), b.Host, "dial tcp: refused"},
		{errors.New("context deadline exceeded"), "", "context deadline exceeded"},
		{&url.Error{Op: "Get", URL: "http://x/?k=s3cret", Err: errors.New("EOF")}, "", "EOF"},
		{fmt.Errorf("proxy: 10.0.0.1:80: %w", &url.Error{Op: "Get", URL: "http://x/", Err: errors.New("EOF")}), a.Host, "EOF"},
		{errors.New("proxy: 10.0.0.1:80: net/http: HTTP/1.x transport connection broken: malformed MIME header line: Set-Cookie s3cret"), a.Host, "net/http: HTTP/1.x transport connection broken: malformed MIME header"},
		{errors.New(`proxy: 10.0.0.1:80: malformed HTTP response "{s3cret}"`), a.Host, "malformed HTTP response"},
		{errors.New("cannot parse /?token=s3cret"), "", "cannot parse /?…"},
		{errors.New(strings.Repeat("x", 1000)), "", strings.Repeat("x", maxErrorText) + "…"},
		{nil, "", ""},
	} {
		var out bytes.Buffer
		l := newUpstreamLog(slog.New(slog.NewJSONHandler(&out, nil)), []*url.URL{a, b})
		l.writeAt(time.Unix(1e9, 0), httptest.NewRequest(http.MethodGet, "/?token=s3cret", http.NoBody), comporta.UpstreamFailed, c.err)
		j := newJournal()
		_, _ = j.Write(out.Bytes())
		var line struct{ Upstream, Error string }
		j.await(t, "upstream", &line)
		if line.Upstream != c.upstream || line.Error != c.text {
			t.Errorf("%v:\ngot  %q %q\nwant %q %q", c.err, line.Upstream, line.Error, c.upstream, c.text)
		}
		if strings.Contains(out.String(), "s3cret") {
			t.Errorf("a secret is in the log: %s", out.String())
		}
	}
	// With one upstream there is no doubt which.
	var out bytes.Buffer
	newUpstreamLog(slog.New(slog.NewTextHandler(&out, nil)), []*url.URL{a}).
		writeAt(time.Unix(1e9, 0), httptest.NewRequest(http.MethodGet, "/", http.NoBody), comporta.UpstreamTimeout, errors.New("late"))
	if !strings.Contains(out.String(), "upstream="+a.Host) {
		t.Errorf("got %s", out.String())
	}
}

// The true proxy says what the log reads: the address and then the cause.
func TestUpstreamLogReadsTheProxy(t *testing.T) {
	s := service(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	l := newUpstreamLog(slog.New(slog.NewTextHandler(&out, nil)), []*url.URL{{Host: "other"}, u})
	p, err := proxy.New(proxy.Config{Upstreams: []*url.URL{u}, Fail: func(_ http.ResponseWriter, r *http.Request, reason comporta.Reason, err error) {
		l.writeAt(time.Now(), r, reason, err)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	if !strings.Contains(out.String(), "upstream="+u.Host+" reason=upstream_failed") || !strings.Contains(out.String(), "EOF") {
		t.Errorf("got %s", out.String())
	}
}
