package front

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Server serves connections. Make one with New. Its methods may be called from
// many goroutines. Each connection has a goroutine, which ends with it.
type Server struct {
	config   Config
	tls      *tls.Config
	head     headLimits
	date     dateLine
	http2    *http2
	pool     sync.Pool // of *exchange
	draining atomic.Bool
	turning  atomic.Int64 // connections that are being told to go
	unwatch  func() bool  // ends the watch over BaseContext

	mu        sync.Mutex
	changed   *sync.Cond // when a connection or a listener has gone
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	staying   int // of conns, those that are not away
	ended     bool
	wg        sync.WaitGroup
}

// New returns a Server. The error names every problem of the configuration.
func New(c Config) (*Server, error) {
	if err := c.problems(); err != nil {
		return nil, err
	}
	c.withDefaults()
	s := &Server{
		config: c, head: headLimits{c.Limits.Target, c.Limits.Header, c.Limits.Fields}, http2: newHTTP2(&c),
		listeners: map[net.Listener]struct{}{}, conns: map[*conn]struct{}{},
	}
	s.changed = sync.NewCond(&s.mu)
	if c.TLS != nil {
		s.tls = c.TLS.Clone()
		s.tls.NextProtos = protocols
	}
	if c.BaseContext.Done() != nil {
		s.unwatch = context.AfterFunc(c.BaseContext, s.cancelRequests)
	}
	return s, nil
}

// Serve accepts connections from l until Shutdown or Close, and returns
// http.ErrServerClosed then; it closes l. Connections that are open are not waited
// for.
func (s *Server) Serve(l net.Listener) error {
	if !s.listen(l) {
		return errors.Join(http.ErrServerClosed, l.Close())
	}
	defer s.unlisten(l)
	var pause time.Duration
	for {
		nc, err := l.Accept()
		if err == nil {
			pause = 0
			s.welcome(nc)
			continue
		}
		if s.draining.Load() {
			return http.ErrServerClosed
		}
		if ne, ok := errors.AsType[net.Error](err); !ok || !temporary(ne) {
			return err
		}
		// Out of descriptors, mostly: others may close some meanwhile.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.config.Log.Warn("front: accepting failed", "error", err, "again in", pause)
		if !s.sleep(pause) {
			return http.ErrServerClosed
		}
	}
}

func temporary(err net.Error) bool {
	t, ok := err.(interface{ Temporary() bool })
	return ok && t.Temporary()
}

// sleep waits. It reports false when the server ends meanwhile.
func (s *Server) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.http2.closed:
		return false
	}
}

func (s *Server) listen(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

func (s *Server) unlisten(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
	s.changed.Broadcast()
	_ = l.Close() // it may be closed already
}

// welcome serves a connection in a goroutine of its own.
func (s *Server) welcome(nc net.Conn) {
	addr := addrOf(nc.RemoteAddr())
	if proxied := s.config.ProxyProtocol; proxied != nil {
		if !proxied(addr) {
			s.config.Log.Debug("front: this peer may not speak the PROXY protocol", "peer", addr)
			_ = nc.Close() // as if nobody were here
			return
		}
		addr = netip.Addr{} // the client's is counted when it is known
	}
	p, ok := s.config.Connections.enter(addr)
	if !ok && (s.tls != nil || s.turning.Load() >= turnedAway) {
		_ = nc.Close() // it has sent nothing that is lost
		return
	}
	c := newConn(s, nc, nc.RemoteAddr().String(), p)
	c.unwelcome = !ok
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		c.place.leave()
		_ = nc.Close() // nobody is there any more
		return
	}
	s.conns[c] = struct{}{}
	s.staying++
	s.wg.Go(c.serve)
}

// leave says that c is no longer ours to close or to wait for.
func (s *Server) leave(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.away {
		c.away = true
		s.staying--
		s.changed.Broadcast()
	}
}

// forget ends c.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	away := c.away
	delete(s.conns, c)
	s.letGo()
	s.mu.Unlock()
	c.current.Store(nil)
	if away {
		return // its exchange may still be in somebody's hands
	}
	_ = c.link.conn.Close()
	c.place.leave()
	c.back()
	s.leave(c)
}

// acquire returns an exchange for c.
func (s *Server) acquire(c *conn) *exchange {
	x, ok := s.pool.Get().(*exchange)
	if !ok {
		x = newExchange(s.config.BaseContext)
	}
	x.c = c
	return x
}

func (s *Server) release(x *exchange) {
	x.clear()
	s.pool.Put(x)
}

// cancelRequests ends the contexts of all requests, after BaseContext.
func (s *Server) cancelRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if x := c.current.Load(); x != nil {
			x.ctx.cancel()
		}
	}
}

// stop accepts no more.
func (s *Server) stop() {
	s.draining.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		_ = l.Close() // Serve returns in any case
	}
}

// Shutdown accepts no more, lets requests end, each with Connection: close, and HTTP/2
// with GOAWAY, and returns when no connection is left, or with the error of ctx. Idle
// connections of HTTP/1 may send one more request for half a second; then they end, and
// are waited for until their clients have seen it, for a second at most. Connections
// that a handler has taken over are not waited for.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	now := time.Now()
	s.mu.Lock()
	for c := range s.conns {
		c.link.endIdle(now)
	}
	s.mu.Unlock()
	var streams error
	var both sync.WaitGroup
	both.Go(func() { streams = s.http2.shutdown(ctx) })
	err := s.wait(ctx)
	both.Wait()
	return errors.Join(err, streams)
}

// wait returns when no connection is left, or with the error of ctx.
func (s *Server) wait(ctx context.Context) error {
	wake := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	defer wake()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.staying > 0 || len(s.listeners) > 0 { // which may have accepted one more
		if err := ctx.Err(); err != nil {
			return err
		}
		s.changed.Wait()
	}
	s.ended = true
	s.letGo()
	return nil
}

// letGo ends the watch over BaseContext with the last handler. The caller holds mu.
func (s *Server) letGo() {
	if s.ended && len(s.conns) == 0 && s.unwatch != nil {
		s.unwatch()
	}
}

// Close accepts no more and cuts every connection, but for those that a handler
// has taken over. It does not wait for handlers: see Wait.
func (s *Server) Close() error {
	s.stop()
	s.mu.Lock()
	s.ended = true
	for c := range s.conns {
		if !c.away {
			_ = c.socket.Close() // to cut it is all there is to do
		}
	}
	s.letGo()
	s.mu.Unlock()
	return s.http2.cut()
}

// Wait returns when the goroutines of all connections of HTTP/1 have ended, those
// of taken over connections too. Call it after Shutdown or Close.
func (s *Server) Wait() { s.wg.Wait() }
