package telemetry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/front"
	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/proxy"
	"github.com/comporta/comporta/telemetry"
)

func observe(t *testing.T, c telemetry.Config, gc gate.Config) (*telemetry.Telemetry, *prometheus.Registry, http.Handler) {
	t.Helper()
	reg := prometheus.NewRegistry()
	tel, err := telemetry.New(c, reg)
	if err != nil {
		t.Fatal(err)
	}
	gc.Trace = tel.Trace()
	g, err := gate.New(gc, nil)
	if err != nil {
		t.Fatal(err)
	}
	tel.Watch(g)
	return tel, reg, g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fails" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
}

func ask(h http.Handler, path, key string) {
	req := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	req.Header.Set("X-Api-Key", key)
	h.ServeHTTP(httptest.NewRecorder(), req)
}

// The names are a contract: dashboards and alerts rest on them.
func TestNamesAndLint(t *testing.T) {
	tel, reg, h := observe(t, telemetry.Config{}, gate.Config{})
	ask(h, "/fails", "a")
	ask(h, "/fails", "a")
	// The same host by two schemes must not break the page.
	p, err := proxy.New(proxy.Config{Upstreams: []*url.URL{{Scheme: "http", Host: "127.0.0.1:1"}, {Scheme: "h2c", Host: "127.0.0.1:1"}}})
	if err != nil {
		t.Fatal(err)
	}
	tel.WatchUpstreams(p)
	tel.WatchConnections(front.NewConnections(front.ConnectionLimits{}))
	tel.Upstream(&url.URL{Host: "127.0.0.1:1"}, comporta.ResultSuccess, 200, time.Millisecond, true)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, f := range families {
		have[f.GetName()] = true
	}
	for name := range strings.FieldsSeq(`requests_total repeat_ratio top_client_requests_total storm_verdict overload_level would_reject_total inflight streams
		capacity queue_wait_seconds slots_booked_total slots_redeemed_total slots_early_total slots_evicted_total slot_wait_seconds
		repeat_evictions_total upstream_requests_total upstream_failover_total upstream_duration_seconds decision_duration_seconds
		config_last_reload_successful breaker_state breaker_opened_total upstream_healthy upstream_share upstream_panic upstream_inflight
		upstream_pool_waiting upstream_pool_exhausted_total upstream_pool_stale_total upstream_retries_total upstream_retries_refused_total
		connections connections_limit connections_accepted_total connections_refused_total`) {
		if !have["comporta_"+name] {
			t.Errorf("comporta_%s is missing", name)
		}
	}
}

func TestRequestsAreCountedOnce(t *testing.T) {
	_, reg, h := observe(t, telemetry.Config{}, gate.Config{})
	ask(h, "/fails", "a") // original
	ask(h, "/fails", "a") // it failed: a retry
	ask(h, "/ok", "a")    // original, and proves the key
	ask(h, "/ok", "a")    // poll
	want := `
		# HELP comporta_requests_total Requests, each counted once.
		# TYPE comporta_requests_total counter
		comporta_requests_total{class="anonymous",decision="admitted",kind="original"} 2
		comporta_requests_total{class="anonymous",decision="admitted",kind="retry"} 1
		comporta_requests_total{class="proven",decision="admitted",kind="poll"} 1
	`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "comporta_requests_total"); err != nil {
		t.Error(err)
	}
}

// A flood of invented clients must not become a flood of labels.
func TestClientsAreBounded(t *testing.T) {
	tel, reg, h := observe(t, telemetry.Config{TopClients: 5}, gate.Config{})
	for i := range 2000 {
		ask(h, "/ok", fmt.Sprintf("invented-%d", i))
		ask(h, "/ok", "regular")
	}
	if n, err := testutil.GatherAndCount(reg, "comporta_top_client_requests_total"); err != nil || n > 5 {
		t.Errorf("%d clients are shown, want at most 5 (%v)", n, err)
	}
	if top := tel.Top(1); len(top) != 1 || top[0].Total < 1000 || top[0].Recent < 1000 {
		t.Errorf("the regular client is not on top: %+v", top)
	}
}

func TestAccessLogHoldsNoSecret(t *testing.T) {
	var out bytes.Buffer
	_, _, h := observe(t, telemetry.Config{AccessLog: slog.New(slog.NewJSONHandler(&out, nil))}, gate.Config{})
	req := httptest.NewRequest(http.MethodGet, "/ok?token=s3cret-query", http.NoBody)
	req.Header.Set("X-Api-Key", "s3cret-key")
	req.Header.Set("Cookie", "s3cret-cookie")
	req.Header.Set("X-Request-Id", "r-9")
	h.ServeHTTP(httptest.NewRecorder(), req)
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v in %s", err, out.Bytes())
	}
	if strings.Contains(out.String(), "s3cret") {
		t.Errorf("a secret is in the log: %s", out.String())
	}
	for key, want := range map[string]any{"request_id": "r-9", "decision": "admitted", "kind": "original", "status": 200.0, "path": "/ok", "route": "other"} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
}
