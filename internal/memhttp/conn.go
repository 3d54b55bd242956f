package memhttp

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// BufferSize is how many bytes a connection holds in each direction before a
// writer waits.
const BufferSize = 64 << 10

// conn is one end of a connection in memory.
type conn struct {
	in, out       *half
	local, remote net.Addr
}

func pair(client, server net.Addr) (c, s *conn) {
	up, down := newHalf(), newHalf()
	return &conn{in: down, out: up, local: client, remote: server},
		&conn{in: up, out: down, local: server, remote: client}
}

// Read returns what the other end wrote; io.EOF after it closed in good order.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.wrap("read", err)
}

// Write waits while the buffer is full. It fails once the other end has closed.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.wrap("write", err)
}

// Close ends both directions: the other end reads what is buffered, then io.EOF,
// and writes in vain.
func (c *conn) Close() error {
	c.out.end(io.EOF, io.ErrClosedPipe)
	c.in.end(net.ErrClosed, syscall.EPIPE)
	return nil
}

// CloseWrite ends the outgoing direction only, as *net.TCPConn can.
func (c *conn) CloseWrite() error {
	c.out.end(io.EOF, net.ErrClosed)
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	c.in.reading.set(t)
	c.out.writing.set(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.reading.set(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.writing.set(t)
	return nil
}

func (c *conn) wrap(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // io.EOF travels bare, by the contract of io.Reader
		return err
	}
	return opError(op, c.remote, err)
}

// half is one direction: a bounded buffer with a deadline for either side.
//
// Waiting is done on a condition variable and not on a mutex: synctest holds only
// the former for a durable wait.
type half struct {
	mu      sync.Mutex
	changed *sync.Cond
	data    []byte
	readErr error // what a reader gets when data is empty; nil while open
	sendErr error // what a writer gets; nil while open

	reading, writing deadline
}

func newHalf() *half {
	h := &half{}
	h.changed = sync.NewCond(&h.mu)
	h.reading.half, h.writing.half = h, h
	return h
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.reading.passed:
			return 0, os.ErrDeadlineExceeded
		case h.readErr == net.ErrClosed: //nolint:errorlint // our own value: this end was closed
			return 0, h.readErr
		case len(p) == 0:
			return 0, nil
		case len(h.data) > 0:
			n := copy(p, h.data)
			h.data = append(h.data[:0], h.data[n:]...)
			h.changed.Broadcast()
			return n, nil
		case h.readErr != nil:
			return 0, h.readErr
		}
		h.changed.Wait()
	}
}

func (h *half) write(p []byte) (written int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.sendErr != nil:
			return written, h.sendErr
		case h.writing.passed:
			return written, os.ErrDeadlineExceeded
		case len(p) == 0:
			return written, nil
		}
		if room := min(BufferSize-len(h.data), len(p)); room > 0 {
			h.data = append(h.data, p[:room]...)
			p, written = p[room:], written+room
			h.changed.Broadcast()
			continue
		}
		h.changed.Wait()
	}
}

// end closes the direction; the first cause of each side stays, but for a local
// Close, which overrides what the other end had said to the reader.
func (h *half) end(readErr, sendErr error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readErr == nil || readErr == net.ErrClosed { //nolint:errorlint // our own value
		h.readErr = readErr
	}
	if h.sendErr == nil {
		h.sendErr = sendErr
	}
	if readErr == net.ErrClosed { //nolint:errorlint // our own value
		h.data = nil
	}
	h.reading.stop()
	h.writing.stop()
	h.changed.Broadcast()
}

// deadline wakes the waiters of one side of a half. half.mu guards it.
type deadline struct {
	half   *half
	timer  *time.Timer
	epoch  uint64 // counts calls of set, so that a timer that fires late does nothing
	passed bool
}

func (d *deadline) set(t time.Time) {
	h := d.half
	h.mu.Lock()
	defer h.mu.Unlock()
	d.stop()
	d.epoch++
	d.passed = false
	if t.IsZero() {
		return
	}
	wait := time.Until(t)
	if wait <= 0 {
		d.passed = true
		h.changed.Broadcast()
		return
	}
	if h.sendErr != nil && h.readErr != nil && len(h.data) == 0 {
		return // closed: nobody will wait
	}
	mine := d.epoch
	d.timer = time.AfterFunc(wait, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if d.epoch == mine {
			d.passed = true
			h.changed.Broadcast()
		}
	})
}

// stop ends the timer; the caller holds half.mu.
func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
