// Package memhttp is a network in memory, on which real net/http talks to real
// net/http in virtual time.
//
// # Basics
//
// A [Network] connects listeners and dialers by name. Inside a testing/synctest
// bubble all of its waits are durable, so the bubble's clock jumps over idle
// time: a test of a 30 s timeout takes microseconds, and everything between
// http.Client and http.Handler (parsers, pools, deadlines) is the real thing.
//
//	synctest.Test(t, func(t *testing.T) {
//		var network memhttp.Network
//		server := network.Serve("service", handler)
//		defer server.Close()
//		client := network.Client()
//		defer client.CloseIdleConnections()
//		…
//	})
//
// # Caveats
//
// Close what you opened before the bubble ends: a server, and the idle
// connections of each client. Connections are buffered to [BufferSize] a
// direction, so writers feel back-pressure as on a socket; there is no latency,
// no loss and no TLS.
package memhttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
)

// backlog is how many dialed connections may wait for Accept.
const backlog = 1024

// Network connects dialers to listeners. The zero value is an empty network.
// Its methods may be called from many goroutines.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	dialed    uint16 // the port of the newest dialer
}

// Listen opens a listener under a name ("service", or "service:80": a port is
// part of the name). It fails when the name is taken.
func (n *Network) Listen(name string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[name] != nil {
		return nil, opError("listen", address(name), syscall.EADDRINUSE)
	}
	l := &listener{
		network: n, name: name,
		conns: make(chan net.Conn, backlog), closed: make(chan struct{}),
	}
	if n.listeners == nil {
		n.listeners = make(map[string]*listener)
	}
	n.listeners[name] = l
	return l, nil
}

// DialContext connects to a listener, as net.Dialer.DialContext does. Port 80,
// which http.Transport adds to a name without one, may be left out of the
// listener's name. Where nobody listens the connection is refused.
func (n *Network) DialContext(ctx context.Context, _, name string) (net.Conn, error) {
	return n.dial(ctx, netip.AddrFrom4([4]byte{192, 0, 2, 1}), name)
}

func (n *Network) dial(ctx context.Context, from netip.Addr, name string) (net.Conn, error) {
	l, port := n.find(name)
	if l == nil {
		return nil, opError("dial", address(name), syscall.ECONNREFUSED)
	}
	client, server := pair(address(netip.AddrPortFrom(from, port).String()), address(name))
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, opError("dial", address(name), syscall.ECONNREFUSED)
	case <-ctx.Done():
		return nil, opError("dial", address(name), ctx.Err())
	}
}

func (n *Network) find(name string) (*listener, uint16) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dialed = n.dialed%32768 + 1
	port := n.dialed + 32767
	if l := n.listeners[name]; l != nil {
		return l, port
	}
	if host, p, err := net.SplitHostPort(name); err == nil && p == "80" {
		return n.listeners[host], port
	}
	return nil, port
}

// Transport returns a transport that dials on n, from the address from: what the
// server's handlers see as RemoteAddr. The zero address is a documentation
// address. Settings may be changed before the first use.
func (n *Network) Transport(from netip.Addr) *http.Transport {
	t := &http.Transport{DialContext: n.DialContext}
	if from.IsValid() {
		t.DialContext = func(ctx context.Context, _, name string) (net.Conn, error) {
			return n.dial(ctx, from, name)
		}
	}
	return t
}

// Client returns a client over Transport.
func (n *Network) Client() *http.Client {
	return &http.Client{Transport: n.Transport(netip.Addr{})}
}

// Server is an http.Server on a Network.
type Server struct {
	URL string // "http://" and the name

	http  *http.Server
	done  chan struct{}  // closed when Serve has returned
	conns sync.WaitGroup // connections that net/http still holds
}

// Serve starts a server under a name. It panics when the name is taken: only
// tests call it.
func (n *Network) Serve(name string, handler http.Handler) *Server {
	return n.ServeConfig(name, &http.Server{Handler: handler}) //nolint:gosec // no slow clients in memory
}

// ServeConfig is Serve with a server of the caller's making, for its timeouts
// and protocols.
func (n *Network) ServeConfig(name string, server *http.Server) *Server {
	l, err := n.Listen(name)
	if err != nil {
		panic(err) //nolint:forbidigo // a mistake in a test
	}
	s := &Server{URL: "http://" + name, http: server, done: make(chan struct{})}
	observe := server.ConnState
	server.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.conns.Add(1)
		case http.StateClosed, http.StateHijacked:
			s.conns.Done()
		case http.StateActive, http.StateIdle:
		}
		if observe != nil {
			observe(c, state)
		}
	}
	go func() {
		defer close(s.done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			panic(fmt.Sprintf("memhttp: %v", err)) //nolint:forbidigo // as above
		}
	}()
	return s
}

// Close closes the listener and every connection, as a crash does. Handlers see
// their context end; Close waits for them, but for those that took over their
// connection.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.done
	s.conns.Wait()
	return err
}

// Shutdown stops as http.Server.Shutdown does: it lets running requests end.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	<-s.done
	if err == nil {
		s.conns.Wait()
	}
	return err
}

type listener struct {
	network *Network
	name    string
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

// Accept returns the next connection.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed: // first: a closed listener hands out nothing more
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close frees the name and cuts the connections that nobody accepted.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		delete(l.network.listeners, l.name)
		l.network.mu.Unlock()
		close(l.closed)
		for {
			select {
			case c := <-l.conns:
				_ = c.Close() // nobody holds its other end's answer
			default:
				return
			}
		}
	})
	return nil
}

// Addr returns the listener's name as an address.
func (l *listener) Addr() net.Addr { return address(l.name) }

// address is a name on a Network.
type address string

// Network returns "mem".
func (a address) Network() string { return "mem" }

func (a address) String() string { return string(a) }

func opError(op string, addr net.Addr, err error) error {
	return &net.OpError{Op: op, Net: addr.Network(), Addr: addr, Err: err}
}
