package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// errHandlerReturned is what a transport reads that still wants the caller's body
// when its try or the exchange is over.
var errHandlerReturned = errors.New("proxy: the exchange is over")

// errSilent is the fault of a caller whose body had not come when its try was over.
var errSilent = fmt.Errorf("proxy: the rest of the body did not come: %w", os.ErrDeadlineExceeded)

// errTooLong is the fault of a body that is longer than its Content-Length.
var errTooLong = errors.New("proxy: the body is longer than it said")

// errUpstreamBroke ends an upload that the upstream does not take any more: its
// answer may have come all the same.
var errUpstreamBroke = errors.New("proxy: the upstream took no more of the body")

// callerBody is the caller's body as the transport reads it. It keeps three
// promises: an error of the caller's connection is remembered as the caller's, the
// time spent waiting for the caller does not count against the upstream, and
// nothing reads on when the handler has returned.
//
// The transport's Close is ignored: the server owns the body, and after a failed
// dial the next try reads it.
type callerBody struct {
	x      *exchange
	body   io.Reader
	stream bool // of HTTP/2: the answer ends it, whatever is unread

	mu       sync.Mutex
	idle     sync.Cond       // signalled when reading turns false, and when its grace is over
	try      context.Context //nolint:containedctx // of the try under way, which changes; nil before the first
	touched  bool            // something asked for a byte
	reading  bool
	ended    bool // read to its end
	answered bool // the caller's answer has begun
	over     bool
	fault    error // the first error of the caller's connection; io.EOF is none
}

func newCallerBody(x *exchange, body io.Reader) *callerBody {
	b := &callerBody{x: x, body: body}
	b.idle.L = &b.mu
	return b
}

// Read reads from the caller.
func (b *callerBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.over || b.try != nil && b.try.Err() != nil {
		b.mu.Unlock()
		return 0, errHandlerReturned
	}
	b.touched, b.reading = true, true
	b.mu.Unlock()

	b.x.awaitCaller(true)
	n, err := b.body.Read(p)
	b.x.awaitCaller(false)

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
	if b.over {
		return 0, errHandlerReturned // whoever reads has no business with the request any more
	}
	return n, err
}

// blame remembers a fault of the caller's that no read has told.
func (b *callerBody) blame(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fault == nil && !b.over {
		b.fault = err
	}
}

// Close does nothing; see the type.
func (*callerBody) Close() error { return nil }

// answer notes that the caller's answer has begun. Before it a flush would begin
// one, and a failure would look like a success.
func (b *callerBody) answer() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answered = true
}

// state returns what a failed exchange needs to know.
func (b *callerBody) state() (touched bool, fault error) {
	if b == nil {
		return false, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.touched, b.fault
}

// graceOfRead is how long a read that is under way when its try ends has to say
// whether it is the reason: net/http cancels a request before it tells the reader
// that reading has failed. If so it has failed already, and this is a matter of
// scheduling.
const graceOfRead = 250 * time.Millisecond

// unattended frees the body from tries that are over.
func (b *callerBody) unattended() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.try = nil
}

// breakOff ends the read that is under way, unless it ends within its grace.
func (b *callerBody) breakOff(w http.ResponseWriter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	late := false
	timer := time.AfterFunc(graceOfRead, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		late = true
		b.idle.Broadcast()
	})
	defer timer.Stop()
	for b.reading && !late {
		b.idle.Wait()
	}
	if !b.reading {
		return
	}
	b.over, b.fault = true, errSilent // whatever the read says now is our doing
	if http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) != nil {
		return // not a connection of net/http: the read ends when its owner closes it
	}
	for b.reading {
		b.idle.Wait()
	}
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
// nor the server may be kept waiting by it. It reports whether nothing reads any
// more: a read of what is no connection of net/http ends when its owner closes it.
func (b *callerBody) end(w http.ResponseWriter) (quiet bool) {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	if b.ended {
		return true
	}
	rc := http.NewResponseController(w)
	// The answer first: the caller may be waiting for it before it sends more. A stream
	// needs no flush for that, and it would part a trailers-only answer of gRPC in two.
	if b.reading && !b.stream && b.answered {
		_ = rc.Flush()
	}
	if rc.SetReadDeadline(time.Unix(1, 0)) != nil {
		return !b.reading
	}
	for b.reading {
		b.idle.Wait()
	}
	return true
}
