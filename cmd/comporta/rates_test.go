package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/comporta/comporta"
)

// asks sends one request of a client through the gateway.
func (g *gateway) asks(t *testing.T, path, key string) (*http.Response, comporta.Problem) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, g.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", key)
	resp, err := g.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	var p comporta.Problem
	_ = json.Unmarshal(body, &p) // only refusals are documents
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp, p
}

// Rules of the file limit what they match; a reload keeps what was used, metrics
// and the operator's commands tell.
func TestRateLimits(t *testing.T) {
	const routes = "routes: [{match: \"GET /orders/{id}\", name: orders}]\n"
	upstream := service(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("RateLimit", `"inner";r=7`)
		fine(w, r)
	})
	g := start(t, upstream, routes+"rate_limits: [{name: per-client, match: {route: orders}, rate: 1/h, burst: 2}, {name: trial, rate: 1/h, shadow: true}]")
	for i := range 3 {
		resp, p := g.asks(t, "/orders/1", "k")
		if want := i < 2; (resp.StatusCode == http.StatusOK) != want {
			t.Fatalf("request %d: %d", i, resp.StatusCode)
		}
		if got := resp.Header.Get("RateLimit-Policy"); got != `"per-client";q=2;w=7200` {
			t.Errorf("RateLimit-Policy: %s", got)
		}
		if i < 2 && resp.Header.Values("RateLimit")[0] != `"inner";r=7` {
			t.Errorf("RateLimit: %q", resp.Header.Values("RateLimit"))
		}
		if i == 2 {
			if p.Code != "rate_limited" || strings.Join(p.ViolatedPolicies, ",") != "per-client" || resp.Header.Get("Retry-After") == "" {
				t.Errorf("%+v", p)
			}
			if told := g.command(t, exitFine, "explain", p.RequestID); !strings.Contains(told, "per-client") {
				t.Errorf("explain: %s", told)
			}
		}
	}
	if resp, _ := g.asks(t, "/elsewhere", "k"); resp.StatusCode != http.StatusOK || resp.Header.Get("RateLimit-Policy") != "" {
		t.Errorf("another route: %d, %s", resp.StatusCode, resp.Header.Get("RateLimit-Policy"))
	}
	if n := g.metric(t, `comporta_rate_limited_total{rule="per-client",shadow="false"}`); n != "1" {
		t.Errorf("rate_limited_total of the rule: %s", n)
	}
	if n := g.metric(t, `comporta_rate_limited_total{rule="trial",shadow="true"}`); n == "absent" || n == "0" {
		t.Errorf("rate_limited_total of the shadow: %s", n)
	}
	g.write(t, upstream, routes+"rate_limits: [{name: per-client, match: {route: orders}, rate: 1/h, burst: 3}]")
	if why := g.reload(t); why != "" {
		t.Fatal(why)
	}
	for i := range 2 { // three, of which two are used
		if resp, _ := g.asks(t, "/orders/1", "k"); (resp.StatusCode == http.StatusOK) != (i == 0) {
			t.Errorf("request %d after the reload: %d", i, resp.StatusCode)
		}
	}
}
