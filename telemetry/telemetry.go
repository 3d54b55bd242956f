package telemetry

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/front"
	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/proxy"
)

// Config says what is told, and how much of it.
type Config struct {
	// TopClients is how many clients appear by name; 0 means 20.
	TopClients int
	// AccessLog gets one line for each request; nil writes none.
	AccessLog *slog.Logger
	// Sample is the fraction of admitted requests that are logged; refusals
	// always are. 0 means all.
	Sample float64
}

const defaultTopClients = 20

// Telemetry observes one gate after the other: a reload changes the gate, not
// the counts. Methods may be called from many goroutines.
type Telemetry struct {
	config      Config
	gate        atomic.Pointer[gate.Gate]
	proxy       atomic.Pointer[proxy.Proxy]
	connections atomic.Pointer[front.Connections]
	top         *topClients
	limited     *topLimited
	log         *accessLog

	queueWait, slotWait, decision prometheus.Histogram
	upstream                      *prometheus.HistogramVec
	upstreamCodes                 *prometheus.CounterVec
	answers                       atomic.Pointer[map[string]*answers] // by upstream
	failovers                     prometheus.Counter
	reloaded                      prometheus.Gauge
	keys                          *keyMetrics
}

// New returns a Telemetry that is registered with reg.
func New(c Config, reg prometheus.Registerer) (*Telemetry, error) {
	if c.TopClients == 0 {
		c.TopClients = defaultTopClients
	}
	t := &Telemetry{config: c, top: newTopClients(c.TopClients), limited: newTopLimited(c.TopClients), log: newAccessLog(c), keys: newKeyMetrics()}
	t.makeHistograms()
	for _, collector := range append(t.keys.collectors(),
		t, t.queueWait, t.slotWait, t.decision, t.upstream, t.upstreamCodes, t.failovers, t.reloaded,
	) {
		if err := reg.Register(collector); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *Telemetry) makeHistograms() {
	histogram := func(name, help string, buckets []float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{
			Name: "comporta_" + name, Help: help, Buckets: buckets,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
			NativeHistogramMinResetDuration: time.Hour,
		}
	}
	t.queueWait = prometheus.NewHistogram(histogram("queue_wait_seconds",
		"How long requests stood in the queue; those that did not are not counted.", prometheus.ExponentialBuckets(0.001, 2, 12)))
	t.slotWait = prometheus.NewHistogram(histogram("slot_wait_seconds",
		"The waits told to refused clients.", prometheus.ExponentialBuckets(0.5, 2, 12)))
	t.decision = prometheus.NewHistogram(histogram("decision_duration_seconds",
		"From the head of a request to the gate's decision, the queue included.", prometheus.ExponentialBuckets(1e-6, 4, 12)))
	t.upstream = prometheus.NewHistogramVec(histogram("upstream_duration_seconds",
		"From the start of a try to the head of the upstream's answer.", prometheus.DefBuckets), []string{"upstream"})
	t.upstreamCodes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "comporta_upstream_requests_total", Help: "Tries to reach an upstream, by its status or how the try failed.",
	}, []string{"upstream", "code"})
	t.failovers = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "comporta_upstream_failover_total", Help: "Requests that went on to another connection because nothing of them had been sent.",
	})
	t.reloaded = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "comporta_config_last_reload_successful", Help: "1 if the configuration that was loaded last was good.",
	})
	t.reloaded.Set(1)
}

// Watch makes g the gate whose counts and gauges are shown.
func (t *Telemetry) Watch(g *gate.Gate) { t.gate.Store(g) }

// WatchUpstreams makes p the proxy whose upstreams are shown.
func (t *Telemetry) WatchUpstreams(p *proxy.Proxy) { t.proxy.Store(p) }

// Reloaded records whether the latest configuration was good.
func (t *Telemetry) Reloaded(good bool) {
	if good {
		t.reloaded.Set(1)
	} else {
		t.reloaded.Set(0)
	}
}

// Trace returns what a gate has to call.
func (t *Telemetry) Trace() gate.Trace { return gate.Trace{Decided: t.decided, Done: t.done} }

func (t *Telemetry) decided(_ time.Time, _ *comporta.Request, d comporta.Decision, took time.Duration) {
	t.decision.Observe(took.Seconds())
	if d.Queued > 0 {
		t.queueWait.Observe(d.Queued.Seconds())
	}
}

func (t *Telemetry) done(now time.Time, r *comporta.Request, d comporta.Decision, o comporta.Outcome) {
	if d.Wait > 0 {
		t.slotWait.Observe(d.Wait.Seconds())
	}
	t.top.countAt(now, r)
	t.limited.count(r, &d)
	if t.log != nil {
		t.log.write(now, t.gate.Load(), r, &d, &o)
	}
}

// Top returns the clients that ask most, heaviest first.
func (t *Telemetry) Top(n int) []TopClient { return t.top.list(n) }
