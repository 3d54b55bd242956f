package main

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// The storms.
const (
	layers     = 3
	operations = 10 // of layered clients, each with new ones, so that no budget runs dry
	lateAfter  = "30"
	lateLeft   = time.Second
)

// storms is what a client did in each of them.
type storms struct {
	name string

	outage      int64 // calls that reached the service
	connections int64 // that they took
	took        time.Duration
	goroutines  int // left over

	nested float64 // calls per operation of three layers

	late         time.Duration // until the call returned
	lateCalls    int64
	lateAnswered bool // with the answer, readable
}

// weather is how much of a storm there is.
type weather struct{ calls, workers int }

// through sends a contestant through all storms.
func (w weather) through(c contestant) (storms, error) {
	s := storms{name: c.name}
	for _, storm := range []func(contestant, *storms) error{w.totalOutage, nestedLayers, lateRetryAfter} {
		if err := storm(c, &s); err != nil {
			return s, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return s, nil
}

// totalOutage has workers that go on calling a service that is down.
func (w weather) totalOutage(c contestant, into *storms) error {
	before := runtime.NumGoroutine()
	s := newService()
	d, err := c.make(s.below())
	if err == nil {
		err = s.warm(w.workers)
	}
	if err != nil {
		s.close()
		return err
	}
	start := time.Now()
	var next atomic.Int64
	var workers sync.WaitGroup
	for range w.workers {
		workers.Go(func() {
			for next.Add(1) <= int64(w.calls) {
				if resp, err := get(context.Background(), d, s.server.URL); err == nil {
					read(resp)
				}
			}
		})
	}
	workers.Wait()
	into.took = time.Since(start)
	into.outage, into.connections = s.calls.Load(), s.connections.Load()
	s.close()
	into.goroutines = goroutinesAfter(before)
	return nil
}

// nestedLayers calls through three clients, one in another, as an SDK in a
// service behind a helper function does.
func nestedLayers(c contestant, into *storms) error {
	s := newService()
	defer s.close()
	var all sync.WaitGroup
	for range operations {
		d := s.below()
		for range layers {
			var err error
			if d, err = c.make(d); err != nil {
				return err
			}
		}
		all.Go(func() {
			if resp, err := get(context.Background(), d, s.server.URL); err == nil {
				read(resp)
			}
		})
	}
	all.Wait()
	into.nested = float64(s.calls.Load()) / operations
	return nil
}

// lateRetryAfter asks for a wait that the call has no time for.
func lateRetryAfter(c contestant, into *storms) error {
	s := newService("Retry-After", lateAfter)
	defer s.close()
	d, err := c.make(s.below())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lateLeft)
	defer cancel()
	start := time.Now()
	resp, err := get(ctx, d, s.server.URL)
	into.late = time.Since(start)
	into.lateCalls = s.calls.Load()
	into.lateAnswered = read(resp) && err == nil
	return nil
}

func get(ctx context.Context, d doer, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	return d.Do(req)
}
