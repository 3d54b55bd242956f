package h1

import (
	"syscall"

	"github.com/comporta/comporta/internal/socket"
)

// turn is the change from writing to reading on a socket, in one stay with it: the
// system is asked for the answer when it says that there is one, and not before,
// when there can be none.
//
// What came before the stay began is lost to the system's notice. Nothing had come
// when the connection was looked at (see liveness.alive); what comes between that
// and the stay is a connection that ends, which the next deadline finds at the
// latest.
type turn struct {
	socket syscall.RawConn // nil: not a socket
	step   func(fd uintptr) bool
	out    []byte // of the request, not sent yet
	left   func() // out is not needed any more; nil once it was called
	failed error  // of writing
}

// Ask sends a whole request, as Send and SentAll do, and waits for the beginning of
// the answer, unless the first of its waits ends before: ReadHead goes on from
// there, and tells what went wrong. left is called once, as soon as p is not needed
// any more: before the wait.
func (c *Conn) Ask(p []byte, left func()) error {
	t := &c.turn
	if t.out, t.left, t.failed = p, left, nil; t.socket != nil {
		_ = t.socket.Read(t.step) // a deadline, or the end of the connection: whoever uses it next hears of it
	}
	err := t.failed
	if err == nil {
		err = c.Send(t.out)
	}
	t.out = nil
	t.sent()
	if err == nil {
		c.SentAll()
	}
	return err
}

// sent tells the owner of the request that it is no longer needed.
func (t *turn) sent() {
	if left := t.left; left != nil {
		t.left = nil
		left()
	}
}

// take writes the request when it is called first, and reads afterwards. False: the
// socket must be waited for.
func (c *Conn) take(fd uintptr) (done bool) {
	t := &c.turn
	if t.left == nil {
		return c.takeAnswer(fd)
	}
	n, err := socket.Send(fd, t.out)
	c.sent += int64(n)
	t.out = t.out[n:]
	switch {
	case err != nil && err != syscall.EAGAIN: //nolint:errorlint // a bare value of the system
		t.failed = socket.Fault(c.raw, "write", err)
		return true
	case len(t.out) > 0:
		return true // the rest waits for room
	}
	t.sent()
	return false
}

func (c *Conn) takeAnswer(fd uintptr) (done bool) {
	n, err := socket.Receive(fd, c.buffer[c.w:])
	if err == syscall.EAGAIN { //nolint:errorlint // a bare value of the system
		return false
	}
	c.w += n
	if err != nil {
		c.late = readFault(c.raw, err)
	}
	return true
}
