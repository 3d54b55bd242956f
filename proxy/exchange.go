package proxy

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/comporta/comporta"
)

// The causes with which a try ends when its time is over.
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
	payload *[]byte     // a short body that was read ahead; nil if it streams
	// informed is set when the caller was told something before the answer.
	informed bool
	header   http.Header // to send, but for the deadline

	up *upstream // of the try under way, which it counts until release

	mu   sync.Mutex // guards link against those who read the caller's body
	link link       // of the try under way; nil without one

	direct  direct
	transit *transit // nil while only direct tries were made
}

// link is one try to get an answer out of one upstream.
type link interface {
	// ask sends the request and waits for the head of the answer. Without an error
	// the try goes on until end.
	ask(now time.Time) (answer, error)
	// reached reports how far a try came whose ask has failed.
	reached() reach
	// awaitCaller stops and restarts the upstream's clock: the caller's body is
	// awaited, or no more.
	awaitCaller(on bool)
	// end releases what the try holds.
	end()
}

// reach is how much of a request an upstream may have seen.
type reach uint8

const (
	reachedNobody  reach = iota // there was no connection
	reachedPool                 // a connection, of which certainly no byte was used
	reachedService              // what became of the request nobody knows
)

// headers holds the maps of exchanges that are over.
// They begin small: a map of up to eight is walked and emptied faster, and one that
// has grown stays as it is.
var headers = sync.Pool{New: func() any { return make(http.Header) }}

func newExchange(p *Proxy, w http.ResponseWriter, in *http.Request) *exchange {
	x := &exchange{p: p, w: w, in: in, upgrade: upgradeOf(in.Header)}
	x.direct.x = x
	x.header, _ = headers.Get().(http.Header) // the pool holds nothing else
	if in.ContentLength != 0 && in.Body != nil && in.Body != http.NoBody {
		x.body = newCallerBody(x, in.Body)
		x.body.stream = in.ProtoMajor > 1
	}
	return x
}

// end releases everything. Whatever happened, nothing touches the caller's
// request or writer from here on.
func (x *exchange) end() {
	x.release()
	_ = x.body.end(x.w) // a read that goes on hears of it when it returns
	if x.payload != nil {
		payloads.Put(x.payload)
		x.payload = nil
	}
	if x.header != nil {
		clear(x.header)
		headers.Put(x.header)
		x.header = nil
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

// awaitCaller is told by the caller's body when it waits.
func (x *exchange) awaitCaller(on bool) {
	x.mu.Lock()
	l := x.link
	x.mu.Unlock()
	if l != nil {
		l.awaitCaller(on)
	}
}

func (x *exchange) setLink(l link) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.link = l
}

// release ends the try under way.
func (x *exchange) release() {
	if x.link == nil {
		return
	}
	x.link.end()
	x.setLink(nil)
	x.up.inFlight.Add(-1)
	x.up = nil
}

// ask gets the head of an answer. A request that certainly reached nobody moves
// on once; another may be sent again once, if that is configured.
func (x *exchange) ask() (answer, *failure) {
	now := time.Now()
	if spent(x.in.Context(), now) {
		return nil, &failure{reason: comporta.DeadlineExceeded, err: context.DeadlineExceeded}
	}
	if f := x.preload(); f != nil {
		return nil, f
	}
	up, l, wait := x.p.choose(now, nil)
	if up == nil {
		return nil, unavailable(wait)
	}
	x.p.outgoing(x.header, x.in, x.upgrade)
	if x.p.config.Retries != nil {
		x.p.retries.earn(x.p.config.Retries)
	}
	moved, retried := false, false
	start := now
	if x.body != nil {
		start = time.Now() // reading ahead took its time
	}
	for ; ; start = time.Now() {
		a, err := x.try(up, start)
		report := Report{Upstream: up.url, Latency: time.Since(start)}
		var f *failure
		if err != nil {
			f = x.classify(err)
			report.Result = f.result
		} else {
			report.Status, _ = a.head()
			report.Result = comporta.ResultOf(report.Status)
		}
		x.settle(start.Add(report.Latency), l, &report, f)
		var next *upstream
		if !moved {
			next, l = x.next(start, f)
			report.Moved = next != nil
		}
		if next == nil && !retried && x.mayRetry(start, a, f) {
			next, l = x.again(start, f)
			report.Retried = next != nil
		}
		if next == nil && f == nil {
			x.p.config.Observe(report)
			return a, nil
		}
		x.release()
		x.p.config.Observe(report)
		if next == nil {
			return nil, f
		}
		if report.Retried {
			x.sayRetry(1)
			next.counts.retries.Add(1)
		}
		moved, retried, up = moved || report.Moved, retried || report.Retried, next
	}
}

// unavailable is the failure of a request for which no upstream may be asked.
func unavailable(wait time.Duration) *failure {
	return &failure{reason: comporta.UpstreamUnavailable, result: comporta.ResultRefused, err: &UnavailableError{max(wait, time.Millisecond)}}
}

// try asks one upstream. A nil error leaves the try open until release.
func (x *exchange) try(up *upstream, now time.Time) (answer, error) {
	x.up = up
	up.inFlight.Add(1)
	if up.transport == nil {
		x.setLink(&x.direct)
		return x.direct.ask(now)
	}
	if x.transit == nil {
		x.transit = &transit{x: x}
	}
	x.setLink(x.transit)
	return x.transit.ask(now)
}

// final reports whether a status can end an exchange. HTTP/2 takes any number for a
// status; the server panics when it is to send such a one.
func final(status int) bool {
	return status >= 200 && status <= 999 || status == http.StatusSwitchingProtocols
}

// inform relays an informational answer. The headers that middleware has set for
// the final answer are kept for that, and stay out of this one.
func (x *exchange) inform(code int, header http.Header) {
	if !x.in.ProtoAtLeast(1, 1) {
		return // HTTP/1.0 knows no informational answers
	}
	x.informed = true
	h := x.w.Header()
	kept := h.Clone()
	clear(h)
	copyAnswer(h, header)
	x.w.WriteHeader(code)
	clear(h)
	maps.Copy(h, kept)
}

// next returns where a failed request may go on: nowhere, unless no byte of it
// was sent and all of its body can still be had.
func (x *exchange) next(now time.Time, f *failure) (*upstream, leave) {
	if f == nil || f.reason != comporta.UpstreamUnavailable || !x.repeatable() {
		return nil, leave{}
	}
	if f.stale {
		return x.same(now) // a new connection will do
	}
	up, l, _ := x.p.choose(now, x.up)
	return up, l
}

// again returns whom to ask a second time: another if there is one, and after a
// failure the same if it stands alone.
func (x *exchange) again(now time.Time, f *failure) (*upstream, leave) {
	up, l, _ := x.p.choose(now, x.up)
	if up == nil && f != nil {
		return x.same(now)
	}
	return up, l
}

// same returns the upstream of the try under way, if it may be asked again.
func (x *exchange) same(now time.Time) (*upstream, leave) {
	l, open := x.up.allowAt(now, true)
	if open != nil {
		return nil, leave{}
	}
	return x.up, l
}

// repeatable reports whether the caller's body can be sent from its beginning.
func (x *exchange) repeatable() bool {
	touched, _ := x.body.state()
	return x.payload != nil || !touched
}

// expects reports whether the caller waits for leave to send its body.
func (x *exchange) expects() bool {
	vs := x.in.Header["Expect"]
	return len(vs) > 0 && strings.EqualFold(vs[0], "100-continue")
}
