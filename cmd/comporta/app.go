package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/ratelimit/redislimit"
	"github.com/comporta/comporta/internal/config"
	"github.com/comporta/comporta/telemetry"
)

// loader reads the configuration, as it is now.
type loader func() (*config.Config, []config.Problem, error)

// app is the running gateway: what serves now, and how it is exchanged.
type app struct {
	file      string // of the configuration; empty: none
	seen      glimpse
	load      loader
	log       *slog.Logger
	reg       *prometheus.Registry
	parts     parts
	current   atomic.Pointer[compiled]
	listeners *listeners
	side      *side
	fetchers  fetchers
	retired   sync.WaitGroup // stores of rate limits that a reload replaced
	checker   checker
	ready     atomic.Bool
	handling  atomic.Int64 // requests that a handler is busy with, hijacked ones too

	// Requests end with this context when a drain turns hard.
	requests context.Context
	cancel   context.CancelCauseFunc

	reloading sync.Mutex // one reload at a time, and none once draining is set
	draining  bool
}

var (
	errDraining = errors.New("comporta: draining")
	errReplaced = errors.New("comporta: replaced by a reload")
)

// newApp reads the configuration and compiles it. The error is made for reading:
// all problems at once. access gets one line for each request.
func newApp(file string, load loader, log *slog.Logger, access io.Writer) (*app, error) {
	a := &app{file: file, seen: look(file), load: load, log: log, reg: prometheus.NewRegistry()}
	c, warnings, err := load()
	if err != nil {
		return nil, err
	}
	a.warn(warnings)
	a.parts.log, a.parts.connect = log, true
	redislimit.LogTo(log) // also what the store of keys says, when that is Redis
	if a.parts.state, err = gate.NewState(); err != nil {
		return nil, err
	}
	if a.parts.telemetry, err = telemetry.New(telemetryOf(c, access), a.reg); err != nil {
		return nil, err
	}
	a.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	k, err := compile(c, &a.parts)
	if err != nil {
		a.closeKeys()
		return nil, err
	}
	a.put(k)
	a.requests, a.cancel = context.WithCancelCause(context.Background())
	a.listeners = newListeners(a)
	a.parts.telemetry.WatchConnections(a.listeners.connections)
	return a, nil
}

// put makes k what serves.
func (a *app) put(k *compiled) {
	old := a.parts.store
	a.parts.jwks, a.parts.proxy, a.parts.store = k.jwks, k.proxy, k.store
	a.current.Store(k)
	a.parts.telemetry.Watch(k.gate)
	a.parts.telemetry.WatchUpstreams(k.proxy)
	if old != nil && old != k.store {
		a.retire(old)
	}
}

func (a *app) warn(warnings []config.Problem) {
	for _, w := range warnings {
		a.log.Warn("configuration", "warning", w.String())
	}
}

// ServeHTTP passes a request through what serves now.
func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.handling.Add(1)
	defer a.handling.Add(-1)
	if a.requests.Err() != nil { // it would be cancelled before it began
		a.refuse(w, r, errTooLate)
		return
	}
	if !a.ready.Load() {
		// The connection ends with an answer, and not between two of them, when the
		// next request may be under way; HTTP/2 makes a GOAWAY of it.
		w.Header().Set("Connection", "close")
	}
	a.current.Load().ServeHTTP(w, r)
}

// run serves until ctx ends, then drains. A value of hup asks for a reload, one of
// again skips the wait of a drain.
func (a *app) run(ctx context.Context, hup, again <-chan os.Signal) error {
	if err := a.start(); err != nil {
		err = errors.Join(err, a.side.close())
		a.listeners.wait()
		a.closeStores()
		return err
	}
	changed := make(chan struct{}, 1)
	watching, stopWatching := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { a.watch(watching, changed) })
	defer watcher.Wait()
	defer stopWatching()
	for {
		select {
		case <-hup:
			a.tryReload("signal")
		case <-changed:
			a.tryReload("the file changed")
		case err := <-a.listeners.failed:
			return errors.Join(err, a.drain(again))
		case <-ctx.Done():
			return a.drain(again)
		}
	}
}

// start binds every address, the public ones last: who finds them open finds a
// gateway that can be asked how it is.
func (a *app) start() error {
	k := a.current.Load()
	var err error
	if a.side, err = a.openSide(&k.config.Admin); err != nil {
		return err
	}
	next, err := a.listeners.prepare(k.config)
	if err != nil {
		return err
	}
	a.fetchers.change(k.jwks)
	a.checker.change(k.proxy)
	a.parts.keys.run()
	a.ready.Store(true)
	next.commit()
	a.log.Info("serving", "version", versionOf().Version, "listen", a.listeners.addresses(), "admin", a.side.addresses(),
		"upstreams", len(k.config.Upstream.URLs))
	return nil
}
