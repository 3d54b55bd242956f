package main

import (
	"net/http"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/retry"
)

// doer is what all clients are.
type doer interface {
	Do(req *http.Request) (*http.Response, error)
}

// direct is a transport that nothing stands on yet.
type direct struct{ http.RoundTripper }

// Do implements doer.
func (d direct) Do(req *http.Request) (*http.Response, error) { return d.RoundTrip(req) }

// below turns a client into the transport of another one.
type below struct{ doer }

// RoundTrip implements http.RoundTripper.
func (b below) RoundTrip(req *http.Request) (*http.Response, error) { return b.Do(req) }

// transportOf is d as a transport, without a layer for what is one already.
func transportOf(d doer) http.RoundTripper {
	if d, ok := d.(direct); ok {
		return d.RoundTripper
	}
	return below{d}
}

// plain is an http.Client over d.
func plain(d doer) *http.Client { return &http.Client{Transport: transportOf(d)} }

// contestant is a client that is put to the test. make makes a new one over
// another client.
type contestant struct {
	name string
	make func(doer) (doer, error)
}

// Of the contestants the first is what the targets are about; the second is the
// same with everything on, and the third the floor.
func contestants() []contestant {
	return append([]contestant{
		{"comporta, default", ours(client.Config{})},
		{"comporta, everything on", ours(everything())},
		{"net/http", func(d doer) (doer, error) { return plain(d), nil }},
	}, rivals()...)
}

// everything switches on what the zero Config leaves off, but for hedging.
func everything() client.Config {
	return client.Config{Version: "bench/1.0.0", AutoKey: true, Breaker: &breaker.Config{}, Bulkhead: &bulkhead.Config{Limit: 64}}
}

func ours(c client.Config) func(doer) (doer, error) {
	c.Policy = retry.Policy{MaxAttempts: attempts, Base: base, Cap: ceiling, Total: total}
	return func(d doer) (doer, error) {
		made, err := client.New(c)
		if err != nil {
			return nil, err
		}
		return made.HTTP(plain(d)), nil
	}
}
