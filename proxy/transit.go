package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/comporta/comporta"
)

// transit is a try over an http.Transport: HTTP/2, and whatever TLS agrees on. The
// transport's goroutines do the work and call back.
type transit struct {
	x      *exchange
	res    *http.Response
	cancel context.CancelCauseFunc // ends the try

	mu       sync.Mutex // guards what the transport's goroutines touch
	timer    *time.Timer
	deadline time.Time     // of the wait under way
	limit    time.Duration // of the wait under way
	cause    error         // with which its end cancels the try
	held     bool          // the caller's body is awaited: the clock stands still
	heard    bool          // the answer's head has come: timer and 1xx are over
	got      bool          // the try has a connection
	conn     connection
}

func (t *transit) ask(now time.Time) (answer, error) {
	x := t.x
	ctx, cancel := context.WithCancelCause(x.in.Context())
	t.mu.Lock()
	t.res, t.cancel = nil, cancel
	t.held, t.heard, t.got, t.conn = false, false, false, connection{}
	t.wait(errNoConnection, x.p.config.ConnectTimeout)
	t.mu.Unlock()

	// The transport's goroutines may hold it when the try is over, and the server may
	// use the caller's again.
	header := x.header.Clone()
	if _, ok := header["User-Agent"]; !ok {
		header["User-Agent"] = []string{""} // else the transport would put its own
	}
	writePatience(ctx, now, header)
	out := (&http.Request{
		Method: x.in.Method,
		URL: &url.URL{
			Scheme: x.up.scheme, Host: x.up.url.Host, Path: x.in.URL.Path, RawPath: x.in.URL.RawPath,
			RawQuery: x.in.URL.RawQuery, ForceQuery: x.in.URL.ForceQuery,
		},
		Host:          x.in.Host,
		Header:        header,
		ContentLength: x.in.ContentLength,
		Trailer:       x.in.Trailer, // shared: the server fills it when the body ends
	}).WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:        t.connected,
		Got1xxResponse: t.inform,
	}))
	settled := func() {}
	switch {
	case x.payload != nil:
		// A copy: the transport may read on when the try is over.
		out.Body = io.NopCloser(bytes.NewReader(bytes.Clone(*x.payload)))
	case x.body != nil:
		out.Body = x.body
		settled = x.body.attend(ctx, x.w)
	}
	seal(out)
	res, err := x.up.transport.RoundTrip(out) //nolint:bodyclose // end closes it
	settled()
	t.hush()
	if err != nil {
		return nil, err
	}
	t.res = res
	if !final(res.StatusCode) {
		return nil, fmt.Errorf("%w: %d", errStatus, res.StatusCode)
	}
	return t, nil
}

// wait begins a bounded wait; the caller holds mu.
func (t *transit) wait(cause error, limit time.Duration) {
	t.cause, t.limit, t.deadline = cause, limit, time.Now().Add(limit)
	if t.timer == nil {
		t.timer = time.AfterFunc(limit, t.expire)
		return
	}
	t.timer.Reset(limit)
}

// expire cancels the try, unless the timer fired for a wait that had just ended.
func (t *transit) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.heard && !t.held && !time.Now().Before(t.deadline) {
		t.cancel(t.cause)
	}
}

// connected is told by the transport that the try has its connection.
func (t *transit) connected(info httptrace.GotConnInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.heard {
		return
	}
	t.got, t.conn = true, t.x.up.connection(info.Conn)
	t.wait(errNoAnswer, t.x.p.config.Timeout)
}

// awaitCaller implements link.
func (t *transit) awaitCaller(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.heard {
		return
	}
	if t.held = on; on {
		t.timer.Stop()
	} else {
		t.wait(t.cause, t.limit)
	}
}

// hush ends the part of the try in which the transport may call back.
func (t *transit) hush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard = true
	t.timer.Stop()
}

// inform is told by the transport of an informational answer.
func (t *transit) inform(code int, header textproto.MIMEHeader) error {
	if code == http.StatusSwitchingProtocols {
		// Only HTTP/2 has it here, which knows no such status (RFC 9113, 8.6). The
		// server would take it for the final one.
		return fmt.Errorf("%w: %d", errStatus, code)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.heard {
		t.x.inform(code, http.Header(header))
	}
	return nil
}

// reached implements link.
func (t *transit) reached() reach {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.got:
		return reachedNobody
	case t.conn.untouched():
		return reachedPool
	}
	return reachedService
}

// end implements link.
func (t *transit) end() {
	t.hush()
	t.cancel(nil)
	if t.res != nil {
		_ = t.res.Body.Close() // it was read to its end, or is given up
	}
}

// What follows makes the try the answer that it has got.

func (t *transit) head() (status int, length int64) { return t.res.StatusCode, t.res.ContentLength }

// Read implements answer.
func (t *transit) Read(p []byte) (int, error) { return t.res.Body.Read(p) }

func (t *transit) next() []byte { return nil }

func (t *transit) ready() bool { return false }

func (t *transit) addHeader(h http.Header) { copyAnswer(h, t.res.Header) }

func (t *transit) announced() (names []string) {
	for name := range t.res.Trailer {
		names = append(names, name)
	}
	return names
}

func (t *transit) trailer() http.Header { return t.res.Trailer }

func (t *transit) protocol() string { return upgradeOf(t.res.Header) }

// takeOver implements answer.
func (t *transit) takeOver() (io.ReadWriteCloser, error) {
	service, ok := t.res.Body.(io.ReadWriteCloser)
	if !ok {
		return nil, errors.New("proxy: the upstream's connection cannot be taken over")
	}
	return service, nil
}

// emptyBody is a body of no bytes that http.Transport does not recognise as such;
// see seal.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }

// seal makes out a request that http.Transport will not send twice on its own.
//
// The transport repeats a request on a broken kept connection when it has no
// body and its method is safe, or it carries an Idempotency-Key. A safe request is
// therefore given a body that is empty and not known to be, declared "identity" so
// that no framing header is written for it. With other methods a missing body must
// stay missing (some servers insist on Content-Length: 0), but there the transport
// looks the key up under its canonical spelling only, and on the wire spelling
// does not matter.
func seal(out *http.Request) {
	if out.Body != nil && out.Body != http.NoBody {
		return
	}
	if comporta.SafeMethod(out.Method) {
		out.Body, out.ContentLength = emptyBody{}, 0
		out.TransferEncoding = []string{"identity"}
		return
	}
	out.Body = nil
	for _, name := range []string{comporta.HeaderIdempotencyKey, "X-Idempotency-Key"} {
		if v, ok := out.Header[name]; ok {
			delete(out.Header, name)
			out.Header[strings.ToLower(name)] = v
		}
	}
}
