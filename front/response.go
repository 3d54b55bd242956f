package front

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// framing is how the end of an answer is told.
type framing uint8

const (
	framedLater   framing = iota // by what the handler writes
	framedLength                 // Content-Length
	framedChunked                // Transfer-Encoding: chunked
	framedByClose                // HTTP/1.0 without a length
	framedNone                   // no body: HEAD, 1xx, 204, 304
)

// frameRoom is what the last lines of a head may take, and the line of a chunk.
const frameRoom = 112

// response is the ResponseWriter of one request after another. What is written
// gathers in x.out, the head first, and leaves when it is flushed, full or
// complete: a small answer is one write.
type response struct {
	x       *exchange
	header  http.Header
	expects atomic.Bool // 100 Continue is owed

	status     int // 0 until the final head
	framing    framing
	closes     bool  // the connection ends with this answer
	untilClose bool  // only the end of the connection tells the end of the answer
	length     int64 // declared
	written    int64
	upgrade    bool // the head is that of a 101
	head       int  // bytes of the head in x.out that has not been sent; then comes room for frameRoom
	sent       bool // the head has left
	sentNow    atomic.Bool
	trailers   []string // announced
	tail       []byte   // memory for the end of a chunked body
	short      bool     // less was written than was declared
	err        error    // of the connection
	hijacked   bool
}

func (r *response) begin() {
	h, trailers := emptied(r.header), r.trailers[:0]
	r.expects.Store(false)
	r.sentNow.Store(false)
	r.header, r.trailers = h, trailers
	r.status, r.framing, r.closes, r.untilClose, r.upgrade = 0, framedLater, false, false, false
	r.length, r.written, r.head, r.sent, r.short, r.err, r.hijacked = -1, 0, 0, false, false, nil, false
	if cap(r.x.out) > 2*bufferSize {
		r.x.out = make([]byte, 0, bufferSize) // one large head is no reason to hold on to it
	}
	r.x.out = r.x.out[:0]
}

// Header implements http.ResponseWriter.
func (r *response) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter. Informational answers leave at once.
func (r *response) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999:
		panic(fmt.Sprintf("front: invalid status %d", status)) //nolint:forbidigo // as net/http does: there is no place for an error
	case r.status != 0 || r.hijacked:
		return // the first one counts
	case status < 200 && status != http.StatusSwitchingProtocols:
		r.inform(status)
		return
	}
	r.status = status
	if status == http.StatusSwitchingProtocols {
		r.upgrade, r.closes = true, true
	}
	r.encodeHead()
	switch {
	case status < 200, status == http.StatusNoContent, status == http.StatusNotModified, r.x.req.Method == http.MethodHead:
		r.framing = framedNone
	case r.length >= 0:
		r.framing = framedLength
	}
}

// Write implements io.Writer.
func (r *response) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	switch {
	case r.hijacked:
		return 0, http.ErrHijacked
	case r.err != nil:
		return 0, r.err
	case r.framing == framedNone:
		if r.x.req.Method != http.MethodHead {
			return 0, http.ErrBodyNotAllowed
		}
		r.written += int64(len(p))
		return len(p), nil
	case r.length >= 0 && r.written+int64(len(p)) > r.length:
		return 0, http.ErrContentLength
	}
	r.written += int64(len(p))
	if len(p) <= r.room() {
		r.append(p)
		if r.framing == framedLength && r.written == r.length {
			r.push(nil, nil) // complete: nobody gains from waiting for the handler
		}
	} else {
		r.decide()
		r.push(p, nil)
	}
	if r.err != nil {
		return 0, r.err
	}
	return len(p), nil
}

// room returns how much more of a body fits.
func (r *response) room() int {
	used := len(r.x.out)
	if used == r.head || used == 0 {
		used = r.head + frameRoom
	}
	return cap(r.x.out) - used - len("\r\n")
}

// append adds to the body in x.out, which begins at frameRoom after the head.
func (r *response) append(p []byte) {
	if len(r.x.out) == r.head {
		r.x.out = r.x.out[:r.head+frameRoom]
	}
	r.x.out = append(r.x.out, p...)
}

// decide ends the wait for the handler's last word on the length.
func (r *response) decide() {
	if r.framing != framedLater {
		return
	}
	if r.x.req.ProtoMinor == 0 {
		r.framing, r.closes, r.untilClose = framedByClose, true, true
		return
	}
	r.framing = framedChunked
}

