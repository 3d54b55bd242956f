package front

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/comporta/comporta/internal/socket"
)

// errInterrupted is what a reader gets who is wanted elsewhere.
var errInterrupted = errors.New("front: the read was interrupted")

// link is a connection whose deadlines cost nothing while they are not needed. The
// system's own deadline is armed only when a read has to wait, and is left where it
// is as long as it is not too late: a read that it ends too early goes on. One
// goroutine at a time reads, another may write.
type link struct {
	conn  net.Conn
	epoch time.Time       // of the link
	raw   syscall.RawConn // nil: not a socket
	step  func(uintptr) bool
	stall time.Duration // how long a write may take; 0 for ever

	// Of the reader.
	p      []byte
	n      int
	err    error
	first  [1]byte
	lend   func() []byte // a buffer for a read without one, as soon as there is something to read
	back   func()        // it is not needed yet
	ends   time.Time     // when reading ends, for the front's own reasons; zero never
	within time.Duration // reading ends so long after it first has to wait; 0: see ends
	drain  *atomic.Bool  // idle connections are to end
	deaf   bool          // what the handler says about reading does not count

	mu          sync.Mutex
	handlers    time.Time // when reading ends, for the handler's reasons
	armed       time.Time // the connection's own deadline
	waiting     bool
	idling      bool // for the next request
	interrupted bool

	writeMu       sync.Mutex // guards the writing side; held while writing
	writeArmed    time.Time
	writeHandlers time.Time
	vector        net.Buffers
	store         [3][]byte
	give          func(uintptr) bool
	out           []byte // what give has yet to write
	failed        error  // of give
}

func newLink(conn net.Conn, stall time.Duration, drain *atomic.Bool) *link {
	l := &link{conn: conn, epoch: time.Now(), stall: stall, drain: drain}
	if l.raw = socket.Of(conn); l.raw != nil {
		l.step, l.give = l.try, l.tryWrite
	}
	return l
}

// now reads the clock, without the date: that would cost as much again.
func (l *link) now() time.Time { return l.epoch.Add(time.Since(l.epoch)) }

// read reads at least an octet, or tells why not: os.ErrDeadlineExceeded when the
// time is over, errInterrupted, io.EOF. Without p it asks lend for a buffer when
// there is something to read.
func (l *link) read(p []byte) (int, error) {
	if l.raw == nil {
		return l.readPlain(p)
	}
	for {
		l.p, l.n, l.err = p, 0, nil
		err := l.raw.Read(l.step)
		l.stopWaiting(l.n)
		if err == nil {
			return l.n, l.err
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, err
		}
		// The deadline was that of an earlier read, unless its time is over.
		if over := l.arm(); over != nil {
			return 0, over
		}
	}
}

// try reads from the socket, which tells whether a read would wait, before it does:
// only then deadlines are armed, and buffers given back. False means that it must be
// waited for.
func (l *link) try(fd uintptr) (done bool) {
	p := l.p
	if p == nil {
		p = l.lend()
	}
	l.n, l.err = socket.Receive(fd, p)
	switch {
	case l.err == nil, l.err == io.EOF: //nolint:errorlint // it travels bare, by the contract of io.Reader
		return true
	case l.err != syscall.EAGAIN: //nolint:errorlint // a bare value of the system
		l.err = socket.Fault(l.conn, "read", l.err)
		return true
	}
	if l.err = l.arm(); l.err != nil {
		return true
	}
	if l.p == nil {
		l.back()
	}
	return false
}

// readPlain is read for what is not a socket. Without a buffer it waits for the
// first octet with one of its own.
func (l *link) readPlain(p []byte) (int, error) {
	l.p = p
	into := p
	if p == nil {
		l.back()
		into = l.first[:]
	}
	for {
		if err := l.arm(); err != nil {
			return 0, err
		}
		n, err := l.conn.Read(into)
		l.stopWaiting(n)
		switch {
		case n > 0:
			if p == nil {
				copy(l.lend(), into)
			}
			return n, nil // an error comes again
		case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		default:
			return 0, err
		}
	}
}

// until returns when the read under way must end.
func (l *link) until() time.Time {
	if l.deaf || l.handlers.IsZero() || !l.ends.IsZero() && l.ends.Before(l.handlers) {
		return l.ends
	}
	return l.handlers
}

// arm prepares for waiting.
func (l *link) arm() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.interrupted {
		return errInterrupted
	}
	now := l.now()
	if l.within > 0 {
		l.ends, l.within = now.Add(l.within), 0
	}
	if l.idling = l.p == nil; l.idling && l.drain.Load() && l.handlers.IsZero() {
		l.handlers = now.Add(lastCall)
	}
	until := l.until()
	if !until.IsZero() && !until.After(now) {
		return os.ErrDeadlineExceeded
	}
	late := !until.IsZero() && (l.armed.IsZero() || l.armed.After(until))
	over := !l.armed.IsZero() && !l.armed.After(now)
	if late || over {
		if err := l.conn.SetReadDeadline(until); err != nil {
			return err
		}
		l.armed = until
	}
	l.waiting = true
	return nil
}

// stopWaiting ends what arm began; n octets have come.
func (l *link) stopWaiting(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = false
	if l.idling && n > 0 {
		l.handlers = time.Time{} // that was for the wait
	}
	l.idling = false
}

