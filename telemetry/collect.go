package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("comporta_"+name, help, labels, nil)
}

var (
	descRequests = describe("requests_total", "Requests, each counted once.", "kind", "class", "decision")
	descRejected = describe("admission_rejected_total", "Requests refused, by reason.", "reason", "kind")
	descWould    = describe("would_reject_total", "Requests that observe mode let in although they would have been refused.", "reason", "kind")
	descTop      = describe("top_client_requests_total", "Requests of the clients that ask most, by a sketch of fixed size.", "client", "kind")
	descLevel    = describe("overload_level", "1 for how hard the house is pressed, or for what an operator has pinned.", "level")
	descVerdict  = describe("storm_verdict", "1 for what the traffic of the last ten seconds looks like.", "verdict")
)

// number is read from a gate's Stats.
type number struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*gate.Stats) float64
}

func gauge(name, help string, value func(*gate.Stats) float64) number {
	return number{describe(name, help), prometheus.GaugeValue, value}
}

func counter(name, help string, value func(*gate.Stats) float64) number {
	return number{describe(name, help), prometheus.CounterValue, value}
}

var numbers = []number{
	gauge("repeat_ratio", "Share of repeats among the requests of the last ten seconds.", func(s *gate.Stats) float64 { return s.Traffic.RepeatRatio() }),
	gauge("inflight", "Weight of the requests between admission and the end of their answer.", func(s *gate.Stats) float64 { return float64(s.Inflight) }),
	gauge("capacity", "Weight that may be in flight: configured or learned.", func(s *gate.Stats) float64 { return float64(s.Capacity) }),
	gauge("waiting", "Requests in the queue.", func(s *gate.Stats) float64 { return float64(s.Waiting) }),
	gauge("streams", "Exchanges that left the gate as streams and still live.", func(s *gate.Stats) float64 { return float64(s.Streams) }),
	gauge("buffered_body_bytes", "Bytes of request bodies that are held in memory.", func(s *gate.Stats) float64 { return float64(s.BufferedBytes) }),
	gauge("slots_waiting", "Booked instants that are still to come.", func(s *gate.Stats) float64 { return float64(s.Estimates.Waiting) }),
	gauge("spare_rate", "Completions per second that are left for returns.", func(s *gate.Stats) float64 { return s.Estimates.Spare }),
	counter("slots_booked_total", "New instants that took a place in the calendar.", func(s *gate.Stats) float64 { return float64(s.Slots.Booked) }),
	counter("slots_plain_total", "New instants over a client's share, which took no place.", func(s *gate.Stats) float64 { return float64(s.Slots.Plain) }),
	counter("slots_redeemed_total", "Requests that came at their instant.", func(s *gate.Stats) float64 { return float64(s.Slots.Redeemed) }),
	counter("slots_early_total", "Requests that came before their instant.", func(s *gate.Stats) float64 { return float64(s.Slots.Early) }),
	counter("slots_evicted_total", "Instants lost to a full table; their tickets still hold.", func(s *gate.Stats) float64 { return float64(s.Slots.Evicted) }),
	counter("repeat_evictions_total", "Sightings forgotten within their window for want of room.", func(s *gate.Stats) float64 { return float64(s.SightingsEvicted) }),
	counter("proven_evictions_total", "Proven clients forgotten within their day for want of room.", func(s *gate.Stats) float64 { return float64(s.ProvenEvicted) }),
	counter("ratelimit_crowded_total", "Requests of keys for which the table of rate rules had no room; a larger one is needed while it grows.", func(s *gate.Stats) float64 { return float64(s.RatesCrowded) }),
	counter("exempt_total", "Requests that bypassed the gate.", func(s *gate.Stats) float64 { return float64(s.Exempt) }),
	counter("version_absent_total", "Requests without a version where a minimum is set.", func(s *gate.Stats) float64 { return float64(s.VersionAbsent) }),
}

var descTickets = describe("tickets_ignored_total", "Tickets that proved nothing, by why.", "why")

