package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/budget"
	"github.com/comporta/comporta/client/retry"
	"github.com/comporta/comporta/internal/memhttp"
	"github.com/comporta/comporta/telemetry"
)

func clientMetrics(t *testing.T) (*telemetry.Client, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	m, err := telemetry.NewClient(reg)
	if err != nil {
		t.Fatal(err)
	}
	return m, reg
}

// wantLines looks for lines on the page of metrics.
func wantLines(t *testing.T, reg *prometheus.Registry, want string) {
	t.Helper()
	page := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	shown := page.Body.String()
	have := make(map[string]bool)
	for line := range strings.Lines(shown) {
		have[strings.TrimSpace(line)] = true
	}
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" && !have[line] {
			t.Errorf("there is no line\n%s\nin\n%s", line, shown)
		}
	}
}

// The seven lines of the source article, of a real client against a real server.
func TestClientLinesOfTheArticle(t *testing.T) {
	m, reg := clientMetrics(t)
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := calls.Add(1)
		w.Header().Set("Retry-After-Ms", "1")
		switch {
		case r.URL.Path == "/down", n == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case n == 2:
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			w.Header().Set("Idempotency-Replayed", "true")
		}
	}))
	defer server.Close()
	c, err := client.New(client.Config{Version: "acme-app/2.4.1", Budget: budget.Config{Burst: 3}, Trace: m.Trace()})
	if err != nil {
		t.Fatal(err)
	}
	orders := c.HTTP(&http.Client{Transport: m.Pool(nil)})
	get(t, orders, server.URL)         // 503, 429, 200
	get(t, orders, server.URL+"/down") // pays what is left of the budget
	dependency := strings.TrimPrefix(server.URL, "http://")
	wantLines(t, reg, `
		comporta_client_attempts_per_call_count 2
		comporta_client_retry_success_total 1
		comporta_client_responses_total{code="429"} 1
		comporta_client_responses_total{code="other"} 1
		comporta_idempotency_total{outcome="replayed"} 1
		comporta_client_pool_waiting 0
		comporta_client_budget_exhausted_total 1
		comporta_client_nested_total 0
		comporta_client_nested_suspected_total 0
		comporta_client_retries_total{client_version="acme-app/2.4.1",dependency="`+dependency+fmt.Sprintf(`"} %d
	`, calls.Load()-2))
	if n := value(t, reg, "comporta_client_wait_seconds_total"); n <= 0 {
		t.Errorf("three waits took %v s", n)
	}
}

func get(t *testing.T, c *http.Client, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if client.Report(resp).Attempts == 0 {
		t.Error("the pool's wrapper hides the report")
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
}

// value is the value of a family with one series.
func value(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		if m := f.GetMetric()[0]; m.GetGauge() != nil {
			return m.GetGauge().GetValue()
		}
		return f.GetMetric()[0].GetCounter().GetValue()
	}
	t.Fatalf("there is no %s", name)
	return 0
}

// The names are a contract, and there is a series before there is an incident.
func TestClientNamesAndLint(t *testing.T) {
	m, reg := clientMetrics(t)
	m.Finished(retry.Report{Destination: "a", Version: "v/1.0.0", Attempts: 2})
	m.Refused("a", breaker.ErrOpen)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	for name := range strings.FieldsSeq(`client_attempts_per_call client_retry_success_total client_wait_seconds_total client_responses_total
		client_retries_total idempotency_total client_pool_waiting client_pool_wait_seconds_total client_refused_total
		client_budget_exhausted_total client_nested_total client_nested_suspected_total`) {
		if n, err := testutil.GatherAndCount(reg, "comporta_"+name); err != nil || n == 0 {
			t.Errorf("comporta_%s is missing (%v)", name, err)
		}
	}
	if _, err := telemetry.NewClient(reg); err == nil {
		t.Error("a second Client on one registry was not refused")
	}
}

