package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/identity"
	"github.com/comporta/comporta/gate/ratelimit"
	"github.com/comporta/comporta/internal/topk"
)

var (
	descLimited = describe("rate_limited_total", "Requests denied by a limit of a rate rule, or counted by its shadow; "+
		"one that several limits deny counts at each.", "rule", "shadow")
	descTopLimited = describe("top_client_rate_limited_total", "Requests of the clients that rate rules deny most, by a sketch of fixed size.", "client")
)

var (
	descStoreErrors = describe("ratelimit_store_errors_total", "Decisions of shared rate rules that their store did not make: "+
		"it failed or was late (failed), was not asked since it is away (refused), or too many others waited (busy).", "store", "kind")
	descStoreDecisions = describe("ratelimit_store_decisions_total", "Decisions of shared rate rules, by whether the store had to be asked.", "store", "asked")
	descStoreCrowded   = describe("ratelimit_store_crowded_total", "Decisions for which the store was asked because the gateway has no room to remember their keys; redis.keys is too small while it grows.", "store")
	descForgotten      = describe("ratelimit_forgotten_units_total", "Units granted by this gateway of which the store was never told: to keys that strangers invent, or because a call failed.", "store")
	descStoreUp        = describe("ratelimit_store_up", "1 if the store of shared rate rules is asked, 0 while it is away.", "store")
	descStoreNodes     = describe("ratelimit_nodes", "Gateways that share the limits of a store, by the last count.", "store")
	descOvershot       = describe("ratelimit_overshot_units_total", "Units granted by this gateway beyond a shared limit.", "store")
	descOvershoot      = describe("ratelimit_overshoot_ratio", "The most that a key was overdrawn within a minute or two, as a part of what the bound allows; above 1 the bound did not hold.", "store")
)

// collectStores tells how shared stores fare.
func collectStores(ch chan<- prometheus.Metric, shared map[string]ratelimit.SharedStats) {
	for store, s := range shared {
		for kind, n := range map[string]uint64{"failed": s.Failed, "refused": s.Refused, "busy": s.Busy} {
			ch <- prometheus.MustNewConstMetric(descStoreErrors, prometheus.CounterValue, float64(n), store, kind)
		}
		for asked, n := range map[bool]uint64{true: s.Asked, false: s.Spared} {
			ch <- prometheus.MustNewConstMetric(descStoreDecisions, prometheus.CounterValue, float64(n), store, strconv.FormatBool(asked))
		}
		ch <- prometheus.MustNewConstMetric(descStoreCrowded, prometheus.CounterValue, float64(s.Crowded), store)
		ch <- prometheus.MustNewConstMetric(descForgotten, prometheus.CounterValue, float64(s.ForgottenUnits), store)
		ch <- prometheus.MustNewConstMetric(descStoreUp, prometheus.GaugeValue, bit(s.Available), store)
		ch <- prometheus.MustNewConstMetric(descStoreNodes, prometheus.GaugeValue, float64(s.Nodes), store)
		ch <- prometheus.MustNewConstMetric(descOvershot, prometheus.CounterValue, float64(s.OvershotUnits), store)
		ch <- prometheus.MustNewConstMetric(descOvershoot, prometheus.GaugeValue, s.OvershootRatio, store)
	}
}

// collectRates tells what the rate rules deny. The labels are names of the
// configuration: their number is that of the rules.
func (t *Telemetry) collectRates(ch chan<- prometheus.Metric, g *gate.Gate) {
	line := func(p *ratelimit.Policy, n uint64, shadow bool) {
		ch <- prometheus.MustNewConstMetric(descLimited, prometheus.CounterValue, float64(n), p.Name, strconv.FormatBool(shadow))
	}
	for p, counts := range g.RateLimits {
		// A rule that was a shadow before a reload keeps both its counts.
		if !p.Shadow || counts.Denied > 0 {
			line(p, counts.Denied, false)
		}
		if p.Shadow || counts.WouldDeny > 0 {
			line(p, counts.WouldDeny, true)
		}
	}
	for _, item := range t.limited.list(t.config.TopClients) {
		ch <- prometheus.MustNewConstMetric(descTopLimited, prometheus.CounterValue, float64(item.Count), limitedName(item.Key))
	}
}

// topLimited finds the clients that are denied most. It names clients, not the
// keys of rules: a key may hold what a client sent.
type topLimited struct {
	shown  int
	sketch *topk.Sketch[limitedClient]
}

type limitedClient struct {
	key  uint64
	name string
}

func newTopLimited(shown int) *topLimited {
	return &topLimited{shown: shown, sketch: topk.New[limitedClient](shown * oversize)}
}

func (t *topLimited) count(r *comporta.Request, d *comporta.Decision) {
	if d.Reason == comporta.RateLimited || d.Reason == comporta.CostExceedsBurst {
		t.sketch.Add(limitedClient{r.Client.Key, r.Client.Name})
	}
}

func (t *topLimited) list(n int) []topk.Item[limitedClient] { return t.sketch.Top(min(n, t.shown)) }

func limitedName(c limitedClient) string {
	if c.name != "" {
		return c.name
	}
	return identity.KeyString(c.key)
}
