package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/comporta/comporta/front"
)

var (
	descConnections         = describe("connections", "Open connections of clients, by what they speak: http1 (also those that have said nothing yet), http2, upgraded.", "protocol")
	descConnectionsLimit    = describe("connections_limit", "How many connections of clients may be open: limits.connections, or what the system has descriptors for. 0: no limit.")
	descConnectionsAccepted = describe("connections_accepted_total", "Connections of clients that were let in.")
	descConnectionsRefused  = describe("connections_refused_total", "Connections of clients that were refused: too many in all (total), or from one network.", "limit")
)

// WatchConnections makes c the connections that are shown.
func (t *Telemetry) WatchConnections(c *front.Connections) { t.connections.Store(c) }

func describeConnections(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descConnections, descConnectionsLimit, descConnectionsAccepted, descConnectionsRefused} {
		ch <- d
	}
}

func (t *Telemetry) collectConnections(ch chan<- prometheus.Metric) {
	c := t.connections.Load()
	if c == nil {
		return
	}
	s := c.Stats()
	for p, open := range s.Protocols {
		ch <- prometheus.MustNewConstMetric(descConnections, prometheus.GaugeValue, float64(open), front.Protocol(p).String())
	}
	ch <- prometheus.MustNewConstMetric(descConnectionsLimit, prometheus.GaugeValue, float64(s.Total))
	ch <- prometheus.MustNewConstMetric(descConnectionsAccepted, prometheus.CounterValue, float64(s.Accepted))
	ch <- prometheus.MustNewConstMetric(descConnectionsRefused, prometheus.CounterValue, float64(s.RefusedTotal), "total")
	ch <- prometheus.MustNewConstMetric(descConnectionsRefused, prometheus.CounterValue, float64(s.RefusedNetwork), "network")
}
