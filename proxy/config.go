package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/breaker"
)

// The defaults of Config.
const (
	DefaultTimeout        = 30 * time.Second
	DefaultConnectTimeout = 5 * time.Second
	DefaultIdleTimeout    = 4 * time.Second
	DefaultMaxConnections = 256
)

// maxResponseHeader bounds the head of an upstream's answer, in bytes.
const maxResponseHeader = 256 << 10

// Config says where and how a Proxy forwards.
type Config struct {
	// Upstreams are the addresses of the service, all equal: scheme and host only,
	// for paths are forwarded as they are. The scheme is http, https (HTTP/2 where
	// the upstream offers it) or h2c (HTTP/2 without TLS, as gRPC services speak
	// it). Required.
	Upstreams []*url.URL
	// Timeout bounds the wait for the head of an answer, from the moment that there
	// is a connection. It stands still while the caller's body is awaited, and begins
	// anew with each piece of it: a slow caller is not a slow service. 0 means
	// DefaultTimeout. The deadline of the request's context, where there is one,
	// bounds the whole exchange besides.
	Timeout time.Duration
	// ConnectTimeout bounds the wait for a connection: a free one of the pool, or a
	// new one with its TLS handshake. 0 means DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept. Keep it below the
	// upstream's own (5 s in Node, 75 s in nginx): a request on a connection that
	// the upstream just gave up fails, since it is not sent twice. 0 means
	// DefaultIdleTimeout.
	IdleTimeout time.Duration
	// MaxConnections bounds the connections to each upstream. 0 means
	// DefaultMaxConnections.
	MaxConnections int
	// Breaker stops the calls to an upstream that mostly fails; nil means none. What
	// an upstream answers counts against it only while another can take over: one
	// that stands alone is stopped when it does not answer, and never for what it says.
	Breaker *breaker.Config
	// Health checks the upstreams while Run runs; nil means none.
	Health *Health
	// SlowStart is how long an upstream that comes back, after its checks or its
	// breaker had sent it away, gets less than its share. 0 means DefaultSlowStart.
	SlowStart time.Duration
	// Retries lets some requests be sent once more; nil, the default, none.
	Retries *Retries
	// Keep is the Proxy whose place this one takes, for a reload: of an upstream that
	// is configured as before it keeps connections, breaker, health and counts. nil
	// means none.
	Keep *Proxy
	// TLS configures https upstreams. nil means the system's roots.
	TLS *tls.Config
	// DialContext makes connections; nil means TCP.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)

	// Forward writes the forwarding headers onto out, from which those of the caller
	// are removed by then; hop-by-hop headers are too. nil means the address of the
	// TCP peer, the Host and the scheme that the caller used.
	Forward func(in *http.Request, out http.Header)
	// Fail answers a request that could not be forwarded; err says why. Nothing of
	// an answer has been written. nil means a plain text.
	Fail func(w http.ResponseWriter, r *http.Request, reason comporta.Reason, err error)
	// Observe is told of each try to reach an upstream, in the goroutine of the
	// request. nil means nobody.
	Observe func(Report)
	// Trace is told what changes.
	Trace Trace

	ownDial bool // DialContext was given
}

// Trace is a set of hooks; nil ones are not called. They are called from many
// goroutines and must not block.
type Trace struct {
	// Health is called when the checks send an upstream away, with the reason, and
	// when they bring it back, with nil.
	Health func(now time.Time, upstream *url.URL, why error)
	// Breaker is called when the breaker of an upstream changes its state.
	Breaker func(now time.Time, upstream *url.URL, change breaker.Change)
}

// Report is what came of one try to get an answer out of an upstream.
type Report struct {
	Upstream *url.URL // as configured; not to be modified
	// Result is comporta.ResultOf the status, or how the try failed before one:
	// ResultUnreachable, ResultTimeout or ResultAbandoned. The latter says that the
	// caller left or sent a broken body, and nothing about the upstream.
	Result  comporta.Result
	Status  int           // 0 without an answer
	Latency time.Duration // from the start of the try to the head of the answer, or to the failure
	// Moved is set when the upstream certainly saw nothing of the request, which
	// therefore goes on to another connection.
	Moved bool
	// Retried is set when the request is sent again, although the upstream may have
	// seen it; see Retries.
	Retried bool
}

// problems checks c after withDefaults.
func (c *Config) problems() error {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf("proxy: "+format, args...)) }
	if len(c.Upstreams) == 0 {
		add("Upstreams is empty: name at least one, as http://127.0.0.1:3000")
	}
	for i, u := range c.Upstreams {
		if err := checkUpstream(u); err != nil {
			add("Upstreams[%d]: %w", i, err)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Timeout", c.Timeout}, {"ConnectTimeout", c.ConnectTimeout}, {"IdleTimeout", c.IdleTimeout}, {"SlowStart", c.SlowStart}} {
		if d.value < 0 {
			add("%s is %v: it must be positive, or 0 for the default", d.name, d.value)
		}
	}
	if c.MaxConnections < 0 {
		add("MaxConnections is %d: it must be positive, or 0 for the default", c.MaxConnections)
	}
	if c.Breaker != nil {
		if _, err := breaker.New(*c.Breaker); err != nil {
			problems = append(problems, err)
		}
	}
	if c.Health != nil {
		c.Health.problems(add)
	}
	if c.Retries != nil {
		c.Retries.problems(add)
	}
	return errors.Join(problems...)
}

func checkUpstream(u *url.URL) error {
	switch {
	case u == nil:
		return errors.New("nil: parse an address such as http://127.0.0.1:3000")
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != schemeH2C:
		return fmt.Errorf("%q: the scheme must be http, https or h2c", u.Redacted())
	case u.Hostname() == "":
		return fmt.Errorf("%q: there is no host", u.Redacted())
	case u.User != nil:
		return fmt.Errorf("%q: leave out the credentials, callers bring their own", u.Redacted())
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "":
		return fmt.Errorf("%q: leave out what follows the host, paths are forwarded as they are", u.Redacted())
	}
	return nil
}

func (c *Config) withDefaults() {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = DefaultConnectTimeout
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = DefaultIdleTimeout
	}
	if c.MaxConnections == 0 {
		c.MaxConnections = DefaultMaxConnections
	}
	if c.SlowStart == 0 {
		c.SlowStart = DefaultSlowStart
	}
	if c.Health != nil {
		h := *c.Health
		h.withDefaults()
		c.Health = &h
	}
	if c.Retries != nil {
		r := *c.Retries
		r.withDefaults()
		c.Retries = &r
	}
	if c.DialContext == nil {
		c.DialContext = new(net.Dialer).DialContext
	}
	if c.Forward == nil {
		c.Forward = forwardPeer
	}
	if c.Fail == nil {
		c.Fail = failPlain
	}
	if c.Observe == nil {
		c.Observe = func(Report) {}
	}
}

// failPlain is the refusal of a proxy that stands without a gate.
func failPlain(w http.ResponseWriter, _ *http.Request, reason comporta.Reason, err error) {
	info := reason.Info()
	h := w.Header()
	h.Set(comporta.HeaderDecision, info.Code)
	h.Set("Cache-Control", "no-store")
	h.Set(comporta.HeaderShouldRetry, strconv.FormatBool(info.Retryable))
	if info.Retryable {
		wait := time.Second
		if e, ok := errors.AsType[*UnavailableError](err); ok {
			wait = e.RetryAfter
		}
		h.Set(comporta.HeaderRetryAfter, strconv.FormatInt(max(int64((wait+time.Second-1)/time.Second), 1), 10))
	}
	http.Error(w, info.Title, info.Status)
}
