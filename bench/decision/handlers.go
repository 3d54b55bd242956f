package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/failsafehttp"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/bench/internal/measure"
	"github.com/comporta/comporta/gate"
)

// service is what stands behind both handlers: it knows its answer. What it
// writes is shared, so that every allocation is the handler's.
type service struct{}

var (
	serviceBody   = []byte("{\"ok\":true}\n")
	serviceLength = []string{fmt.Sprint(len(serviceBody))}
	serviceType   = []string{"application/json"}
)

// ServeHTTP implements http.Handler.
func (service) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h["Content-Type"], h["Content-Length"] = serviceType, serviceLength
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(serviceBody) // discard has no errors
}

// discard is a ResponseWriter that remembers the status only.
type discard struct {
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (d *discard) Header() http.Header { return d.header }

// Write implements http.ResponseWriter.
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements http.ResponseWriter.
func (d *discard) WriteHeader(status int) { d.status = status }

// handle measures a handler. As a server has just parsed it, the request is warm
// in the cache, has a context that can end (ctx), and has not met the handler
// before: the request id that it may have got is taken away. Its client is
// another one each time, of as many as make the crowd.
func handle(ctx context.Context, name string, h http.Handler, clients int) *measure.Subject {
	a := newPopulation(clients).asker()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "https://api.example/v1/orders/17?expand=items", http.NoBody)
	r.Header, r.RemoteAddr = a.r.Header, "192.0.2.7:50712"
	w, i := &discard{header: http.Header{}}, 0
	return &measure.Subject{Name: name, Run: func(n int) error {
		for range n {
			a.ask(i)
			i++
			delete(r.Header, comporta.HeaderRequestID)
			clear(w.header)
			w.status = 0
			h.ServeHTTP(w, r)
			if w.status != http.StatusOK {
				return errors.Join(errRefused, fmt.Errorf("status %d", w.status))
			}
		}
		return nil
	}}
}

// ourHandler is the gate with its default configuration: it tells clients and
// repeats apart, and learns the capacity.
func ourHandler(ctx context.Context, clients int) (*measure.Subject, error) {
	g, err := gate.New(gate.Config{}, nil)
	if err != nil {
		return nil, err
	}
	return handle(ctx, "gate.Wrap", g.Wrap(service{}), clients), nil
}

// failsafeHandler is its adaptive limiter with defaults, in its own handler. The
// handler that reads priorities, which would be one more around it, is left out.
func failsafeHandler(ctx context.Context, clients int) *measure.Subject {
	limiter := adaptivelimiter.NewWithDefaults[*http.Response]() //nolint:bodyclose // the type of a result, no response
	return handle(ctx, "failsafehttp handler", failsafehttp.NewHandler(service{}, limiter), clients)
}
