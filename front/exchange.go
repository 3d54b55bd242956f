package front

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// exchange is all that a request and its answer need, used again and again: a
// connection has one while there is something to read or to say, and none while it
// is idle.
type exchange struct {
	c   *conn
	now time.Time // when the head was there
	in  input
	out []byte // of the response

	head   head
	req    *http.Request
	blank  http.Request // with the context, which only a copy takes along
	url    url.URL
	header http.Header
	values []string // memory of header values

	ctx   requestContext
	body  body
	res   response
	watch watch
}

func newExchange(base context.Context) *exchange {
	x := &exchange{
		in: input{buf: make([]byte, bufferSize)}, out: make([]byte, 0, bufferSize),
		header: http.Header{}, values: make([]string, 0, 32),
	}
	x.ctx.base = base //nolint:fatcontext // the field of a context of our own
	x.req = new(http.Request).WithContext(&x.ctx)
	x.blank = *x.req
	x.body.x, x.res.x, x.watch.x = x, x, x
	x.res.header = http.Header{}
	return x
}

// maxKept is the size up to which a header map is used again: emptying one takes
// as long as it once was large.
const maxKept = 64

func emptied(h http.Header) http.Header {
	if len(h) > maxKept {
		return http.Header{}
	}
	clear(h)
	return h
}

// clear makes x ready for another connection.
func (x *exchange) clear() {
	x.c = nil
	x.in.reset()
}

// readHead reads until there is a head, and takes it off the input as text. How
// long that may take has been said to the link.
func (x *exchange) readHead() (text string, f *Fault, err error) {
	limits := &x.c.s.head
	x.head.reset()
	for {
		complete, f := x.head.scan(x.in.bytes(), limits)
		if f != nil {
			return "", f, nil
		}
		if complete {
			text := string(x.in.bytes()[:x.head.next])
			x.in.discard(x.head.next)
			return text, nil, nil
		}
		x.in.compact()
		n, err := x.c.link.read(x.in.free())
		x.in.to += n
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return "", errSlowHead, nil
		case err != nil:
			return "", nil, err
		}
	}
}

// begin makes the request of a head.
func (x *exchange) begin(text string) *Fault {
	req, h := x.req, &x.head
	*req = x.blank
	x.header = emptied(x.header)
	x.values = x.values[:0]
	req.Method, req.RequestURI = h.method.of(text), h.target.of(text)
	req.Proto, req.ProtoMajor, req.ProtoMinor = "HTTP/1.1", 1, 1
	if text[h.version.to-1] == '0' {
		req.Proto, req.ProtoMinor = "HTTP/1.0", 0
	}
	req.Header, req.URL, req.Body = x.header, &x.url, http.NoBody
	req.RemoteAddr, req.TLS = x.c.remote, x.c.tls
	x.url = url.URL{Path: "/"}
	for _, f := range h.fields {
		x.add(f.name.of(text), f.value.of(text))
	}
	x.ctx.begin(x.c)
	x.body.begin(0)
	x.res.begin()
	if f := x.framing(); f != nil {
		return f
	}
	return x.route()
}

// add adds a field to the header, in memory that is used again.
func (x *exchange) add(name, value string) {
	if more, ok := x.header[name]; ok {
		x.header[name] = append(more, value)
		return
	}
	if len(x.values) == cap(x.values) {
		x.values = make([]string, 0, 2*cap(x.values))
	}
	n := len(x.values)
	x.values = append(x.values, value)
	x.header[name] = x.values[n : n+1 : n+1]
}

// framing decides where the body ends, and whether another request may follow.
func (x *exchange) framing() *Fault {
	req, old := x.req, x.req.ProtoMinor == 0
	for _, line := range x.header["Connection"] {
		if hasToken(line, "close") {
			req.Close = true
		}
	}
	if old && !keepsAlive(x.header["Connection"]) {
		req.Close = true
	}
	lengths, codings := x.header["Content-Length"], x.header["Transfer-Encoding"]
	switch {
	case len(lengths) > 0 && len(codings) > 0:
		return errBoth
	case len(lengths) > 1:
		return errLengths
	case len(codings) > 0 && old:
		return errCodingOld
	case len(codings) > 0:
		return x.coding(codings)
	case len(lengths) == 0:
		return nil
	}
	n, ok := decimal(lengths[0])
	if !ok {
		return errLength
	}
	if req.ContentLength = n; n > 0 {
		x.body.begin(n)
		req.Body = &x.body
	}
	return nil
}

func (x *exchange) coding(codings []string) *Fault {
	if len(codings) > 1 {
		return errCodingTwice
	}
	if !strings.EqualFold(codings[0], "chunked") {
		count := 0
		for c := range strings.SplitSeq(codings[0], ",") {
			if strings.EqualFold(strings.TrimSpace(c), "chunked") {
				count++
			}
		}
		if count > 1 {
			return errCodingTwice
		}
		return errCoding
	}
	delete(x.header, "Transfer-Encoding")
	x.req.ContentLength, x.req.TransferEncoding = -1, chunkedOnly
	x.body.begin(-1)
	x.req.Body = &x.body
	return x.announced()
}

var chunkedOnly = []string{"chunked"}