// learned is a number of the learned limit; absent while the capacity is static.
var learned = []number{
	gauge("learn_baseline_seconds", "Latency without a queue, as learned.", func(s *gate.Stats) float64 { return s.Learned.Baseline.Seconds() }),
	gauge("learn_latency_ratio", "Latest latency over the baseline.", func(s *gate.Stats) float64 { return s.Learned.Ratio }),
	gauge("learn_elasticity", "Share of a change of concurrency that throughput follows.", func(s *gate.Stats) float64 { return s.Learned.Elasticity }),
	counter("learn_windows_skipped_total", "Windows that held a pause and were not judged.", func(s *gate.Stats) float64 { return float64(s.Learned.Skipped) }),
	counter("learn_baseline_raised_total", "Verdicts that raised the baseline; many mean a shared service or a wrong maximum.", func(s *gate.Stats) float64 { return float64(s.Learned.Raised) }),
}

// Describe implements prometheus.Collector.
func (t *Telemetry) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRequests, descRejected, descWould, descTop, descVerdict, descLevel, descTickets, descLimited, descTopLimited,
		descStoreErrors, descStoreDecisions, descStoreCrowded, descForgotten, descStoreUp, descStoreNodes, descOvershot, descOvershoot} {
		ch <- d
	}
	for _, n := range numbers {
		ch <- n.desc
	}
	for _, n := range learned {
		ch <- n.desc
	}
	describeUpstreams(ch)
	describeConnections(ch)
}

// Collect implements prometheus.Collector.
func (t *Telemetry) Collect(ch chan<- prometheus.Metric) {
	t.collectUpstreams(ch)
	t.collectConnections(ch)
	g := t.gate.Load()
	if g == nil {
		return
	}
	s := g.StatsAt(time.Now())
	for _, n := range numbers {
		ch <- prometheus.MustNewConstMetric(n.desc, n.kind, n.value(&s))
	}
	if s.Learned != nil {
		for _, n := range learned {
			ch <- prometheus.MustNewConstMetric(n.desc, n.kind, n.value(&s))
		}
	}
	for v := gate.VerdictNormal; v <= gate.VerdictMixed; v++ {
		ch <- prometheus.MustNewConstMetric(descVerdict, prometheus.GaugeValue, bit(v == s.Verdict), v.String())
	}
	for l := gate.LevelNormal; l <= gate.LevelAttack; l++ {
		ch <- prometheus.MustNewConstMetric(descLevel, prometheus.GaugeValue, bit(l == s.Level), l.String())
	}
	for why, n := range map[string]uint64{
		"forged": s.Slots.TicketsForged, "foreign": s.Slots.TicketsForeign, "expired": s.Slots.TicketsExpired, "used": s.Slots.TicketsUsed,
	} {
		ch <- prometheus.MustNewConstMetric(descTickets, prometheus.CounterValue, float64(n), why)
	}
	t.collectRequests(ch, g.State())
	t.collectRates(ch, g)
	collectStores(ch, s.SharedLimits)
	for _, c := range t.Top(t.config.TopClients) {
		ch <- prometheus.MustNewConstMetric(descTop, prometheus.CounterValue, float64(c.Total), c.Client, c.Kind.String())
	}
}

func (t *Telemetry) collectRequests(ch chan<- prometheus.Metric, s *gate.State) {
	type reasonKind struct {
		reason string
		kind   comporta.Kind
	}
	rejected := map[reasonKind]uint64{}
	s.EachRequestCount(func(c gate.RequestCount) bool {
		ch <- prometheus.MustNewConstMetric(descRequests, prometheus.CounterValue, float64(c.Count), c.Kind.String(), c.Class.String(), c.Decision)
		if _, refused := comporta.ReasonByCode(c.Decision); refused {
			rejected[reasonKind{c.Decision, c.Kind}] += c.Count
		}
		return true
	})
	for k, n := range rejected {
		ch <- prometheus.MustNewConstMetric(descRejected, prometheus.CounterValue, float64(n), k.reason, k.kind.String())
	}
	for kind := comporta.KindOriginal; kind <= comporta.KindHopeless; kind++ {
		for _, reason := range []comporta.Reason{comporta.CapacityExhausted, comporta.RetryDeferred} {
			ch <- prometheus.MustNewConstMetric(descWould, prometheus.CounterValue, float64(s.WouldReject(kind, reason)), reason.String(), kind.String())
		}
	}
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
