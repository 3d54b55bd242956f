package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/front"
	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/internal/config"
)

// listeners are the public servers, by address. A reload binds new addresses
// before it closes old ones, and leaves the rest alone.
type listeners struct {
	app         *app
	connections *front.Connections // of all servers together
	failed      chan error         // an accept loop that ended by itself
	wg          sync.WaitGroup

	mu      sync.Mutex
	open    map[string]*listening
	retired map[*listening]bool // no longer accepting, not yet done
}

// listening is one server on one address.
type listening struct {
	server server
	tcp    net.Listener
	tls    atomic.Pointer[front.Certificates] // nil: plain text
}

// server is a front.Server, or the http.Server of the operator.
type server interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
	Close() error
}

func newListeners(a *app) *listeners {
	return &listeners{
		app: a, connections: front.NewConnections(front.ConnectionLimits{}), failed: make(chan error, 1),
		open: map[string]*listening{}, retired: map[*listening]bool{},
	}
}

// change is a set of servers that is ready to become the one in use.
type change struct {
	ls           *listeners
	fresh        map[string]*listening
	certificates map[*listening]*front.Certificates
	keep         map[string]bool
	limits       front.ConnectionLimits
	soft         time.Duration
}

// prepare binds what c has and the set in use has not, and reads all certificates.
// Nothing is accepted before commit; on an error nothing is left open.
func (ls *listeners) prepare(c *config.Config) (*change, error) {
	next := &change{ls, map[string]*listening{}, map[*listening]*front.Certificates{}, map[string]bool{}, ls.connectionLimits(c), c.Drain.Soft}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for i := range c.Listen {
		l := &c.Listen[i]
		next.keep[l.Addr] = true
		var certificates *front.Certificates
		if l.TLS != nil {
			var err error
			if certificates, err = front.LoadCertificates(filesOf(l.TLS), ls.app.renewed(l.Addr)); err != nil {
				return nil, errors.Join(fmt.Errorf("comporta: listen %s: %w", l.Addr, err), next.abort())
			}
		}
		n := ls.open[l.Addr]
		if n == nil {
			var err error
			if n, err = ls.bind(l, &c.Limits); err != nil {
				return nil, errors.Join(err, next.abort())
			}
			next.fresh[l.Addr] = n
		}
		next.certificates[n] = certificates
	}
	return next, nil
}

// ownDescriptors is what a gateway needs beside its connections: files, the operator's
// listener, and what a reload opens before it closes.
const ownDescriptors = 128

// connectionLimits bound the callers' connections by network and in all, as configured.
// But descriptors are left for the service: a gateway that accepts callers until it
// can ask nobody for them helps none.
func (ls *listeners) connectionLimits(c *config.Config) front.ConnectionLimits {
	limits := front.ConnectionLimits{Total: c.Limits.Connections, Network: c.Limits.ConnectionsPerNetwork, Exempt: ls.app.trusts}
	n := descriptors()
	if n == 0 {
		return limits
	}
	most := max(n-ownDescriptors-c.Upstream.MaxConnections*len(c.Upstream.URLs), n/2)
	if limits.Total > most {
		ls.app.log.Warn("limits.connections is more than the system has descriptors for: raise its limit (ulimit -n, LimitNOFILE)",
			"configured", limits.Total, "in force", most, "descriptors", n)
	}
	if limits.Total == 0 || limits.Total > most {
		limits.Total = most
	}
	return limits
}

// abort closes what was bound.
func (c *change) abort() error {
	var errs []error
	for _, n := range c.fresh {
		errs = append(errs, n.tcp.Close())
	}
	return errors.Join(errs...)
}

// commit puts the set in use. Servers that are gone finish what they have.
func (c *change) commit() {
	ls := c.ls
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.connections.SetLimits(c.limits)
	for n, certificates := range c.certificates {
		n.tls.Store(certificates)
	}
	for addr, n := range c.fresh {
		ls.open[addr] = n
		ls.accept(n)
	}
	for addr, old := range ls.open {
		if !c.keep[addr] {
			delete(ls.open, addr)
			ls.retire(old, c.soft)
		}
	}
}

func listenTCP(addr string) (net.Listener, error) {
	tcp, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("comporta: cannot listen on %s: %w", addr, err)
	}
	return tcp, nil
}