// announced reads Trailer, as net/http does: the names stand in the request's
// Trailer before their values come.
func (x *exchange) announced() *Fault {
	lines := x.header["Trailer"]
	delete(x.header, "Trailer")
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			key := []byte(strings.Trim(name, " \t"))
			if len(key) == 0 {
				continue
			}
			if !canonicalName(key) || outOfPlace(key) {
				return errTrailer
			}
			if x.req.Trailer == nil {
				x.req.Trailer = http.Header{}
			}
			x.req.Trailer[string(key)] = nil
		}
	}
	return nil
}

// decimal reads a length: digits only.
func decimal(s string) (int64, bool) {
	if s == "" || len(s) > 18 {
		return 0, false
	}
	n := int64(0)
	for i := range len(s) {
		if s[i]-'0' > 9 {
			return 0, false
		}
		n = 10*n + int64(s[i]-'0')
	}
	return n, true
}

// route decides for whom the request is, and what it expects.
func (x *exchange) route() *Fault {
	req, old := x.req, x.req.ProtoMinor == 0
	hosts := x.header["Host"]
	switch {
	case len(hosts) > 1:
		return errHosts
	case len(hosts) == 0 && !old:
		return errNoHost
	case len(hosts) == 1:
		if !validHost(hosts[0]) {
			return errHost
		}
		req.Host = hosts[0]
		delete(x.header, "Host")
	}
	if req.Method == http.MethodConnect {
		return errConnect
	}
	if f := readTarget(&x.url, req.Method, req.RequestURI, req.Host); f != nil {
		return f
	}
	if old {
		return nil // which knows no expectations (RFC 9110, 10.1.1)
	}
	for _, e := range x.header["Expect"] {
		if !strings.EqualFold(e, "100-continue") {
			return errExpect
		}
		x.res.expects.Store(req.ContentLength != 0)
	}
	return nil
}

// serve answers the request whose head is there. It reports whether another may
// follow on the connection.
func (x *exchange) serve(text string) (again bool) {
	x.now = time.Now()
	if f := x.begin(text); f != nil {
		x.refuse(f)
		return false
	}
	x.c.current.Store(x)
	if x.ctx.base.Err() != nil {
		x.ctx.cancel()
	}
	if x.body.err == io.EOF { //nolint:errorlint // our own value
		if x.in.len() == 0 {
			x.in.from, x.in.to = 0, 0
		}
		x.watch.later()
	}
	if !x.answer(nil) {
		return false
	}
	x.res.finish()
	whole := x.body.end()
	x.watch.stop()
	x.ctx.cancel()
	x.c.link.over()
	switch {
	case x.res.err != nil, x.res.short, x.c.gone != nil && x.in.len() == 0:
		return false
	case !whole:
		x.c.linger()
		return false
	case x.res.closes:
		if x.in.len() > 0 {
			x.c.linger()
		}
		return false
	}
	return true
}

// answer calls the handler, or Refuse for a fault. It reports whether the connection
// is still ours, and an answer may be completed.
func (x *exchange) answer(f *Fault) (returned bool) {
	defer func() {
		if returned && !x.res.hijacked {
			return
		}
		cause := recover()
		x.body.closed.Store(true)
		if x.res.hijacked {
			x.ctx.cancel()
			returned = false
		} else {
			x.abort()
		}
		if cause != nil && cause != http.ErrAbortHandler { //nolint:errorlint // the value itself is the signal
			x.c.s.config.Log.Error("front: the handler panicked", "panic", cause, "remote", x.c.remote, "stack", string(debug.Stack()))
		}
	}()
	if f != nil {
		x.c.s.config.Refuse(&x.res, x.req, f)
	} else {
		x.c.s.config.Handler.ServeHTTP(&x.res, x.req)
	}
	return true
}

// abort breaks the connection, so that no answer looks complete.
func (x *exchange) abort() {
	x.res.closes = true
	x.c.abort(x.res.untilClose)
	x.body.end()
	x.watch.stop()
	x.ctx.cancel()
	x.c.x = nil // after a panic nobody knows who still holds x
}

// refuse answers in the handler's place. The connection ends with it.
func (x *exchange) refuse(f *Fault) {
	x.body.err = f
	x.req.Body, x.req.ContentLength = http.NoBody, 0
	x.req.Close, x.res.closes = true, true
	if !x.answer(f) {
		return
	}
	x.res.finish()
	x.ctx.cancel()
	x.c.linger()
}

// refuseUnread is refuse for a request whose head could not be read.
func (x *exchange) refuseUnread(f *Fault) {
	x.now = time.Now()
	x.head.reset()
	req := x.req
	*req = x.blank
	x.header = emptied(x.header)
	x.url = url.URL{}
	req.Proto, req.ProtoMajor, req.ProtoMinor = "HTTP/1.1", 1, 1
	req.Header, req.URL = x.header, &x.url
	req.RemoteAddr, req.TLS = x.c.remote, x.c.tls
	x.ctx.begin(x.c)
	x.body.begin(0)
	x.res.begin()
	x.refuse(f)
}

// hasToken reports whether a list holds a token, which is in lower case.
func hasToken(line, token string) bool {
	if len(line) == len(token) {
		return strings.EqualFold(line, token)
	}
	for t := range strings.SplitSeq(line, ",") {
		if strings.EqualFold(strings.Trim(t, " \t"), token) {
			return true
		}
	}
	return false
}

func keepsAlive(lines []string) bool {
	for _, line := range lines {
		if hasToken(line, "keep-alive") {
			return true
		}
	}
	return false
}
