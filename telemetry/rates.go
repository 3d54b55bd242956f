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

// collectRates tells what the rate rules deny. The labels are names of the
// configuration: their number is that of the rules.
func (t *Telemetry) collectRates(ch chan<- prometheus.Metric, g *gate.Gate) {
	line := func(p *ratelimit.Policy, n uint64, shadow bool) {
		ch <- prometheus.MustNewConstMetric(descLimited, prometheus.CounterValue, float64(n), p.Name, strconv.FormatBool(shadow))
	}
	for p := range g.RateLimits {
		counts := p.Counts()
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
