package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/internal/admin"
	"github.com/comporta/comporta/internal/config"
	"github.com/comporta/comporta/telemetry"
)

// app is the running gateway: what serves now, and how it is exchanged.
type app struct {
	file    string
	load    func() (*config.Config, []config.Problem, error)
	log     *slog.Logger
	access  io.Writer
	reg     *prometheus.Registry
	tel     *telemetry.Telemetry
	state   *gate.State
	current atomic.Pointer[compiled]
	ready   atomic.Bool

	// Requests end with this context when a drain turns hard.
	requests context.Context
	cancel   context.CancelCauseFunc

	mu        sync.Mutex // one reload at a time; guards what follows
	listeners *listeners
	jwks      *background // the fetchers of the current configuration
}

// newApp reads the configuration and compiles it. The error is made for reading:
// all problems at once.
func newApp(file string, load func() (*config.Config, []config.Problem, error), log *slog.Logger, access io.Writer) (*app, error) {
	c, warnings, err := load()
	if err != nil {
		return nil, err
	}
	a := &app{file: file, load: load, log: log, access: access, reg: prometheus.NewRegistry(), jwks: new(background)}
	a.warn(warnings)
	if a.state, err = gate.NewState(); err != nil {
		return nil, err
	}
	tc := telemetry.Config{TopClients: c.Telemetry.TopClients, Sample: c.AccessLog.Sample}
	if c.AccessLog.Format == "json" {
		tc.AccessLog = slog.New(slog.NewJSONHandler(access, nil))
	}
	if a.tel, err = telemetry.New(tc, a.reg); err != nil {
		return nil, err
	}
	a.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	k, err := compile(c, a.state, a.tel, log)
	if err != nil {
		return nil, err
	}
	a.current.Store(k)
	a.tel.Watch(k.gate)
	a.requests, a.cancel = context.WithCancelCause(context.Background())
	a.listeners = newListeners(a)
	return a, nil
}

func (a *app) warn(warnings []config.Problem) {
	for _, w := range warnings {
		a.log.Warn("configuration", "warning", w.String())
	}
}

// ServeHTTP passes a request through what serves now.
func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k := a.current.Load()
	k.gate.Serve(w, r, k.proxy)
}

var (
	errDraining = errors.New("comporta: draining")
	errReplaced = errors.New("comporta: replaced by a reload")
)

// run serves until ctx ends, then drains. hup asks for a reload, again skips the
// wait of a drain.
func (a *app) run(ctx context.Context, hup, again <-chan os.Signal) error {
	k := a.current.Load()
	if err := a.listeners.change(k.config); err != nil {
		return err
	}
	stopAdmin, err := a.serveAdmin(&k.config.Admin)
	if err != nil {
		return errors.Join(err, a.listeners.closeAll())
	}
	a.jwks.start(k.jwks)
	a.ready.Store(true)
	a.log.Info("serving", "version", versionOf().Version, "listen", a.listeners.addresses(), "admin", k.config.Admin.Listen,
		"upstreams", len(k.config.Upstream.URLs))
	changed := make(chan struct{}, 1)
	watching, stopWatching := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { a.watch(watching, changed) })
	defer func() {
		stopWatching()
		watcher.Wait()
	}()
	for {
		select {
		case <-hup:
			a.tryReload("signal")
		case <-changed:
			a.tryReload("the file changed")
		case err := <-a.listeners.failed:
			return errors.Join(err, a.drain(again), stopAdmin())
		case <-ctx.Done():
			return errors.Join(a.drain(again), stopAdmin())
		}
	}
}

// serveAdmin starts the operator's listener, and the probes on their own address.
func (a *app) serveAdmin(c *config.Admin) (stop func() error, err error) {
	var token string
	if c.TokenFile != "" {
		if token, err = admin.ReadToken(c.TokenFile); err != nil {
			return nil, err
		}
	}
	handler := admin.Handler(admin.Config{
		Version: versionOf().Version, Gate: func() *gate.Gate { return a.current.Load().gate }, Ready: a.ready.Load,
		Reload: a.reload, Top: a.top, Effective: func(w io.Writer) error { return a.current.Load().config.Render(w) },
		Metrics: promhttp.HandlerFor(a.reg, promhttp.HandlerOpts{}), Token: token, Log: a.log,
	})
	var servers []*http.Server
	stop = func() error {
		var errs []error
		for _, s := range servers {
			errs = append(errs, s.Close())
		}
		return errors.Join(errs...)
	}
	for _, s := range []struct {
		addr    string
		handler http.Handler
	}{{c.Listen, handler}, {c.Probes, admin.Probes(a.ready.Load)}} {
		if s.addr == "" {
			continue
		}
		server, err := a.listeners.serveSide(s.addr, s.handler)
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		servers = append(servers, server)
	}
	return stop, nil
}

func (a *app) top(n int) []admin.Client {
	top := a.tel.Top(n)
	list := make([]admin.Client, len(top))
	for i, c := range top {
		list[i] = admin.Client{Client: c.Client, Kind: c.Kind.String(), Recent: c.Recent, Total: c.Total, Error: c.Error}
	}
	return list
}

// drain ends the service: say no to the probes, let the load balancer look, stop
// accepting, wait for what runs, cancel what does not end. A second signal skips
// the wait.
func (a *app) drain(again <-chan os.Signal) error {
	d := a.current.Load().config.Drain
	a.ready.Store(false)
	a.log.Info("draining", "delay", d.Delay.String(), "soft", d.Soft.String(), "hard", d.Hard.String())
	if d.Delay > 0 && !a.listeners.idle() {
		pause(d.Delay, again)
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.Soft)
	defer cancel()
	skipped := skipOn(again, cancel)
	err := a.listeners.shutdown(ctx)
	if err != nil { // what still runs is told to end
		a.cancel(errDraining)
		hard, cancelHard := context.WithTimeout(context.Background(), d.Hard)
		defer cancelHard()
		if skipped() {
			cancelHard()
		}
		if err = a.listeners.shutdown(hard); err != nil {
			err = fmt.Errorf("comporta: requests were cut off by the end of the drain: %w", err)
			_ = a.listeners.closeAll() // what is left is cut
		}
	}
	a.cancel(errDraining)
	a.jwks.stop()
	a.current.Load().proxy.Close()
	a.log.Info("stopped")
	return err
}

// pause waits for d or a signal.
func pause(d time.Duration, again <-chan os.Signal) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-again:
	}
}

// skipOn calls cancel at the next signal; the result says whether there was one,
// and ends the watch.
func skipOn(again <-chan os.Signal, cancel context.CancelFunc) (skipped func() bool) {
	done, came := make(chan struct{}), false
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-again:
			came = true
			cancel()
		case <-done:
		}
	})
	return sync.OnceValue(func() bool {
		close(done)
		wg.Wait()
		return came
	})
}