// push sends what has gathered, p after it, and tail after that.
func (r *response) push(p, tail []byte) {
	if r.err != nil {
		return
	}
	out := r.x.out
	body := out[min(r.head+frameRoom, len(out)):]
	var frame [frameRoom]byte
	f := frame[:0]
	if !r.sent {
		f = r.appendFrame(f)
	}
	chunk := r.framing == framedChunked && len(body)+len(p) > 0
	if chunk {
		f = appendHex(f, len(body)+len(p))
		f = append(f, "\r\n"...)
	}
	// The head moves up to the body, with the frame between them: mostly the head is
	// the smaller of the two, and one piece costs less than two.
	begin := frameRoom - len(f)
	if cap(out) < r.head+frameRoom {
		grown := make([]byte, len(out), r.head+2*frameRoom)
		copy(grown, out)
		out = grown
		body = nil
	}
	out = out[:r.head+frameRoom+len(body)]
	copy(out[begin:], out[:r.head])
	copy(out[begin+r.head:], f)
	switch {
	case !chunk:
	case len(p) == 0:
		out = append(out, "\r\n"...)
	default:
		tail = crlf // a tail comes alone
	}
	if len(p) == 0 {
		out, tail = append(out, tail...), nil
	}
	r.send(out[begin:], p, tail)
	r.head, r.sent = 0, true
	r.x.out = r.x.out[:0]
}

var crlf = []byte("\r\n")

// send writes to the connection. An error ends the request: nobody hears what
// else it would say.
func (r *response) send(parts ...[]byte) {
	l := r.x.c.link
	l.writeMu.Lock()
	r.sentNow.Store(true)
	err := l.write(parts...)
	l.writeMu.Unlock()
	if err != nil {
		r.err, r.closes = err, true
		r.x.ctx.cancel()
	}
}

// sendContinue asks the client for its body, if it waits to be asked: the handler
// wants to read it.
func (r *response) sendContinue() {
	if !r.expects.Load() {
		return
	}
	l := r.x.c.link
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	if r.expects.Swap(false) && !r.sentNow.Load() {
		_ = l.write([]byte("HTTP/1.1 100 Continue\r\n\r\n")) // reading will tell
	}
}

// inform sends an informational answer.
func (r *response) inform(status int) {
	if r.x.req.ProtoMinor == 0 || r.sent || r.err != nil {
		return // HTTP/1.0 knows none
	}
	text := appendStatus(make([]byte, 0, 512), status)
	for name, values := range r.header {
		if ofFraming(name) {
			continue
		}
		text = appendField(text, name, values)
	}
	text = append(text, "\r\n"...)
	l := r.x.c.link
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	if status == http.StatusContinue {
		r.expects.Store(false)
	}
	if err := l.write(text); err != nil {
		r.err, r.closes = err, true
		r.x.ctx.cancel()
	}
}

// finish completes the answer when the handler has returned.
func (r *response) finish() {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	switch r.framing {
	case framedLater:
		if r.x.req.ProtoMinor == 1 && r.hasTrailers() {
			r.framing = framedChunked
			r.finishChunked()
			return
		}
		r.length = r.written
		r.framing = framedLength
		r.push(nil, nil)
	case framedNone:
		if r.length < 0 && r.written > 0 {
			r.length = r.written // of a HEAD
		}
		r.rest()
	case framedLength:
		if r.written < r.length {
			r.closes, r.short = true, true
		}
		r.rest()
	case framedChunked:
		r.finishChunked()
	case framedByClose:
		r.rest()
	}
}

// rest sends what has not left yet, if only the head.
func (r *response) rest() {
	if !r.sent || len(r.x.out) > 0 {
		r.push(nil, nil)
	}
}

func (r *response) finishChunked() {
	r.tail = append(r.tail[:0], "0\r\n"...)
	r.tail = r.appendTrailers(r.tail)
	r.tail = append(r.tail, "\r\n"...)
	r.push(nil, r.tail)
}

// FlushError sends what has been written, for http.ResponseController.
func (r *response) FlushError() error {
	if r.hijacked {
		return http.ErrHijacked
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	r.decide()
	r.rest()
	return r.err
}

// Flush implements http.Flusher.
func (r *response) Flush() {
	_ = r.FlushError() // http.Flusher has no place for the error; the next Write says it
}

// SetReadDeadline ends reading of the body at t, for http.ResponseController.
func (r *response) SetReadDeadline(t time.Time) error {
	r.x.c.link.setReadDeadline(t)
	return nil
}

// SetWriteDeadline ends writing at t, for http.ResponseController.
func (r *response) SetWriteDeadline(t time.Time) error {
	return r.x.c.link.setWriteDeadline(t)
}

// EnableFullDuplex does nothing: reading and writing never wait for each other.
func (*response) EnableFullDuplex() error { return nil }

// errUnread is what a handler gets that takes over a connection in the middle of a
// body: the rest of it would be taken for the words of the new protocol.
var errUnread = errors.New("front: the body has not been read to its end")

// Hijack implements http.Hijacker. The reader holds what was read ahead.
func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if r.hijacked {
		return nil, nil, http.ErrHijacked
	}
	x := r.x
	if !x.body.mu.TryLock() {
		return nil, nil, errUnread
	}
	defer x.body.mu.Unlock()
	if x.req.Body != http.NoBody && x.body.err == nil {
		return nil, nil, errUnread
	}
	x.body.closed.Store(true)
	if r.status != 0 && !r.sent {
		r.push(nil, nil)
	}
	x.watch.stop()
	r.hijacked = true
	conn, rw, err := x.c.takeOver(x.in.bytes())
	return conn, rw, err
}