func TestClientOtherHooks(t *testing.T) {
	m, reg := clientMetrics(t)
	m.Refused("a", fmt.Errorf("attempt 2: %w", &bulkhead.FullError{}))
	m.Refused("a", &breaker.OpenError{})
	m.Refused("a", nil)
	m.Bulkhead().Waited(1500*time.Millisecond, true)
	m.Finished(retry.Report{Attempts: 1, Nested: true})
	m.NestedSuspected("a")
	for code := range uint32(17) {
		m.AttemptedGRPC(code)
	}
	wantLines(t, reg, `
		comporta_client_refused_total{by="bulkhead",dependency="a"} 1
		comporta_client_refused_total{by="breaker",dependency="a"} 1
		comporta_client_refused_total{by="other",dependency="a"} 1
		comporta_client_pool_wait_seconds_total 1.5
		comporta_client_nested_total 1
		comporta_client_nested_suspected_total 1
		comporta_client_responses_total{code="429"} 1
		comporta_client_responses_total{code="503"} 1
		comporta_client_responses_total{code="other"} 15
	`)
}

// Hosts come from URLs: neither how many there are nor what they look like may
// harm the program.
func TestClientLabelsAreBounded(t *testing.T) {
	m, reg := clientMetrics(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 500 {
				m.Finished(retry.Report{
					Destination: fmt.Sprintf("invented-%d", i), Version: fmt.Sprintf("v/%d.0.0", i),
					Attempts: 2, Repeating: -time.Second, // a clock that stepped back
				})
			}
		})
	}
	wg.Wait()
	for _, name := range []string{"\xff", "", strings.Repeat("a", 1<<20)} {
		m.Finished(retry.Report{Destination: name, Version: name, Attempts: 2})
		m.Refused(name, errors.New("no"))
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]map[string]bool{"dependency": {}, "client_version": {}}
	total := 0.0
	for _, f := range families {
		if f.GetName() != "comporta_client_retries_total" {
			continue
		}
		for _, series := range f.GetMetric() {
			total += series.GetCounter().GetValue()
			for _, label := range series.GetLabel() {
				values[label.GetName()][label.GetValue()] = true
			}
		}
	}
	if n := len(values["dependency"]); n != 64+1 {
		t.Errorf("%d destinations are shown, want 64 and other", n)
	}
	if n := len(values["client_version"]); n != 16+1 {
		t.Errorf("%d versions are shown, want 16 and other", n)
	}
	if total != 2003 {
		t.Errorf("%v repeats are shown, want all 2003", total)
	}
}

// An attempt that waits for the only connection is shown while it waits, and one
// that gives up is not shown for ever.
func TestClientPoolWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, reg := clientMetrics(t)
		var network memhttp.Network
		leave := make(chan struct{})
		server := network.Serve("orders", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-leave }))
		narrow := network.Transport(netip.Addr{})
		narrow.MaxConnsPerHost = 1
		calls := &http.Client{Transport: m.Pool(narrow)}
		send := func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://orders/", http.NoBody)
			if err != nil {
				return err
			}
			resp, err := calls.Do(req)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		}
		waiting := func(want float64) {
			t.Helper()
			synctest.Wait()
			if n := value(t, reg, "comporta_client_pool_waiting"); n != want {
				t.Errorf("%v wait, want %v", n, want)
			}
		}
		var wg sync.WaitGroup
		ctx, giveUp := context.WithCancel(t.Context())
		wg.Go(func() {
			if err := send(t.Context()); err != nil {
				t.Error(err)
			}
		})
		waiting(0)
		for range 3 {
			wg.Go(func() {
				if err := send(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("a call that gave up ended with %v", err)
				}
			})
		}
		waiting(3)
		giveUp()
		waiting(0)
		close(leave)
		wg.Wait()
		waiting(0)
		calls.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The overhead of a successful call has a ceiling of allocations; telling of it
// adds none.
func TestClientSuccessAllocatesNothing(t *testing.T) {
	m, _ := clientMetrics(t)
	trace := m.Trace()
	report := retry.Report{Destination: "a", Version: "v/1.0.0", Attempts: 1, Status: http.StatusOK}
	n := testing.AllocsPerRun(100, func() {
		trace.Attempted(client.Attempt{Destination: "a", Status: http.StatusOK})
		trace.Finished(report)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
