package telemetry_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/ratelimit"
	"github.com/comporta/comporta/telemetry"
)

// cases/ratelimit.md 33: a million values under one rule make a bounded number of
// series, and those that are denied most are among them.
func TestCase_RateLimit_33_SeriesAreBounded(t *testing.T) {
	limit := ratelimit.Limit{Rate: ratelimit.Rate{Count: 1, Per: time.Hour}}
	var c gate.Config
	c.RateLimits.Rules = []ratelimit.Rule{
		{Name: "per-client", Limit: limit, NoAggregates: true},
		{Name: "trial", Limit: limit, NoAggregates: true, Shadow: true},
	}
	_, reg, h := observe(t, telemetry.Config{TopClients: 5}, c)
	for i := range 2000 {
		ask(h, "/ok", fmt.Sprintf("invented-%d", i))
		ask(h, "/ok", fmt.Sprintf("invented-%d", i))
		ask(h, "/ok", "regular")
	}
	if n, err := testutil.GatherAndCount(reg, "comporta_rate_limited_total"); err != nil || n != 2 {
		t.Errorf("%d series of rules, want 2 (%v)", n, err)
	}
	if n, err := testutil.GatherAndCount(reg, "comporta_top_client_rate_limited_total"); err != nil || n != 5 {
		t.Errorf("%d clients are shown, want 5 (%v)", n, err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "comporta_top_client_rate_limited_total" {
			continue
		}
		most := 0.0
		for _, m := range f.GetMetric() {
			most = max(most, m.GetCounter().GetValue())
		}
		if most < 1999 || most > 1999+4000/40 { // too high by at most a k-th of all
			t.Errorf("the client that is denied 1999 times shows %v", most)
		}
	}
}

func TestRateLimitsAreCounted(t *testing.T) {
	limit := ratelimit.Limit{Rate: ratelimit.Rate{Count: 1, Per: time.Hour}}
	var c gate.Config
	c.RateLimits.Rules = []ratelimit.Rule{
		{Name: "per-client", Limit: limit, NoAggregates: true},
		{Name: "trial", Limit: limit, NoAggregates: true, Shadow: true},
		{Name: "unused", Match: ratelimit.Match{Path: "/elsewhere"}, Limit: limit, NoAggregates: true},
	}
	_, reg, h := observe(t, telemetry.Config{}, c)
	for range 3 {
		ask(h, "/ok", "a")
	}
	want := `
		# HELP comporta_rate_limited_total Requests denied by a limit of a rate rule, or counted by its shadow; one that several limits deny counts at each.
		# TYPE comporta_rate_limited_total counter
		comporta_rate_limited_total{rule="per-client",shadow="false"} 2
		comporta_rate_limited_total{rule="trial",shadow="true"} 2
		comporta_rate_limited_total{rule="unused",shadow="false"} 0
	`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "comporta_rate_limited_total"); err != nil {
		t.Error(err)
	}
}
