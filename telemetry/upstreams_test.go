package telemetry_test

import (
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/telemetry"
)

// Every try is counted once under its own labels, whoever comes first.
func TestUpstreamsAreCounted(t *testing.T) {
	tel, reg, _ := observe(t, telemetry.Config{}, gate.Config{})
	a, b := &url.URL{Host: "a:1"}, &url.URL{Host: "b:1"}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				tel.Upstream(a, comporta.ResultSuccess, 200, time.Millisecond, false)
				tel.Upstream(b, comporta.ResultSuccess, 200, time.Millisecond, false)
				tel.Upstream(a, comporta.ResultFailed, 999, time.Millisecond, false)
				tel.Upstream(a, comporta.ResultUnreachable, 0, 0, true)
			}
		})
	}
	all.Wait()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "comporta_upstream_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			name := ""
			for _, l := range m.GetLabel() {
				name = l.GetValue() + " " + name
			}
			got[name] = m.GetCounter().GetValue()
		}
	}
	for _, name := range []string{"a:1 200 ", "b:1 200 ", "a:1 999 ", "a:1 unreachable "} {
		if got[name] != 80 {
			t.Errorf("%q is %v in %v", name, got[name], got)
		}
	}
	if n, err := testutil.GatherAndCount(reg, "comporta_upstream_duration_seconds"); n != 2 || err != nil {
		t.Errorf("%d histograms, %v", n, err)
	}
}
