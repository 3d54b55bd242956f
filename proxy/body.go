package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// errHandlerReturned is what a transport reads that still wants the caller's body
// when the exchange is over.
var errHandlerReturned = errors.New("proxy: the exchange is over")

// emptyBody is a body of no bytes that http.Transport does not recognise as such;
// see seal.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }

// callerBody is the caller's body as the transport reads it. It keeps three
// promises: an error of the caller's connection is remembered as the caller's, the
// time spent waiting for the caller does not count against the upstream, and
// nothing reads on when the handler has returned.
//
// The transport's Close is ignored: the server owns the body, and after a failed
// dial the next try reads it.
type callerBody struct {
	body    io.Reader
	waiting func(bool) // stops and restarts the upstream's clock

	mu      sync.Mutex
	idle    *sync.Cond // signalled when reading turns false
	touched bool       // something asked for a byte
	reading bool
	ended   bool // read to its end
	over    bool
	fault   error // the first error of the caller's connection; io.EOF is none
}

func newCallerBody(body io.Reader, waiting func(bool)) *callerBody {
	b := &callerBody{body: body, waiting: waiting}
	b.idle = sync.NewCond(&b.mu)
	return b
}

// Read reads from the caller.
func (b *callerBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.over {
		b.mu.Unlock()
		return 0, errHandlerReturned
	}
	b.touched, b.reading = true, true
	b.mu.Unlock()

	b.waiting(true)
	n, err := b.body.Read(p)
	b.waiting(false)

	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	if err == io.EOF {
		b.ended = true
	}
	if err != nil && err != io.EOF && b.fault == nil && !b.over {
		b.fault = err
	}
	b.idle.Broadcast()
	return n, err
}

// Close does nothing; see the type.
func (*callerBody) Close() error { return nil }

// state returns what a failed exchange needs to know.
func (b *callerBody) state() (touched bool, fault error) {
	if b == nil {
		return false, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.touched, b.fault
}

// unread reports whether the caller may still be sending.
func (b *callerBody) unread() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.ended
}

// end keeps the transport from reading on, and breaks off a read that is under
// way: an upstream that answers early leaves one behind, and neither the answer
// nor the server may be kept waiting by it.
func (b *callerBody) end(w http.ResponseWriter) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	if b.ended {
		return
	}
	rc := http.NewResponseController(w)
	if b.reading {
		_ = rc.Flush() // the answer first: the caller may be waiting for it before it sends more
	}
	if rc.SetReadDeadline(time.Unix(1, 0)) != nil {
		return // not a connection of net/http: the read ends when its owner closes it
	}
	for b.reading {
		b.idle.Wait()
	}
}
