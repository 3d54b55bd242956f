package telemetry

import (
	"maps"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/proxy"
)

// answers are the series of one upstream that every request needs: to find them by
// their labels each time costs more than to count.
type answers struct {
	latency prometheus.Observer
	codes   [600]atomic.Pointer[prometheus.Counter] // by status; those that came
}

// answersOf finds the series of an upstream. There are as many as upstreams were
// ever configured.
func (t *Telemetry) answersOf(name string) *answers {
	for {
		all := t.answers.Load()
		if all != nil && (*all)[name] != nil {
			return (*all)[name]
		}
		more := map[string]*answers{name: {latency: t.upstream.WithLabelValues(name)}}
		if all != nil {
			maps.Copy(more, *all)
		}
		t.answers.CompareAndSwap(all, &more)
	}
}

// Upstream records one try to reach an upstream: its status, or the result of a
// try that got none. moved says that the request went on elsewhere.
func (t *Telemetry) Upstream(u *url.URL, result comporta.Result, status int, latency time.Duration, moved bool) {
	if moved {
		t.failovers.Inc()
	}
	if status == 0 {
		t.upstreamCodes.WithLabelValues(u.Host, result.String()).Inc()
		return
	}
	a := t.answersOf(u.Host)
	a.latency.Observe(latency.Seconds())
	if status < 0 || status >= len(a.codes) {
		t.upstreamCodes.WithLabelValues(u.Host, strconv.Itoa(status)).Inc()
		return
	}
	code := a.codes[status].Load()
	if code == nil {
		counter := t.upstreamCodes.WithLabelValues(u.Host, strconv.Itoa(status)) // the same for all who look
		code = &counter
		a.codes[status].Store(code)
	}
	(*code).Inc()
}

// upstreamNumber is read from what a proxy knows of an upstream.
type upstreamNumber struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*proxy.UpstreamStats) float64
}

func upstreamGauge(name, help string, value func(*proxy.UpstreamStats) float64) upstreamNumber {
	return upstreamNumber{describe(name, help, "upstream"), prometheus.GaugeValue, value}
}

func upstreamCounter(name, help string, value func(*proxy.UpstreamStats) float64) upstreamNumber {
	return upstreamNumber{describe(name, help, "upstream"), prometheus.CounterValue, value}
}

var upstreamNumbers = []upstreamNumber{
	upstreamGauge("breaker_state", "What the breakers of an upstream do with a call: 0 closed, it passes; 1 open; 2 half open, a few pass to find out.",
		func(u *proxy.UpstreamStats) float64 { return float64(u.Breaker) }),
	upstreamCounter("breaker_opened_total", "How often a breaker of an upstream opened.", func(u *proxy.UpstreamStats) float64 { return float64(u.Opened) }),
	upstreamGauge("upstream_healthy", "1 if an upstream can serve by its checks, or has none.", func(u *proxy.UpstreamStats) float64 { return bit(u.Healthy) }),
	upstreamGauge("upstream_share", "The part of its traffic that an upstream gets: below 1 while it comes back.", func(u *proxy.UpstreamStats) float64 { return u.Share }),
	upstreamGauge("upstream_inflight", "Requests that an upstream has not answered to the end.", func(u *proxy.UpstreamStats) float64 { return float64(u.InFlight) }),
	upstreamGauge("upstream_pool_waiting", "Requests that wait for a connection to an upstream.", func(u *proxy.UpstreamStats) float64 { return float64(u.Waiting) }),
	upstreamGauge("upstream_pool_idle", "Unused connections to an upstream.", func(u *proxy.UpstreamStats) float64 { return float64(u.Idle) }),
	upstreamCounter("upstream_pool_exhausted_total", "Requests that got no connection in time because all were in use.", func(u *proxy.UpstreamStats) float64 { return float64(u.Exhausted) }),
	upstreamCounter("upstream_pool_dialed_total", "Connections made to an upstream.", func(u *proxy.UpstreamStats) float64 { return float64(u.Dialed) }),
	upstreamCounter("upstream_pool_stale_total", "Unused connections that were found dead before they were used.", func(u *proxy.UpstreamStats) float64 { return float64(u.Stale) }),
	upstreamCounter("upstream_retries_total", "Requests that were sent to an upstream again.", func(u *proxy.UpstreamStats) float64 { return float64(u.Retries) }),
}

var (
	descPanic          = describe("upstream_panic", "1 while no upstream can serve by its checks, and therefore all are asked.")
	descRetriesRefused = describe("upstream_retries_refused_total", "Retries that the budget had no room for.")
)

func describeUpstreams(ch chan<- *prometheus.Desc) {
	for _, n := range upstreamNumbers {
		ch <- n.desc
	}
	ch <- descPanic
	ch <- descRetriesRefused
}

func (t *Telemetry) collectUpstreams(ch chan<- prometheus.Metric) {
	p := t.proxy.Load()
	if p == nil {
		return
	}
	s := p.StatsAt(time.Now())
	seen := map[string]bool{}
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		name := u.Upstream.Host
		if seen[name] {
			name = u.Upstream.String() // the same host by another scheme
		}
		seen[name] = true
		for _, n := range upstreamNumbers {
			ch <- prometheus.MustNewConstMetric(n.desc, n.kind, n.value(u), name)
		}
	}
	ch <- prometheus.MustNewConstMetric(descPanic, prometheus.GaugeValue, bit(s.Panic))
	ch <- prometheus.MustNewConstMetric(descRetriesRefused, prometheus.CounterValue, float64(s.RetriesRefused))
}
