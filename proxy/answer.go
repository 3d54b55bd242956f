package proxy

import (
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
)

// copySize is how much of an answer moves at once, in bytes.
const copySize = 32 << 10

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, copySize); return &b }}

// relay passes an answer on, as it comes. It panics with http.ErrAbortHandler
// when either side breaks off: a short answer must not look complete.
func (x *exchange) relay(res *http.Response) {
	defer func() { _ = res.Body.Close() }() // it was read to its end, or is given up
	h := x.w.Header()
	copyAnswer(h, res.Header)
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // else the server would guess one
	}
	x.closeUnlessRead()
	announced := len(res.Trailer)
	for name := range res.Trailer {
		h["Trailer"] = append(h["Trailer"], name)
	}
	x.w.WriteHeader(res.StatusCode)
	if err := x.copy(res); err != nil {
		panic(http.ErrAbortHandler) //nolint:forbidigo // the one way to break an answer in net/http
	}
	if len(res.Trailer) == 0 {
		return
	}
	// Flushing keeps the server from computing a Content-Length, which would leave
	// no room for trailers.
	_ = http.NewResponseController(x.w).Flush()
	prefix := ""
	if len(res.Trailer) != announced {
		prefix = http.TrailerPrefix
	}
	for name, values := range res.Trailer {
		if !gatesOwn(name) {
			h[prefix+name] = append(h[prefix+name], values...)
		}
	}
}

// copy passes the body on. What has no length is a stream, in which each piece
// counts when it comes: it is flushed at once, the head first.
func (x *exchange) copy(res *http.Response) error {
	buffer, _ := copyBuffers.Get().(*[]byte) // the pool holds nothing else
	defer copyBuffers.Put(buffer)
	streaming := isStream(res)
	rc := http.NewResponseController(x.w)
	if streaming {
		_ = rc.Flush() // a writer that cannot flush still gets every byte
	}
	for {
		n, err := res.Body.Read(*buffer)
		if n > 0 {
			if _, werr := x.w.Write((*buffer)[:n]); werr != nil {
				return werr
			}
			if streaming {
				_ = rc.Flush()
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func isStream(res *http.Response) bool {
	if res.ContentLength == -1 {
		return true
	}
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return err == nil && media == "text/event-stream"
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