func (ls *listeners) bind(l *config.Listener, limits *config.Limits) (*listening, error) {
	tcp, err := listenTCP(l.Addr)
	if err != nil {
		return nil, err
	}
	n := &listening{tcp: tcp}
	c := front.Config{
		Handler: ls.app, Refuse: ls.app.refuse, H2C: l.H2C && l.TLS == nil, Limits: limitsOf(limits),
		Connections: ls.connections, BaseContext: ls.app.requests, Log: ls.app.log,
	}
	if l.ProxyProtocol {
		c.ProxyProtocol = ls.app.trusts
	}
	if l.TLS != nil {
		// The certificate of each handshake is the one that was read last.
		c.TLS = &tls.Config{
			MinVersion:         tls.VersionTLS12,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return n.tls.Load().ConfigAt(time.Now()), nil },
		}
	}
	if n.server, err = front.New(c); err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	return n, nil
}

// unlimited stands for 0, which the front would fill with a default of its own.
const unlimited = 1 << 30

// writeStall is how long a client may take nothing of an answer.
const writeStall = 30 * time.Second

// limitsOf are those of the front. The silence within a body is the gate's to bound,
// which a reload may change.
func limitsOf(l *config.Limits) front.Limits {
	limits := front.Limits{
		Header: int(l.Header), Target: int(l.URI),
		HeaderTimeout: l.HeaderTimeout, Idle: l.Idle, BodyRate: int64(l.BodyMinRate), WriteStall: writeStall,
	}
	if limits.Header == 0 {
		limits.Header = unlimited
	}
	if limits.Target == 0 {
		limits.Target = unlimited
	}
	return limits
}

// trusts reports whether a peer is a trusted proxy to the gate that serves.
func (a *app) trusts(peer netip.Addr) bool { return a.current.Load().gate.Identifier().Trusted(peer) }

// renewed tells the operator that the certificate of a listener was read again.
func (a *app) renewed(addr string) func(error) {
	return func(err error) {
		if err != nil {
			a.log.Error("the certificate's files have changed and cannot be used, the old one goes on", "listen", addr, "error", err.Error())
			return
		}
		a.log.Info("the certificate was renewed", "listen", addr)
	}
}

// refuse answers what the front can give to nobody, in the words of the gate that
// serves.
func (a *app) refuse(w http.ResponseWriter, r *http.Request, f *front.Fault) {
	a.current.Load().gate.Refuse(w, r, &overload.Refusal{Reason: f.Reason, Status: f.Status, Detail: f.Detail})
}

func (ls *listeners) accept(l *listening) {
	ls.wg.Go(func() {
		if err := l.server.Serve(l.tcp); err != nil && !errors.Is(err, http.ErrServerClosed) {
			select {
			case ls.failed <- fmt.Errorf("comporta: %s accepts no more: %w", l.tcp.Addr(), err):
			default: // the first is told
			}
		}
	})
}

// retire lets an old server finish what it has, behind the back of the reload.
func (ls *listeners) retire(old *listening, soft time.Duration) {
	ls.retired[old] = true
	ls.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ls.app.requests, soft)
		defer cancel()
		if old.server.Shutdown(ctx) != nil {
			_ = old.server.Close() // its time is over
		}
		ls.mu.Lock()
		defer ls.mu.Unlock()
		delete(ls.retired, old)
	})
}

// addresses returns what the servers that accept are bound to.
func (ls *listeners) addresses() []string {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var list []string
	for _, l := range ls.open {
		list = append(list, l.tcp.Addr().String())
	}
	slices.Sort(list)
	return list
}

// all returns the servers that have something to do, retired ones too.
func (ls *listeners) all() []*listening {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	list := make([]*listening, 0, len(ls.open)+len(ls.retired))
	for _, l := range ls.open {
		list = append(list, l)
	}
	for l := range ls.retired {
		list = append(list, l)
	}
	return list
}

// shutdown stops accepting, and returns nil when the last request has ended
// before ctx did.
func (ls *listeners) shutdown(ctx context.Context) error {
	all := ls.all()
	errs := make([]error, len(all), len(all)+1)
	var wg sync.WaitGroup
	for i, l := range all {
		wg.Go(func() { errs[i] = l.server.Shutdown(ctx) })
	}
	wg.Wait()
	return errors.Join(append(errs, ls.handled(ctx))...)
}

// handled waits for the handlers that http.Server does not: those of upgraded
// connections.
func (ls *listeners) handled(ctx context.Context) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for ls.app.handling.Load() > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}

// close cuts every connection.
func (ls *listeners) close() error {
	var errs []error
	for _, l := range ls.all() {
		errs = append(errs, l.server.Close())
	}
	return errors.Join(errs...)
}

// wait returns when nothing accepts any more and all that retired is done.
func (ls *listeners) wait() { ls.wg.Wait() }
