package main

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/proxy"
)

// upstreamLog tells the operator why the service failed, which the answer to the
// caller does not say. An outage fails every request in the same way, so each
// reason has one line in upstreamLogEvery, with a count of what was suppressed since
// the one before; what was suppressed last is told when the reason comes again.
// Its methods may be called from many goroutines.
type upstreamLog struct {
	log       *slog.Logger
	upstreams []*url.URL

	mu   sync.Mutex
	told [comporta.NumReasons]told
}

// told is the last line of a reason.
type told struct {
	at         time.Time
	suppressed int
}

// waitOf returns for how long the proxy will ask nobody; 0 if that is not why it
// failed.
func waitOf(err error) time.Duration {
	if e, ok := errors.AsType[*proxy.UnavailableError](err); ok {
		return e.RetryAfter
	}
	return 0
}

// traceUpstreams tells the operator which upstreams are left alone, and which come
// back.
func traceUpstreams(log *slog.Logger) proxy.Trace {
	return proxy.Trace{
		Health: func(_ time.Time, u *url.URL, why error) {
			if why != nil {
				log.Warn("upstream is out", "upstream", u.Host, "error", why.Error())
			} else {
				log.Info("upstream is back", "upstream", u.Host)
			}
		},
		Breaker: func(_ time.Time, u *url.URL, c breaker.Change) {
			switch c.To {
			case breaker.Open:
				log.Warn("breaker opened", "upstream", u.Host, "calls", c.Calls, "failures", c.Failures, "for", c.Open.String())
			case breaker.Closed:
				log.Info("breaker closed", "upstream", u.Host)
			case breaker.HalfOpen: // the next change says what came of it
			}
		},
	}
}

const (
	upstreamLogEvery = time.Second
	// maxErrorText bounds what is told of an error, in bytes.
	maxErrorText = 300
	// minSecret keeps a query such as ?e from taking all letters of the cause away.
	minSecret = 8
)

func newUpstreamLog(log *slog.Logger, upstreams []*url.URL) *upstreamLog {
	return &upstreamLog{log: log, upstreams: upstreams}
}

// writeAt writes down that r failed, unless the caller was at fault or the reason
// was told a moment ago. Of r it tells the request id alone.
func (l *upstreamLog) writeAt(now time.Time, r *http.Request, reason comporta.Reason, err error) {
	switch reason {
	case comporta.UpstreamUnavailable, comporta.UpstreamFailed, comporta.UpstreamTimeout:
	default:
		return
	}
	suppressed, ok := l.passAt(now, reason)
	if !ok {
		return
	}
	upstream, text := l.read(err)
	l.log.Warn("upstream", "upstream", upstream, "reason", reason.String(), "suppressed", suppressed,
		"error", sparing(text, r.URL.RawQuery), "request_id", r.Header.Get(comporta.HeaderRequestID))
}

// passAt reports whether a line of this reason is due, and how many were
// suppressed before it. A clock that was set back does not silence it.
func (l *upstreamLog) passAt(now time.Time, reason comporta.Reason) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.told[reason]
	if since := now.Sub(t.at); !t.at.IsZero() && since >= 0 && since < upstreamLogEvery {
		t.suppressed++
		return 0, false
	}
	suppressed = t.suppressed
	*t = told{at: now}
	return suppressed, true
}

// read finds the upstream in an error of the proxy, which begins with the address
// when one upstream was asked, and returns what is left to tell.
func (l *upstreamLog) read(err error) (upstream, text string) {
	if err == nil {
		return "", ""
	}
	if len(l.upstreams) == 1 {
		upstream = l.upstreams[0].Host
	}
	text = err.Error()
	if outer, ok := errors.AsType[*url.Error](err); ok { // it says the whole address, with the query
		text = strings.Replace(text, outer.Error(), outer.Err.Error(), 1)
	}
	for _, u := range l.upstreams {
		if rest, ok := strings.CutPrefix(text, "proxy: "+u.Host+": "); ok {
			return u.Host, rest
		}
	}
	return upstream, text
}

// sparing returns the cause without what may hold a secret: the query, and the
// lines of an answer that net/http quotes when it cannot read them.
func sparing(text, query string) string {
	if len(query) >= minSecret {
		text = strings.ReplaceAll(text, query, "…")
	}
	for _, quoting := range [...]string{"malformed MIME header", "malformed HTTP response", "malformed HTTP status code", "malformed HTTP version"} {
		if i := strings.Index(text, quoting); i >= 0 {
			text = text[:i+len(quoting)]
		}
	}
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
	}
	return text
}
