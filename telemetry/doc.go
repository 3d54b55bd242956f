// Package telemetry shows a gate and the clients of a program to Prometheus, and
// writes the gate's access log.
//
// # Basics
//
// A [Telemetry] is a prometheus.Collector: counts and gauges are read from the
// gate when they are scraped, so they cost nothing on a request's way. What only a
// histogram can tell is observed through [Telemetry.Trace], which also feeds the
// sketch of top clients and the access log.
//
// A [Client] is the other half, for programs that call: how often they repeat,
// with what success, and what it costs.
//
// # Caveats
//
// No label is unbounded. A client appears only among the top few of a
// space-saving sketch, by its readable name or the keyed hash of its identity;
// the rest is in the totals. Of destinations and versions a [Client] names the
// first that it meets.
package telemetry
