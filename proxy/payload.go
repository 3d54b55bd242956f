package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/comporta/comporta"
)

// maxPayload bounds the bodies that are read ahead, in bytes.
const maxPayload = 64 << 10

var payloads = sync.Pool{New: func() any { return new([]byte) }}

// preload reads a short body of known length into memory before anybody is asked.
// A slow caller then holds no connection of the service's, the request leaves in
// one write and without a goroutine, and what certainly reached nobody can be sent
// elsewhere. Who wants leave to send its body gets it from the service.
func (x *exchange) preload() *failure {
	length := x.in.ContentLength
	if x.body == nil || !x.p.preloads || length < 0 || length > maxPayload || x.expects() {
		return nil
	}
	x.payload, _ = payloads.Get().(*[]byte) // the pool holds nothing else
	settled := func() {}
	if _, ok := x.in.Context().Deadline(); ok { // else only the end of its connection ends the request, which reading tells
		settled = x.body.attend(x.in.Context(), x.w)
	}
	err := x.body.readWhole(x.payload, int(length))
	settled()
	if err == nil {
		return nil
	}
	if f := x.callersFault(); f != nil {
		return f
	}
	if f := left(x.in.Context(), false); f != nil {
		return f
	}
	return &failure{reason: comporta.MalformedRequest, result: comporta.ResultAbandoned, err: err}
}

// leastPayload is the smallest buffer of a payload, in bytes.
const leastPayload = 4 << 10

// readWhole reads a body of that length into buffer, which grows with what comes: a
// caller who announces much and sends nothing takes little.
func (b *callerBody) readWhole(buffer *[]byte, length int) error {
	p := (*buffer)[:0]
	defer func() { *buffer = p }()
	for {
		if len(p) == cap(p) {
			p = append(make([]byte, 0, min(length, max(leastPayload, 2*cap(p)))), p...)
		}
		n, err := b.Read(p[len(p):min(cap(p), length)])
		p = p[:len(p)+n]
		switch {
		case errors.Is(err, io.EOF) && len(p) == length:
			return nil
		case errors.Is(err, io.EOF):
			b.blame(io.ErrUnexpectedEOF)
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case len(p) == length:
			return b.readEnd()
		}
	}
}

// readEnd hears that there is no more of a body.
func (b *callerBody) readEnd() error {
	var more [1]byte
	for {
		n, err := b.Read(more[:])
		switch {
		case n > 0:
			return errTooLong
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// How much of a body is read, and for how long, to keep a refused caller's
// connection: when a service is down, each new connection adds to the flood.
const (
	drainSize = 64 << 10
	drainTime = 250 * time.Millisecond
)

// drain reads out a small body of which the upstream took nothing.
func (x *exchange) drain() {
	if touched, _ := x.body.state(); x.body == nil || touched || x.in.ContentLength > drainSize || x.in.ContentLength < 0 {
		return
	}
	x.body.unattended()
	if http.NewResponseController(x.w).SetReadDeadline(time.Now().Add(drainTime)) == nil {
		_, _ = io.Copy(io.Discard, x.body) // an error leaves the body unread, which closeUnlessRead sees
	}
}

// attend binds the body to a try: when ctx has ended no read begins, and one that
// is under way is broken off after its grace. The transport waits for it, and a
// silent caller would keep an exchange that nobody wants any more. The function
// returned releases the body; after it the fault is known that ended the try.
func (b *callerBody) attend(ctx context.Context, w http.ResponseWriter) (release func()) {
	b.mu.Lock()
	b.try = ctx
	b.mu.Unlock()
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		b.breakOff(w)
	})
	return func() {
		switch {
		case !stop():
			<-done
		case ctx.Err() != nil: // it has just ended, and stop was quicker than the function
			b.breakOff(w)
		}
	}
}
