package proxy

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// answer is what an upstream says, whatever brought it.
type answer interface {
	// Read reads the body.
	io.Reader
	// head returns the status, and the length of the body: -1 if it is not known.
	head() (status int, length int64)
	// addHeader adds the header to h, but for what concerns the connection and what
	// only the gate may say.
	addHeader(h http.Header)
	// announced returns the names of the trailers that the head announces.
	announced() []string
	// trailer returns the trailers, when the body has been read to its end.
	trailer() http.Header
	// next returns what has come of a body already, without a copy; nil if there is
	// none, or it cannot be had so.
	next() []byte
	// ready reports whether Read will surely return without waiting.
	ready() bool
	// protocol returns what the answer switches to; empty for nothing.
	protocol() string
	// takeOver returns the connection of an answer that switches protocols. Closing
	// it is up to the caller.
	takeOver() (io.ReadWriteCloser, error)
}

// copySize is how much of an answer moves at once, in bytes.
const copySize = 32 << 10

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, copySize); return &b }}

// relay passes an answer on, as it comes. It panics with http.ErrAbortHandler
// when either side breaks off: a short answer must not look complete.
func (x *exchange) relay(a answer) {
	h := x.w.Header()
	a.addHeader(h)
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // else the server would guess one
	}
	x.closeUnlessRead()
	announced := a.announced()
	if len(announced) > 0 {
		h["Trailer"] = append(h["Trailer"], announced...)
	}
	status, length := a.head()
	x.w.WriteHeader(status)
	x.body.answer()
	if err := x.copy(a, length); err != nil {
		panic(http.ErrAbortHandler) //nolint:forbidigo // the one way to break an answer in net/http
	}
	trailer := a.trailer()
	if len(trailer) == 0 {
		return
	}
	// Flushing keeps the server from computing a Content-Length, which would leave
	// no room for trailers.
	_ = http.NewResponseController(x.w).Flush()
	for name, values := range trailer {
		if gatesOwn(name) || hopByHop(name) {
			continue
		}
		if !slices.Contains(announced, name) {
			name = http.TrailerPrefix + name
		}
		h[name] = append(h[name], values...)
	}
}

// copy passes the body on. What has no length is a stream, in which each piece
// counts when it comes: before each wait everything is flushed, the head first.
func (x *exchange) copy(a answer, length int64) error {
	if length == 0 {
		return nil
	}
	streaming := length == -1 || eventStream(x.w.Header())
	if !streaming {
		p := a.next()
		if err := x.pass(p); err != nil || length == int64(len(p)) {
			return err
		}
	}
	buffer, _ := copyBuffers.Get().(*[]byte) // the pool holds nothing else
	defer copyBuffers.Put(buffer)
	for {
		if streaming && !a.ready() {
			_ = http.NewResponseController(x.w).Flush() // a writer that cannot flush still gets every byte
		}
		n, err := a.Read(*buffer)
		if werr := x.pass((*buffer)[:n]); werr != nil {
			return werr
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// pass writes a piece of the body to the caller.
func (x *exchange) pass(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := x.w.Write(p) //nolint:gosec // G705: to relay what the service says is what a proxy is for
	return err
}

func eventStream(h http.Header) bool {
	const stream = "text/event-stream"
	vs := h["Content-Type"]
	if len(vs) == 0 || len(vs[0]) < len(stream) {
		return false
	}
	media, _, err := mime.ParseMediaType(vs[0])
	return err == nil && media == stream
}

// copyAnswer adds the headers of an upstream's answer to h, but for those of its
// connection and those that only the gate may say.
func copyAnswer(h, from http.Header) {
	removeHopByHop(from)
	for name, values := range from {
		if !gatesOwn(name) {
			h[name] = append(h[name], values...)
		}
	}
}

func gatesOwn(name string) bool { return strings.HasPrefix(name, "Comporta-") }
