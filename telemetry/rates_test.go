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

// awayStore is a shared store that says how it fares; for the rest it is a table.
type awayStore struct{ *ratelimit.Table }

func (awayStore) Counts(*ratelimit.Policy) ratelimit.Counts { return ratelimit.Counts{Denied: 9} }

func (awayStore) SharedStatsAt(time.Time) ratelimit.SharedStats {
	return ratelimit.SharedStats{Nodes: 3, Asked: 4, Spared: 5, Failed: 6, Refused: 7, Busy: 8, Crowded: 9, ForgottenUnits: 10, OvershotUnits: 2, OvershootRatio: 0.5}
}

// A store's figures are shown under its name, and its rules count what it denied.
func TestSharedStoresAreShown(t *testing.T) {
	table, err := ratelimit.NewTable(1024)
	if err != nil {
		t.Fatal(err)
	}
	var c gate.Config
	c.RateLimits.Stores = map[string]ratelimit.Store{"redis": awayStore{table}}
	c.RateLimits.Rules = []ratelimit.Rule{{
		Name: "shared", NoAggregates: true, Store: "redis", Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 1, Per: time.Hour}},
	}}
	_, reg, _ := observe(t, telemetry.Config{}, c)
	want := `
		# HELP comporta_rate_limited_total Requests denied by a limit of a rate rule, or counted by its shadow; one that several limits deny counts at each.
		# TYPE comporta_rate_limited_total counter
		comporta_rate_limited_total{rule="shared",shadow="false"} 9
		# HELP comporta_ratelimit_forgotten_units_total Units granted by this gateway of which the store was never told: to keys that strangers invent, or because a call failed.
		# TYPE comporta_ratelimit_forgotten_units_total counter
		comporta_ratelimit_forgotten_units_total{store="redis"} 10
		# HELP comporta_ratelimit_nodes Gateways that share the limits of a store, by the last count.
		# TYPE comporta_ratelimit_nodes gauge
		comporta_ratelimit_nodes{store="redis"} 3
		# HELP comporta_ratelimit_overshoot_ratio The most that a key was overdrawn within a minute or two, as a part of what the bound allows; above 1 the bound did not hold.
		# TYPE comporta_ratelimit_overshoot_ratio gauge
		comporta_ratelimit_overshoot_ratio{store="redis"} 0.5
		# HELP comporta_ratelimit_overshot_units_total Units granted by this gateway beyond a shared limit.
		# TYPE comporta_ratelimit_overshot_units_total counter
		comporta_ratelimit_overshot_units_total{store="redis"} 2
		# HELP comporta_ratelimit_store_crowded_total Decisions for which the store was asked because the gateway has no room to remember their keys; redis.keys is too small while it grows.
		# TYPE comporta_ratelimit_store_crowded_total counter
		comporta_ratelimit_store_crowded_total{store="redis"} 9
		# HELP comporta_ratelimit_store_decisions_total Decisions of shared rate rules, by whether the store had to be asked.
		# TYPE comporta_ratelimit_store_decisions_total counter
		comporta_ratelimit_store_decisions_total{asked="false",store="redis"} 5
		comporta_ratelimit_store_decisions_total{asked="true",store="redis"} 4
		# HELP comporta_ratelimit_store_errors_total Decisions of shared rate rules that their store did not make: it failed or was late (failed), was not asked since it is away (refused), or too many others waited (busy).
		# TYPE comporta_ratelimit_store_errors_total counter
		comporta_ratelimit_store_errors_total{kind="busy",store="redis"} 8
		comporta_ratelimit_store_errors_total{kind="failed",store="redis"} 6
		comporta_ratelimit_store_errors_total{kind="refused",store="redis"} 7
		# HELP comporta_ratelimit_store_up 1 if the store of shared rate rules is asked, 0 while it is away.
		# TYPE comporta_ratelimit_store_up gauge
		comporta_ratelimit_store_up{store="redis"} 0
	`
	names := []string{
		"comporta_rate_limited_total", "comporta_ratelimit_forgotten_units_total", "comporta_ratelimit_nodes", "comporta_ratelimit_overshoot_ratio", "comporta_ratelimit_overshot_units_total",
		"comporta_ratelimit_store_crowded_total", "comporta_ratelimit_store_decisions_total", "comporta_ratelimit_store_errors_total", "comporta_ratelimit_store_up",
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}
