package front

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// conn is one connection of a client.
type conn struct {
	s      *Server
	socket net.Conn // what was accepted
	link   *link    // over it, or over TLS on it; changes under s.mu
	remote string
	peer   net.Addr             // of remote, where that is not the socket's
	tls    *tls.ConnectionState // nil: plain text
	place  place

	x       *exchange // nil while the connection is idle
	fresh   bool      // no request has come yet
	gone    error     // how the client's side ended
	current atomic.Pointer[exchange]
	away    bool // taken over, or handed on: s.mu guards it

	unwelcome bool // there are too many from its network
}

// newConn makes a conn over nc, which has a place. remote is the client's address.
func newConn(s *Server, nc net.Conn, remote string, p place) *conn {
	c := &conn{s: s, socket: nc, remote: remote, place: p, fresh: true}
	c.connect(nc)
	return c
}

func (c *conn) connect(nc net.Conn) {
	c.link = newLink(nc, c.s.config.Limits.WriteStall, &c.s.draining)
	c.link.lend, c.link.back = c.lend, c.back
}

// lend gives the link a buffer to read into.
func (c *conn) lend() []byte {
	if c.x == nil {
		c.x = c.s.acquire(c)
	}
	c.x.in.compact()
	return c.x.in.free()
}

// back takes the buffer and all that goes with it while there is nothing to read.
func (c *conn) back() {
	if c.x != nil {
		c.current.Store(nil)
		c.s.release(c.x)
		c.x = nil
	}
}

// serve answers the requests of the connection.
func (c *conn) serve() {
	defer c.s.forget(c)
	switch {
	case c.unwelcome:
		c.turnAway()
		return
	case c.s.config.ProxyProtocol != nil && !c.introduce():
		return
	case c.s.tls != nil && !c.handshake():
		return
	}
	for c.next() {
		c.fresh = false
	}
}

// next waits for a request and answers it. It reports whether another may follow.
func (c *conn) next() bool {
	if c.x == nil || c.x.in.len() == 0 {
		if !c.await() {
			return false
		}
	}
	c.link.wait(c.s.config.Limits.HeaderTimeout)
	if c.fresh && c.s.config.H2C && c.tls == nil {
		http2, err := c.preface()
		if err != nil {
			return false
		}
		if http2 {
			c.handOn(c.wrap(bytes.Clone(c.x.in.bytes())))
			return false
		}
	}
	text, f, err := c.x.readHead()
	if err != nil {
		return false
	}
	if f != nil {
		c.x.refuseUnread(f)
		return false
	}
	return c.x.serve(text)
}

// await waits for the first octets of a request. When they do not come in time, it
// ends the connection.
func (c *conn) await() bool {
	limits := &c.s.config.Limits
	if c.fresh {
		c.link.wait(limits.HeaderTimeout)
	} else {
		c.link.wait(limits.Idle)
	}
	n, err := c.link.read(nil)
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.linger()
		}
		return false
	}
	c.x.in.to += n
	return true
}

// preface reports whether the connection speaks HTTP/2. The time that it waits is
// the head's.
func (c *conn) preface() (bool, error) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	in := &c.x.in
	for {
		got := in.bytes()
		n := min(len(got), len(preface))
		if string(got[:n]) != preface[:n] {
			return false, nil
		}
		if n == len(preface) {
			return true, nil
		}
		in.compact()
		n, err := c.link.read(in.free())
		if err != nil {
			return false, err
		}
		in.to += n
	}
}

// handshakeTime bounds a handshake where Limits.HeaderTimeout does not.
const handshakeTime = 10 * time.Second

