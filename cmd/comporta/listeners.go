package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/comporta/comporta/internal/config"
)

// listeners are the public servers, by address. A reload binds new addresses
// before it closes old ones, and leaves the rest alone.
type listeners struct {
	app    *app
	failed chan error // an accept loop that ended by itself

	mu   sync.Mutex
	open map[string]*listening
	wg   sync.WaitGroup
}

type listening struct {
	config config.Listener
	server *http.Server
	tcp    net.Listener
}

func newListeners(a *app) *listeners {
	return &listeners{app: a, failed: make(chan error, 1), open: map[string]*listening{}}
}

// change makes the set of servers that of c: all or nothing.
func (ls *listeners) change(c *config.Config) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if len(c.Listen) == 0 {
		return errNoListener
	}
	fresh := map[string]*listening{}
	for _, l := range c.Listen {
		if _, ok := ls.open[l.Addr]; ok {
			continue
		}
		n, err := ls.bind(l, &c.Limits)
		if err != nil {
			for _, f := range fresh {
				err = errors.Join(err, f.tcp.Close())
			}
			return err
		}
		fresh[l.Addr] = n
	}
	keep := map[string]bool{}
	for _, l := range c.Listen {
		keep[l.Addr] = true
	}
	for addr, old := range ls.open {
		if !keep[addr] {
			delete(ls.open, addr)
			ls.retire(old, c.Drain.Soft)
		}
	}
	for addr, n := range fresh {
		ls.open[addr] = n
		ls.accept(n.server, n.tcp)
	}
	return nil
}

func (ls *listeners) bind(l config.Listener, limits *config.Limits) (*listening, error) {
	server := ls.server(ls.app, limits)
	tcp, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", l.Addr)
	if err != nil {
		return nil, fmt.Errorf("comporta: cannot listen on %s: %w", l.Addr, err)
	}
	n := &listening{l, server, tcp}
	server.Protocols.SetUnencryptedHTTP2(l.H2C && l.TLS == nil)
	if l.TLS == nil {
		return n, nil
	}
	t, err := tlsOf(l.TLS)
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	t.NextProtos = []string{"h2", "http/1.1"}
	server.TLSConfig = t
	n.tcp = tls.NewListener(tcp, t)
	return n, nil
}

// unlimited stands for 0, which net/http would fill with a default of its own.
const unlimited = 1 << 30

func (ls *listeners) server(h http.Handler, limits *config.Limits) *http.Server {
	header := int(limits.Header)
	if header == 0 {
		header = unlimited
	}
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: limits.HeaderTimeout, IdleTimeout: limits.Idle, MaxHeaderBytes: header,
		Protocols: new(http.Protocols), BaseContext: func(net.Listener) context.Context { return ls.app.requests },
		ErrorLog: slog.NewLogLogger(ls.app.log.Handler(), slog.LevelDebug),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	return s
}

// serveSide starts a server beside the public ones: admin and probes.
func (ls *listeners) serveSide(addr string, h http.Handler) (*http.Server, error) {
	tcp, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("comporta: cannot listen on %s: %w", addr, err)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, ErrorLog: log.New(discard{}, "", 0)}
	ls.accept(s, tcp)
	return s, nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func (ls *listeners) accept(s *http.Server, l net.Listener) {
	ls.wg.Go(func() {
		if err := s.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			select {
			case ls.failed <- err:
			default:
			}
		}
	})
}

// retire lets an old server finish what it has, behind the back of the reload.
func (ls *listeners) retire(old *listening, soft time.Duration) {
	ls.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ls.app.requests, soft)
		defer cancel()
		if old.server.Shutdown(ctx) != nil {
			_ = old.server.Close() // its time is over
		}
	})
}

func (ls *listeners) addresses() []string {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var list []string
	for _, l := range ls.open {
		list = append(list, l.tcp.Addr().String())
	}
	return list
}

func (ls *listeners) shutdown(ctx context.Context) error {
	ls.mu.Lock()
	open := slices.Collect(maps.Values(ls.open))
	ls.mu.Unlock()
	errs := make([]error, len(open))
	var wg sync.WaitGroup
	for i, l := range open {
		wg.Go(func() { errs[i] = l.server.Shutdown(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (ls *listeners) closeAll() error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var errs []error
	for _, l := range ls.open {
		errs = append(errs, l.server.Close())
	}
	return errors.Join(errs...)
}

// idle reports whether nobody is being served: then there is nothing to wait for.
func (ls *listeners) idle() bool {
	s := ls.app.current.Load().gate.StatsAt(time.Now())
	return s.Inflight == 0 && s.Streams == 0 && s.Traffic.Requests == 0
}

// needsRestart names the changed keys that a running server cannot take over.
func needsRestart(old, c *config.Config) []string {
	var keys []string
	limits := func(l config.Limits) config.Limits { // what http.Server holds
		return config.Limits{Header: l.Header, HeaderTimeout: l.HeaderTimeout, Idle: l.Idle}
	}
	if limits(old.Limits) != limits(c.Limits) {
		keys = append(keys, "limits.header, limits.header_timeout, limits.idle")
	}
	if old.Admin != c.Admin {
		keys = append(keys, "admin")
	}
	if old.AccessLog != c.AccessLog {
		keys = append(keys, "access_log")
	}
	if old.Telemetry != c.Telemetry {
		keys = append(keys, "telemetry")
	}
	was := map[string]config.Listener{}
	for _, l := range old.Listen {
		was[l.Addr] = l
	}
	for _, l := range c.Listen {
		if o, ok := was[l.Addr]; ok && !reflect.DeepEqual(o, l) {
			keys = append(keys, "listen "+l.Addr)
		}
	}
	return keys
}
