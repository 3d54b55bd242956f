package h1

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/comporta/comporta/internal/socket"
)

// Patience is how long most exchanges may wait before they ask their Guard for the
// first time: also the longest that a caller's leaving may go unnoticed.
const Patience = 50 * time.Millisecond

// Guard decides how long a wait for the upstream may go on.
type Guard interface {
	// OverdueAt is asked, in the goroutine that waits, when the wait has lasted as
	// long as was foreseen. It returns the instant at which to ask again, the zero
	// time for never, or the error that ends the wait.
	OverdueAt(now time.Time) (until time.Time, err error)
}

// bufferSize holds the head of nearly every answer, and all of a small one.
const bufferSize = 4 << 10

// Conn is a connection in the hands of one exchange. Its methods may be called by
// one goroutine at a time, but for Interrupt, and for Stream, which may run beside
// those that read.
type Conn struct {
	pool *Pool
	raw  net.Conn
	live liveness
	turn turn

	// What was read and not yet used is buffer[r:w].
	buffer []byte
	r, w   int

	guard Guard
	armed time.Time // the deadline of raw; zero for none
	since time.Time // of an unused connection: when it was given back
	sent  int64     // bytes of this exchange that may have left
	late  error     // of a read by Ask, which the next read tells

	streaming bool        // Stream writes: the deadline of writes is none of ours
	cut       atomic.Bool // by Interrupt
	whole     bool        // the request was sent to its end
	keep      bool        // both sides let the connection go on
	reused    bool
	head      Head
	body      body
}

func newConn(p *Pool, raw net.Conn) *Conn {
	c := &Conn{pool: p, raw: raw, buffer: make([]byte, bufferSize)}
	if c.turn.socket = socket.Of(raw); c.turn.socket != nil {
		c.turn.step = c.take // made once: a closure for each request would be an allocation
		c.live.init(c.turn.socket)
	}
	return c
}

// Begin starts an exchange. Its waits are bounded by g, which is asked after patience
// for the first time, or earlier.
func (c *Conn) Begin(now time.Time, g Guard, patience time.Duration) {
	soon := c.armed.After(now) && !c.armed.After(now.Add(patience)) && !c.streaming
	c.guard, c.sent, c.late, c.streaming, c.whole, c.keep = g, 0, nil, false, false, false
	c.body = body{trailer: c.body.trailer[:0]}
	if !soon { // else early is as good: the guard says how long the wait may really last
		c.arm(now.Add(patience))
	}
}

func (c *Conn) arm(until time.Time) {
	c.armed = until
	if c.streaming {
		_ = c.raw.SetReadDeadline(until) // fails on a closed connection, which reading will tell
		return
	}
	_ = c.raw.SetDeadline(until) // as above
}

// overdue asks the guard after a deadline has passed.
func (c *Conn) overdue() error {
	until, err := c.guard.OverdueAt(time.Now())
	if err == nil {
		c.arm(until)
	}
	return err
}

// Reused reports whether the connection has carried an exchange before this one.
func (c *Conn) Reused() bool { return c.reused }

// Sent reports whether a byte of this exchange may have left.
func (c *Conn) Sent() bool { return c.sent > 0 }

// Send writes the whole request, or its head before Stream writes the rest.
func (c *Conn) Send(p []byte) error {
	for len(p) > 0 {
		n, err := c.raw.Write(p)
		c.sent += int64(n)
		p = p[n:]
		switch {
		case err == nil:
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		default:
			if err := c.overdue(); err != nil {
				return err
			}
		}
	}
	return nil
}

// BeginStream frees Stream from the deadlines of those who read: whoever calls it
// ends a write that takes too long by Interrupt.
func (c *Conn) BeginStream() {
	c.streaming = true
	_ = c.raw.SetWriteDeadline(time.Time{}) // fails on a closed connection, which writing will tell
}

// Stream writes a part of a body. It may run beside the methods that read.
func (c *Conn) Stream(p []byte) error {
	_, err := c.raw.Write(p)
	return err
}

// SentAll says that the request was sent to its end, without which the connection
// is not used again.
func (c *Conn) SentAll() { c.whole = true }

// Interrupt ends whatever waits on the connection, which is not used again. It may
// be called from any goroutine until Release.
func (c *Conn) Interrupt() {
	c.cut.Store(true)
	_ = c.raw.Close() // nobody is left to hear why it failed
}

// Release gives the connection back to its pool, if it can be used again, and
// closes it if not. The Conn must not be used any more.
func (c *Conn) Release() {
	if !c.cut.Load() && c.whole && c.keep && c.body.over() && c.r == c.w && c.body.err == nil {
		c.pool.put(c)
		return
	}
	c.close()
}

// Detach takes the connection out of its pool: after an answer that switches
// protocols. What the upstream said after the head comes with it.
func (c *Conn) Detach() (raw net.Conn, ahead []byte) {
	_ = c.raw.SetDeadline(time.Time{}) // fails on a closed connection, which using it will tell
	return c.raw, c.buffer[c.r:c.w]
}

func (c *Conn) close() {
	_ = c.raw.Close() // nothing more is wanted from it
}

// fill reads more into the buffer, which the caller has made room in.
func (c *Conn) fill() error {
	n, err := c.receive(c.buffer[c.w:])
	c.w += n
	return err
}

// receive reads from the network. n is 0 if and only if there is an error.
func (c *Conn) receive(p []byte) (n int, err error) {
	if c.late != nil {
		return 0, c.late
	}
	for empty := 0; empty < maxEmptyReads; {
		n, err := c.raw.Read(p)
		switch {
		case n > 0:
			return n, nil // an error shows again
		case err == nil:
			empty++
			continue
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return 0, err
		}
		if err := c.overdue(); err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}

// maxEmptyReads bounds the reads that return neither a byte nor a reason.
const maxEmptyReads = 100

// compact makes room at the end of the buffer.
func (c *Conn) compact() {
	switch {
	case c.r == c.w:
		c.r, c.w = 0, 0
	case c.w == len(c.buffer):
		c.w = copy(c.buffer, c.buffer[c.r:c.w])
		c.r = 0
	}
}

// readFault is an error of the system as Read of raw would tell it.
func readFault(raw net.Conn, err error) error {
	if err == io.EOF { //nolint:errorlint // it travels bare, by the contract of io.Reader
		return err
	}
	return socket.Fault(raw, "read", err)
}

// liveness asks the system whether an unused connection has died, or was spoken on.
type liveness struct {
	socket syscall.RawConn // nil where it cannot be asked: what has died is found when it is written to
	look   func(fd uintptr)
	dead   bool // what look found
}

func (l *liveness) init(s syscall.RawConn) {
	l.socket = s
	l.look = func(fd uintptr) { l.dead = !socket.Silent(fd) } // made once, as above
}

// alive reports whether nothing has come on an unused connection: neither its end
// nor a word that nobody asked for.
func (l *liveness) alive() bool {
	if l.socket == nil {
		return true
	}
	// Control and not Read: a deadline of the last exchange may have passed.
	return l.socket.Control(l.look) == nil && !l.dead
}
