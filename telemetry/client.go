package telemetry

import (
	"errors"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/retry"
)

// The bounds of what a client's labels may hold. Hosts come from URLs, and those
// may come from anywhere.
const (
	maxDestinations = 64
	maxVersions     = 16
	maxLabel        = 255     // bytes; the name of a host has no more
	otherLabel      = "other" // what finds no room, or is no text
)

// The codes that tell of overload, in HTTP and in gRPC.
const (
	codeTooMany           = "429"
	codeUnavailable       = "503"
	grpcResourceExhausted = 8
	grpcUnavailable       = 14
)

// Client shows what the clients of a program do to those whom they call: the
// lines that move before an avalanche does. One serves all clients of a program,
// over HTTP and gRPC. Make it with NewClient. Its methods may be called from many
// goroutines; they neither block nor panic, whatever they are told.
//
// Trace is for client.Config. The hooks of grpcclient.Trace are methods too, so
// that this package need not know gRPC:
//
//	grpcclient.Trace{
//		Finished: m.Finished, Replayed: m.Replayed, Refused: m.Refused,
//		Attempted: func(a grpcclient.Attempt) { m.AttemptedGRPC(uint32(a.Code)) },
//	}
type Client struct {
	attempts                           prometheus.Histogram
	retried, waited                    prometheus.Counter
	tooMany, unavailable, others       prometheus.Counter // of client_responses_total
	retries, refused                   *prometheus.CounterVec
	replayed                           prometheus.Counter
	poolWaiting                        prometheus.Gauge
	poolWaited                         prometheus.Counter
	budgetExhausted, nested, suspected prometheus.Counter

	destinations, versions names
}

// NewClient returns a Client whose metrics are registered with reg. The error is
// reg's: a name that is taken, by another Client for one.
func NewClient(reg prometheus.Registerer) (*Client, error) {
	responses := counterVec("client_responses_total",
		"Attempts by what came back: 429, 503, or anything else, success and no answer included.", "code")
	idempotency := counterVec("idempotency_total", "Operations whose key the server knew already, by what it did.", "outcome")
	c := &Client{
		attempts: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "comporta_client_attempts_per_call", Help: "Attempts that one operation took; 0 if something local refused it.",
			Buckets: []float64{0, 1, 2, 3, 4, 6, 8, 16},
		}),
		retried:     newCounter("client_retry_success_total", "Operations that succeeded after at least one repeat."),
		waited:      newCounter("client_wait_seconds_total", "Time that operations took after their first attempt: waits and further attempts."),
		tooMany:     responses.WithLabelValues(codeTooMany),
		unavailable: responses.WithLabelValues(codeUnavailable),
		others:      responses.WithLabelValues(otherLabel),
		retries:     counterVec("client_retries_total", "Repeats, by whom they were sent to and the version that sent them.", "dependency", "client_version"),
		refused:     counterVec("client_refused_total", "Attempts that a breaker or bulkhead of the client let not pass.", "dependency", "by"),
		replayed:    idempotency.WithLabelValues("replayed"),
		poolWaiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "comporta_client_pool_waiting", Help: "Attempts that wait for a connection, from the pool or being opened.",
		}),
		poolWaited:      newCounter("client_pool_wait_seconds_total", "Time that calls stood in the queues of bulkheads."),
		budgetExhausted: newCounter("client_budget_exhausted_total", "Operations that were not repeated because the budget was spent."),
		nested:          newCounter("client_nested_total", "Operations that a layer above owns; they made one attempt."),
		suspected:       newCounter("client_nested_suspected_total", "Requests that came again in a context in which they had just failed."),
		destinations:    names{limit: maxDestinations},
		versions:        names{limit: maxVersions},
	}
	for _, collector := range []prometheus.Collector{
		c.attempts, c.retried, c.waited, responses, c.retries, c.refused, idempotency,
		c.poolWaiting, c.poolWaited, c.budgetExhausted, c.nested, c.suspected,
	} {
		if err := reg.Register(collector); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func newCounter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "comporta_" + name, Help: help})
}

func counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "comporta_" + name, Help: help}, labels)
}

// Trace returns what a client has to call.
func (c *Client) Trace() client.Trace {
	return client.Trace{
		Attempted:       func(a client.Attempt) { c.Attempted(a.Status) },
		Finished:        c.Finished,
		Replayed:        c.Replayed,
		Refused:         c.Refused,
		NestedSuspected: c.NestedSuspected,
	}
}

// Bulkhead returns what the bulkheads of a client have to call, for
// client.Config.Bulkhead.Trace: it counts the time that calls stood in line.
func (c *Client) Bulkhead() bulkhead.Trace {
	return bulkhead.Trace{Waited: func(d time.Duration, _ bool) { c.poolWaited.Add(max(0, d.Seconds())) }}
}

// Attempted counts an attempt by its status of HTTP; 0 is an attempt without an
// answer.
func (c *Client) Attempted(status int) {
	switch status {
	case http.StatusTooManyRequests:
		c.tooMany.Inc()
	case http.StatusServiceUnavailable:
		c.unavailable.Inc()
	default:
		c.others.Inc()
	}
}

// AttemptedGRPC counts an attempt by its code of gRPC: RESOURCE_EXHAUSTED as 429
// and UNAVAILABLE as 503, which is how the gateway says the same over HTTP.
func (c *Client) AttemptedGRPC(code uint32) {
	switch code {
	case grpcResourceExhausted:
		c.tooMany.Inc()
	case grpcUnavailable:
		c.unavailable.Inc()
	default:
		c.others.Inc()
	}
}

// Finished counts an operation.
func (c *Client) Finished(r retry.Report) {
	c.attempts.Observe(float64(r.Attempts))
	if r.Nested {
		c.nested.Inc()
	}
	if r.Reason == retry.ReasonBudget {
		c.budgetExhausted.Inc()
	}
	if r.Attempts <= 1 {
		return
	}
	c.waited.Add(max(0, r.Repeating.Seconds()))
	c.retries.WithLabelValues(c.destinations.bounded(r.Destination), c.versions.bounded(r.Version)).Add(float64(r.Attempts - 1))
	if r.Succeeded() {
		c.retried.Inc()
	}
}

// Replayed counts an answer that the server had in store for its key: a duplicate
// that did nothing.
func (c *Client) Replayed(string) { c.replayed.Inc() }

// Refused counts an attempt that a breaker or bulkhead let not pass.
func (c *Client) Refused(destination string, err error) {
	by := otherLabel
	switch {
	case errors.Is(err, breaker.ErrOpen):
		by = "breaker"
	case errors.Is(err, bulkhead.ErrFull):
		by = "bulkhead"
	}
	c.refused.WithLabelValues(c.destinations.bounded(destination), by).Inc()
}

// NestedSuspected counts a request that something above seems to repeat.
func (c *Client) NestedSuspected(string) { c.suspected.Inc() }

// names keeps a label's values to the first limit that were seen. The first and
// not the heaviest: a series that changes its meaning is worse than one that is
// missing.
type names struct {
	limit int

	mu   sync.RWMutex
	seen map[string]struct{}
}

// bounded returns name, or otherLabel if there is no room for it or it is no text
// that a label can hold.
func (n *names) bounded(name string) string {
	if len(name) > maxLabel || !utf8.ValidString(name) {
		return otherLabel
	}
	n.mu.RLock()
	_, held := n.seen[name]
	full := len(n.seen) >= n.limit
	n.mu.RUnlock()
	if held {
		return name
	}
	if full {
		return otherLabel
	}
	return n.add(name)
}

func (n *names) add(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, held := n.seen[name]; held {
		return name
	}
	if len(n.seen) >= n.limit {
		return otherLabel
	}
	if n.seen == nil {
		n.seen = make(map[string]struct{}, n.limit)
	}
	n.seen[name] = struct{}{}
	return name
}
