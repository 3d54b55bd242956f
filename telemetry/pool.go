package telemetry

import (
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Pool returns next with its waits for connections counted while they last, as
// client_pool_waiting; nil means http.DefaultTransport. It belongs below the
// client, where each attempt is seen by itself:
//
//	orders := c.HTTP(&http.Client{Transport: m.Pool(nil)})
//
// It costs a handful of allocations an attempt, which is why it is not in Trace.
func (c *Client) Pool(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &pool{next: next, waiting: c.poolWaiting}
}

type pool struct {
	next    http.RoundTripper
	waiting prometheus.Gauge
}

// RoundTrip sends the request.
func (p *pool) RoundTrip(req *http.Request) (*http.Response, error) {
	w := &poolWait{gauge: p.waiting}
	defer w.leave()
	return p.next.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { w.ask() },
		GotConn: func(httptrace.GotConnInfo) { w.got() },
	})))
}

// CloseIdleConnections lets http.Client reach the pool through its wrapper.
func (p *pool) CloseIdleConnections() {
	if closer, ok := p.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// poolWait is one attempt. A transport may ask for several connections, and may
// give up without one: whatever it does, the gauge ends where it was.
type poolWait struct {
	gauge prometheus.Gauge
	state atomic.Uint32
}

// The states of a poolWait. From waitOver none leads back.
const (
	waitIdle uint32 = iota
	waitAsked
	waitOver
)

func (w *poolWait) ask() {
	if w.state.CompareAndSwap(waitIdle, waitAsked) {
		w.gauge.Inc()
	}
}

func (w *poolWait) got() {
	if w.state.CompareAndSwap(waitAsked, waitIdle) {
		w.gauge.Dec()
	}
}

func (w *poolWait) leave() {
	if w.state.Swap(waitOver) == waitAsked {
		w.gauge.Dec()
	}
}