// wait gives the reads that follow a time in all, which begins when one of them
// first has to wait; 0 is for ever.
func (l *link) wait(d time.Duration) {
	l.ends, l.within = time.Time{}, d
}

// lastCall is how long an idle connection may still send a request after Shutdown has
// begun. Its client may be sending one already, and is told by the answer that there
// will be no other; so are nearly all who ask more than a few times a second.
const lastCall = 500 * time.Millisecond

// endIdle bounds the wait for a next request.
func (l *link) endIdle(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.waiting || !l.idling { // arm looks at drain before it waits again
		return
	}
	if l.handlers.IsZero() { // the first Shutdown counts
		l.handlers = now.Add(lastCall)
	}
	l.wake(l.handlers)
}

// past is over on every clock.
var past = time.Unix(1, 0)

// interrupt ends the read under way, and every one until resume.
func (l *link) interrupt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.interrupted = true
	l.wake(past)
}

func (l *link) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.interrupted = false
}

// wake lets a reader that waits look at t. The caller holds mu.
func (l *link) wake(t time.Time) {
	if l.waiting && (l.armed.IsZero() || l.armed.After(t)) && l.conn.SetReadDeadline(t) == nil {
		l.armed = t
	}
}

// setReadDeadline is the handler's.
func (l *link) setReadDeadline(t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handlers = t
	if !t.IsZero() && !l.deaf {
		l.wake(t)
	}
}

// expired reports whether the handler has ended reading long before now.
func (l *link) expired(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.handlers.IsZero() && l.handlers.Before(now)
}

// setWriteDeadline is the handler's.
func (l *link) setWriteDeadline(t time.Time) error {
	// Not under writeMu: it may be there to end a write.
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeHandlers = t
	l.writeArmed = t
	return l.conn.SetWriteDeadline(t)
}

// piece is how much is written under one deadline, in bytes: a receiver that takes
// less in Limits.WriteStall has stopped.
const piece = 64 << 10

// write writes up to three slices, in one call of the system where it can. The
// caller holds writeMu.
func (l *link) write(parts ...[]byte) error {
	for len(parts) > 0 {
		l.vector = append(l.store[:0], parts[:0]...)
		room := piece
		for len(parts) > 0 && room > 0 {
			p := parts[0]
			if len(p) > room {
				p = p[:room]
			}
			if len(p) > 0 {
				l.vector = append(l.vector, p)
			}
			room -= len(p)
			if parts[0] = parts[0][len(p):]; len(parts[0]) == 0 {
				parts = parts[1:]
			}
		}
		if err := l.writeVector(); err != nil {
			return err
		}
	}
	return nil
}

func (l *link) writeVector() error {
	if l.stall > 0 {
		if err := l.armWrite(l.now()); err != nil {
			return err
		}
	}
	var err error
	switch len(l.vector) {
	case 0:
	case 1:
		err = l.writeOne(l.vector[0])
	default:
		_, err = l.vector.WriteTo(l.conn)
	}
	l.store = [3][]byte{} // what was written may be garbage now
	return err
}

// writeOne writes p whole. The caller holds writeMu.
func (l *link) writeOne(p []byte) error {
	if l.raw == nil {
		_, err := l.conn.Write(p)
		return err
	}
	l.out, l.failed = p, nil
	err := l.raw.Write(l.give)
	l.out = nil
	if err == nil {
		err = l.failed
	}
	return err
}

// tryWrite writes to the socket; false means that it must be waited for.
func (l *link) tryWrite(fd uintptr) (done bool) {
	for len(l.out) > 0 {
		n, err := socket.Send(fd, l.out)
		if err == syscall.EAGAIN { //nolint:errorlint // a bare value of the system
			return false
		}
		if err != nil {
			l.failed = socket.Fault(l.conn, "write", err)
			return true
		}
		l.out = l.out[n:]
	}
	return true
}

// armWrite gives a write the time of stall to twice that: a deadline that serves
// many writes. Setting one for each would cost more than the write's share of it.
func (l *link) armWrite(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.writeHandlers.IsZero() {
		return nil // the handler knows better
	}
	if l.writeArmed.Sub(now) >= l.stall {
		return nil
	}
	l.writeArmed = now.Add(2 * l.stall)
	return l.conn.SetWriteDeadline(l.writeArmed)
}

// over forgets what the handler said, at the end of a request.
func (l *link) over() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handlers, l.deaf = time.Time{}, false
	if !l.writeHandlers.IsZero() {
		l.writeHandlers, l.writeArmed = time.Time{}, time.Time{}
		_ = l.conn.SetWriteDeadline(time.Time{}) // a broken connection says so again
	}
}

// closeWrite ends what we say, where the connection can do so.
func (l *link) closeWrite() error {
	if half, ok := l.conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// lost reports whether an error of reading says that the peer is gone.
func lost(err error) bool {
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, errInterrupted)
}

// asBody makes of an error of the connection what a reader of a body expects.
func asBody(err error) error {
	if err == io.EOF { //nolint:errorlint // it travels bare, by the contract of io.Reader
		return io.ErrUnexpectedEOF
	}
	return err
}
