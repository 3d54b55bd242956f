package main

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// A service that does not answer is left alone: the gate says for how long, in the
// words of the contract, and a reload forgets nothing of it.
func TestOpenBreakerIsARefusal(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close() // its port refuses from now on
	host := strings.TrimPrefix(s.URL, "http://")
	g := start(t, "{urls: ["+s.URL+"], breaker: {minimum: 3, open: 40s}}", "")
	ask := func() *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/orders", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := g.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res
	}
	for range 3 {
		ask()
	}
	g.log.await(t, "breaker opened", nil)
	check := func() {
		t.Helper()
		res := ask()
		wait, err := strconv.Atoi(res.Header.Get("Retry-After"))
		if res.StatusCode != 503 || res.Header.Get("Comporta-Decision") != "upstream_unavailable" || wait < 30 || err != nil {
			t.Errorf("%s %v", res.Status, res.Header)
		}
		for name, want := range map[string]string{
			"comporta_breaker_state": "1", "comporta_breaker_opened_total": "1", "comporta_upstream_healthy": "1",
		} {
			if got := g.metric(t, name+`{upstream="`+host+`"}`); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		if _, got := g.get(g.admin + "/api/v1/upstreams"); !strings.Contains(got, `"breaker":"open"`) || !strings.Contains(got, s.URL) {
			t.Error(got)
		}
		if got := g.metric(t, `comporta_upstream_requests_total{code="unreachable",upstream="`+host+`"}`); got != "3" {
			t.Errorf("%s tries", got)
		}
	}
	check()
	g.write(t, "{urls: ["+s.URL+"], breaker: {minimum: 3, open: 40s}}", "admission: {capacity: 7}")
	if problems := g.reload(t); problems != "" {
		t.Fatal(problems)
	}
	check()
}

// Checks and retries from the file to the page.
func TestHealthAndRetries(t *testing.T) {
	var ill atomic.Bool
	var atFirst atomic.Int64
	first := service(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/healthz" && ill.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path != "/healthz":
			atFirst.Add(1)
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	second := service(t, fine)
	// Six bad checks and a long way back, so that a busy machine makes nobody ill, and
	// nobody whole.
	section := "{urls: [" + first + ", " + second + "], breaker: off, slow_start: 1h, " +
		"health: {path: /healthz, interval: 500ms, timeout: 500ms, unhealthy: 6, healthy: 1}, retries: {budget: 1}}"
	g := start(t, section, "")
	name := `{upstream="` + strings.TrimPrefix(first, "http://") + `"}`
	retried := `comporta_upstream_retries_total{upstream="` + strings.TrimPrefix(second, "http://") + `"}`
	for range 20 { // of which about half meet the first, and go on to the second
		g.mustServe(t)
	}
	if got, want := g.metric(t, retried), strconv.FormatInt(atFirst.Load(), 10); got != want || want == "0" {
		t.Errorf("%s retries are shown, of %s", got, want)
	}
	if got := g.metric(t, "comporta_upstream_healthy"+name); got != "1" {
		t.Errorf("comporta_upstream_healthy is %s", got)
	}
	ill.Store(true)
	g.log.await(t, "upstream is out", nil)
	if got := g.metric(t, "comporta_upstream_healthy"+name); got != "0" {
		t.Errorf("comporta_upstream_healthy is %s", got)
	}
	before := atFirst.Load()
	for range 20 {
		g.mustServe(t)
	}
	if got := atFirst.Load(); got != before {
		t.Errorf("asked %d times although it is out", got-before)
	}
	ill.Store(false)
	g.log.await(t, "upstream is back", nil)
	if got := g.metric(t, "comporta_upstream_share"+name); got == "1" {
		t.Error("it is back at once")
	}
}
