package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"sync"
	"time"

	"github.com/comporta/comporta"
)

// The causes with which a try is cancelled when its time is over.
var (
	errNoConnection = errors.New("proxy: no connection to the upstream in time")
	errNoAnswer     = errors.New("proxy: the upstream did not answer in time")
)

// errStatus is an answer that no caller can be given.
var errStatus = errors.New("the answer's status is outside 200 to 999")

// exchange is one request on its way to an upstream and back.
type exchange struct {
	p       *Proxy
	w       http.ResponseWriter
	in      *http.Request
	upgrade string      // the protocol to switch to; empty for none
	body    *callerBody // nil without a body

	up *upstream // of the try under way, which it counts until release

	mu       sync.Mutex              // guards what the transport's goroutines touch
	cancel   context.CancelCauseFunc // ends the try under way
	timer    *time.Timer
	deadline time.Time     // of the wait under way
	limit    time.Duration // of the wait under way
	cause    error         // with which its end cancels the try
	held     bool          // the caller's body is awaited: the clock stands still
	heard    bool          // the answer's head has come: timer and 1xx are over
	got      bool          // the try has a connection
	conn     connection
}

func newExchange(p *Proxy, w http.ResponseWriter, in *http.Request) *exchange {
	x := &exchange{p: p, w: w, in: in, upgrade: upgradeOf(in.Header)}
	if in.ContentLength != 0 && in.Body != nil && in.Body != http.NoBody {
		x.body = newCallerBody(in.Body, x.waitForCaller)
		x.body.stream = in.ProtoMajor > 1
	}
	return x
}

// end releases everything. Whatever happened, nothing touches the caller's
// request or writer from here on.
func (x *exchange) end() {
	x.release()
	x.body.end(x.w)
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

// closeUnlessRead marks the answer as the connection's last when the caller's
// body has not been read to its end. On a connection that goes on, net/http would
// read the body out before it sends the answer, and wait for a caller who waits
// for it; full duplex, its other way, would look for the next request wherever
// reading stopped, be it in the middle of a broken body.
func (x *exchange) closeUnlessRead() {
	if x.in.ProtoMajor == 1 && x.body.unread() {
		x.w.Header()["Connection"] = []string{"close"}
	}
}

// release ends the try under way.
func (x *exchange) release() {
	if x.up == nil {
		return
	}
	x.hush()
	x.cancel(nil)
	x.up.inFlight.Add(-1)
	x.up = nil
}

// ask gets the head of an answer. A request that certainly reached nobody moves
// on once.
func (x *exchange) ask() (*http.Response, *failure) {
	now := time.Now()
	if spent(x.in.Context(), now) {
		return nil, &failure{reason: comporta.DeadlineExceeded, err: context.DeadlineExceeded}
	}
	header := x.p.outgoing(x.in, x.upgrade)
	up := x.p.pick(nil)
	for first := true; ; first = false {
		start := time.Now()
		res, err := x.try(up, header, start)
		report := Report{Upstream: up.url, Latency: time.Since(start)}
		if err == nil {
			report.Status, report.Result = res.StatusCode, comporta.ResultOf(res.StatusCode)
			x.p.config.Observe(report)
			return res, nil
		}
		f := x.classify(err)
		var next *upstream
		if first {
			next = x.next(f)
		}
		report.Result, report.Moved = f.result, next != nil
		x.release()
		x.p.config.Observe(report)
		if next == nil {
			return nil, f
		}
		up, header = next, header.Clone() // the failed try's goroutines may still hold the old one
	}
}

// try sends the request to one upstream. A nil error leaves the try open until
// release.
func (x *exchange) try(up *upstream, header http.Header, now time.Time) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(x.in.Context())
	x.up = up
	up.inFlight.Add(1)
	x.mu.Lock()
	x.cancel = cancel
	x.held, x.heard, x.got, x.conn = false, false, false, connection{}
	x.wait(errNoConnection, x.p.config.ConnectTimeout)
	x.mu.Unlock()

	out := (&http.Request{
		Method: x.in.Method,
		URL: &url.URL{
			Scheme: up.scheme, Host: up.url.Host, Path: x.in.URL.Path, RawPath: x.in.URL.RawPath,
			RawQuery: x.in.URL.RawQuery, ForceQuery: x.in.URL.ForceQuery,
		},
		Host:          x.in.Host,
		Header:        header,
		ContentLength: x.in.ContentLength,
		Trailer:       x.in.Trailer, // shared: the server fills it when the body ends
	}).WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:        x.connected,
		Got1xxResponse: x.inform,
	}))
	settled := func() {}
	if x.body != nil {
		out.Body = x.body
		settled = x.body.attend(ctx, x.w)
	}
	seal(out)
	writePatience(ctx, now, header)
	res, err := up.transport.RoundTrip(out)
	settled()
	x.hush()
	if err == nil && !final(res.StatusCode) {
		_ = res.Body.Close() // given up
		return nil, fmt.Errorf("%w: %d", errStatus, res.StatusCode)
	}
	return res, err
}

// final reports whether a status can end an exchange. The transport takes any
// three digits for a status, and over HTTP/2 any number; the server panics when
// it is to send such a one.
func final(status int) bool {
	return status >= 200 && status <= 999 || status == http.StatusSwitchingProtocols
}

// wait begins a bounded wait; the caller holds mu.
func (x *exchange) wait(cause error, limit time.Duration) {
	x.cause, x.limit, x.deadline = cause, limit, time.Now().Add(limit)
	if x.timer == nil {
		x.timer = time.AfterFunc(limit, x.expire)
		return
	}
	x.timer.Reset(limit)
}

// expire cancels the try, unless the timer fired for a wait that had just ended.
func (x *exchange) expire() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.heard && !x.held && !time.Now().Before(x.deadline) {
		x.cancel(x.cause)
	}
}

// connected is told by the transport that the try has its connection.
func (x *exchange) connected(info httptrace.GotConnInfo) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.heard {
		return
	}
	x.got, x.conn = true, x.up.connection(info.Conn)
	x.wait(errNoAnswer, x.p.config.Timeout)
}

// waitForCaller stops the clock while the caller's body is awaited.
func (x *exchange) waitForCaller(on bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.heard {
		return
	}
	if x.held = on; on {
		x.timer.Stop()
	} else {
		x.wait(x.cause, x.limit)
	}
}

// hush ends the part of the try in which the transport may call back.
func (x *exchange) hush() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.heard = true
	x.timer.Stop()
}

// inform relays an informational answer. The headers that middleware has set for
// the final answer are kept for that, and stay out of this one.
func (x *exchange) inform(code int, header textproto.MIMEHeader) error {
	if code == http.StatusSwitchingProtocols {
		// Only HTTP/2 has it here, which knows no such status (RFC 9113, 8.6). The
		// server would take it for the final one.
		return fmt.Errorf("%w: %d", errStatus, code)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.heard || !x.in.ProtoAtLeast(1, 1) {
		return nil // HTTP/1.0 knows no informational answers
	}
	h := x.w.Header()
	kept := h.Clone()
	clear(h)
	copyAnswer(h, http.Header(header))
	x.w.WriteHeader(code)
	clear(h)
	maps.Copy(h, kept)
	return nil
}

// next returns where a failed request may go on: nowhere, unless no byte of it
// was sent and none of its body was read.
func (x *exchange) next(f *failure) *upstream {
	if touched, _ := x.body.state(); touched || f.reason != comporta.UpstreamUnavailable {
		return nil
	}
	if f.stale {
		return x.up // a new connection will do
	}
	return x.p.pick(x.up)
}
