package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/internal/admin"
	"github.com/comporta/comporta/internal/config"
)

// side is what listens beside the public addresses: the operator's listener and
// the probes. It is the last to close, so that a drain can be watched. A nil side
// is closed.
type side struct{ open []*listening }

// The operator's requests are few and small; what is slower is stuck.
const (
	sideReadTimeout  = 10 * time.Second
	sideWriteTimeout = time.Minute // a reload, a large scrape
	sideIdleTimeout  = 2 * time.Minute
	sideCloseTimeout = time.Second // for the answers under way when all is over
)

// openSide starts the operator's listener, and the probes on their own address.
// On an error nothing is left open.
func (a *app) openSide(c *config.Admin) (*side, error) {
	var token string
	var err error
	if c.TokenFile != "" {
		if token, err = admin.ReadToken(c.TokenFile); err != nil {
			return nil, err
		}
	}
	handler := admin.Handler(admin.Config{
		Version: versionOf().Version, Gate: func() *gate.Gate { return a.current.Load().gate }, Ready: a.ready.Load,
		Reload: a.reload, Top: a.top, Known: a.known, Keys: a.keyStore, Upstreams: a.upstreams, Effective: func(w io.Writer) error { return a.current.Load().config.Render(w) },
		Metrics: promhttp.HandlerFor(a.reg, promhttp.HandlerOpts{}), Pprof: c.Pprof, Token: token, Log: a.log,
	})
	s := new(side)
	for _, l := range []struct {
		addr    string
		handler http.Handler
	}{{c.Listen, handler}, {c.Probes, admin.Probes(a.ready.Load)}} {
		if l.addr == "" {
			continue
		}
		if err := s.serve(a.listeners, l.addr, l.handler); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func (s *side) serve(ls *listeners, addr string, h http.Handler) error {
	tcp, err := listenTCP(addr)
	if err != nil {
		return err
	}
	l := &listening{tcp: tcp, server: &http.Server{
		Handler: h, ReadTimeout: sideReadTimeout, WriteTimeout: sideWriteTimeout, IdleTimeout: sideIdleTimeout,
		ErrorLog: slog.NewLogLogger(ls.app.log.Handler(), slog.LevelDebug),
	}}
	s.open = append(s.open, l)
	ls.accept(l)
	return nil
}

// addresses returns what is bound: the operator's listener, then the probes.
func (s *side) addresses() []string {
	var list []string
	for _, l := range s.open {
		list = append(list, l.tcp.Addr().String())
	}
	return list
}

func (s *side) close() error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), sideCloseTimeout)
	defer cancel()
	var errs []error
	for _, l := range s.open {
		if l.server.Shutdown(ctx) != nil {
			errs = append(errs, l.server.Close())
		}
	}
	return errors.Join(errs...)
}

// known reports whether the configuration in force names a client so.
func (a *app) known(name string) bool {
	_, ok := a.current.Load().config.Clients.Names[name]
	return ok
}

func (a *app) top(n int) []admin.Client {
	top := a.parts.telemetry.Top(n)
	list := make([]admin.Client, len(top))
	for i, c := range top {
		list[i] = admin.Client{Client: c.Client, Kind: c.Kind.String(), Recent: c.Recent, Total: c.Total, Error: c.Error}
	}
	return list
}
