package client

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/internal/retryafter"
)

// answerBody is the body of a response that was handed over. Its end is the end of
// the attempt: the context is released, and the bulkhead's permit given back.
type answerBody struct{ *attempt }

// Read reads what was heard already, then the rest.
func (b answerBody) Read(p []byte) (int, error) {
	n, err, more := b.heard.read(p)
	if more {
		n, err = b.inner.Read(p)
	}
	if err != nil {
		b.end(context.Canceled)
	}
	return n, err
}

// Close closes the body.
func (b answerBody) Close() error {
	err := b.inner.Close()
	b.end(context.Canceled)
	b.heard.wait()
	return err
}

// hearTime is how long a failure's body is listened to before the head alone
// counts. A service that fails writes its reason at once.
const hearTime = 100 * time.Millisecond

// heard is what was read of a body before the caller asked for it. A read that
// has begun cannot be taken back, so it has a goroutine of its own, and the caller
// goes on where that ends. nil is nothing.
type heard struct {
	enough atomic.Bool // set by who listens: no other read is to begin
	done   chan struct{}
	// What follows is the goroutine's until done is closed.
	data []byte
	err  error // what the body said after data
}

// listen reads the body of a failure up to retryafter.MaxPeek, however it is
// framed, and keeps it for the caller. It returns the whole body, or nil if that
// was too long, too slow, or broken.
func (a *attempt) listen() []byte {
	body, length := a.resp.Body, a.resp.ContentLength
	if body == nil || body == http.NoBody || length > retryafter.MaxPeek {
		return nil
	}
	h := &heard{done: make(chan struct{})}
	a.heard = h
	go func() {
		defer close(h.done)
		h.fill(body, int(length))
	}()
	timer := time.NewTimer(hearTime)
	defer timer.Stop()
	select {
	case <-h.done:
	case <-timer.C:
		h.enough.Store(true)
		return nil
	}
	if h.err == io.EOF || (length > 0 && len(h.data) == int(length)) { //nolint:errorlint // what readers return, unwrapped
		return h.data
	}
	return nil
}

// fill reads until the end, up to length if that is positive, or until it has
// more than anybody wants.
func (h *heard) fill(body io.Reader, length int) {
	for len(h.data) <= retryafter.MaxPeek && !h.enough.Load() {
		h.data = slices.Grow(h.data, 512)
		n, err := body.Read(h.data[len(h.data):cap(h.data)])
		h.data = h.data[:len(h.data)+n]
		if err != nil || (length > 0 && len(h.data) >= length) {
			h.err = err
			return
		}
	}
}

// read gives what was heard to the caller. more says that there is no more of it
// and the body goes on.
func (h *heard) read(p []byte) (n int, err error, more bool) { //nolint:revive // more qualifies the rest
	if h == nil {
		return 0, nil, true
	}
	<-h.done
	if len(h.data) > 0 {
		n = copy(p, h.data)
		h.data = h.data[n:]
		return n, nil, false
	}
	return 0, h.err, h.err == nil
}

// over reports that no read is under way.
func (h *heard) over() bool {
	if h == nil {
		return true
	}
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// wait returns when no read is under way.
func (h *heard) wait() {
	if h != nil {
		<-h.done
	}
}