// handshake speaks TLS from here on. It reports whether requests of HTTP/1 follow.
func (c *conn) handshake() bool {
	limit := c.s.config.Limits.HeaderTimeout
	if limit == 0 {
		limit = handshakeTime
	}
	ctx, cancel := context.WithTimeout(c.s.config.BaseContext, limit)
	defer cancel()
	var ahead []byte // what came with the PROXY header
	if c.x != nil {
		ahead = bytes.Clone(c.x.in.bytes())
		c.back()
	}
	secure := tls.Server(c.wrap(ahead), c.s.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		c.s.config.Log.Debug("front: the TLS handshake failed", "remote", c.remote, "error", err)
		if record, ok := errors.AsType[tls.RecordHeaderError](err); ok && record.Conn != nil && likeHTTP(record.RecordHeader) {
			c.x = c.s.acquire(c)
			c.x.refuseUnread(errPlain)
		}
		return false
	}
	state := secure.ConnectionState()
	c.tls = &state
	if state.NegotiatedProtocol == "h2" {
		c.handOn(secure)
		return false
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.connect(secure)
	return true
}

// likeHTTP reports whether what should be a TLS record is the beginning of a request.
func likeHTTP(b [5]byte) bool {
	switch string(b[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH":
		return true
	}
	return false
}

// handOn gives the connection to the server of HTTP/2, unless that has ended.
func (c *conn) handOn(nc net.Conn) {
	c.place.become(ProtocolHTTP2) // before somebody else may close it
	if c.s.http2.push(nc) {
		c.s.leave(c)
		return
	}
	goAway(nc)
}

// takeOver gives the connection to the handler, with what was read ahead.
func (c *conn) takeOver(ahead []byte) (net.Conn, *bufio.ReadWriter, error) {
	nc := c.link.conn
	if err := nc.SetDeadline(time.Time{}); err != nil {
		return nil, nil, err
	}
	c.s.leave(c)
	c.place.become(ProtocolUpgraded)
	taken := c.wrap(bytes.Clone(ahead))
	taken.Conn = nc
	r := bufio.NewReaderSize(taken, max(bufferSize, len(ahead)))
	if len(ahead) > 0 {
		if _, err := r.Peek(len(ahead)); err != nil {
			return nil, nil, err
		}
	}
	return taken, bufio.NewReadWriter(r, bufio.NewWriter(nc)), nil
}

// abort breaks the connection. Where only its end would tell the end of an answer,
// it is reset: a cut answer must not look complete.
func (c *conn) abort(reset bool) {
	if tcp, ok := c.link.conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0) // it is closed in any case
	}
	_ = c.link.conn.Close()
}

// Bounds of a connection's last moments, in which its client may still be sending:
// closing at once would reset the connection, and take the last answer away with it.
const (
	lingerTime = time.Second
	lingerSize = 1 << 20
)

// linger says that nothing more will be said, and lets the client read what was. What
// it still sends is not looked at.
func (c *conn) linger() {
	if c.gone != nil || c.link.closeWrite() != nil {
		return
	}
	l := c.link
	l.over()
	l.ends, l.within = time.Now().Add(lingerTime), 0
	scrap := l.first[:] // an idle connection has no other memory, and mostly needs none
	for total := 0; total < lingerSize; {
		if c.x == nil && total > 0 {
			c.x = c.s.acquire(c)
		}
		if c.x != nil {
			c.x.in.from, c.x.in.to = 0, 0
			scrap = c.x.in.free()
		}
		n, err := l.read(scrap)
		if err != nil {
			return
		}
		total += n
	}
}

// wrap returns the connection for somebody else to read from and to close.
func (c *conn) wrap(ahead []byte) *aheadConn {
	return &aheadConn{Conn: c.socket, ahead: ahead, peer: c.peer, closed: c.place.leave}
}

// aheadConn is a connection of which something was read ahead.
type aheadConn struct {
	net.Conn

	ahead  []byte
	peer   net.Addr // that of the client behind a proxy; nil: the socket's
	closed func()
	once   sync.Once
}

// RemoteAddr implements net.Conn.
func (a *aheadConn) RemoteAddr() net.Addr {
	if a.peer != nil {
		return a.peer
	}
	return a.Conn.RemoteAddr()
}

// Read implements net.Conn.
func (a *aheadConn) Read(p []byte) (int, error) {
	if len(a.ahead) > 0 {
		n := copy(p, a.ahead)
		a.ahead = a.ahead[n:]
		return n, nil
	}
	return a.Conn.Read(p)
}

// Close implements net.Conn.
func (a *aheadConn) Close() error {
	a.once.Do(a.closed)
	return a.Conn.Close()
}

// CloseWrite ends the outgoing direction, where the connection can do so.
func (a *aheadConn) CloseWrite() error {
	if half, ok := a.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return a.Close()
}

// turnedAway bounds the connections that are told that there are too many, at once:
// the others are closed without a word.
const turnedAway = 64

// turnAway tells a client that it has too many connections, when that costs little.
func (c *conn) turnAway() {
	defer c.s.turning.Add(-1)
	if c.s.turning.Add(1) > turnedAway || c.s.tls != nil { // a handshake is too dear
		return
	}
	c.link.wait(time.Second)
	if c.x == nil || c.x.in.len() == 0 {
		n, err := c.link.read(nil)
		if err != nil {
			return
		}
		c.x.in.to += n
	}
	c.x.refuseUnread(errCrowd)
}

// addrOf returns the address of a peer; the zero Addr where there is none.
func addrOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	if ap, err := netip.ParseAddrPort(a.String()); err == nil {
		return ap.Addr().Unmap()
	}
	return netip.Addr{}
}
