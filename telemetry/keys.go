package telemetry

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/store"
)

// keyMetrics are those of idempotency keys.
type keyMetrics struct {
	events *prometheus.CounterVec
	calls  *prometheus.HistogramVec
	errors *prometheus.CounterVec
}

func newKeyMetrics() *keyMetrics {
	m := &keyMetrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "comporta_idempotency_total", Help: "What became of requests under idempotency keys, and of the keys.",
		}, []string{"outcome"}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "comporta_store_seconds", Help: "Calls to the store of idempotency keys.", Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8),
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}, []string{"op"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "comporta_store_errors_total", Help: "Calls to the store of idempotency keys that failed.",
		}, []string{"op"}),
	}
	for _, e := range idempotency.Events {
		m.events.WithLabelValues(string(e))
	}
	return m
}

func (m *keyMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.events, m.calls, m.errors}
}

// Keys returns what a keeper of idempotency keys has to call.
func (t *Telemetry) Keys() idempotency.Trace {
	m := t.keys
	return idempotency.Trace{
		Event: func(e idempotency.Event) { m.events.WithLabelValues(string(e)).Inc() },
		Store: func(op string, took time.Duration, err error) {
			m.calls.WithLabelValues(op).Observe(took.Seconds())
			if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrLost) {
				m.errors.WithLabelValues(op).Inc()
			}
		},
	}
}
