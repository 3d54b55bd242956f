package front

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"
)

// The defaults of Limits that bound memory.
const (
	DefaultHeader = 32 << 10
	DefaultTarget = 8 << 10
	DefaultFields = 128
)

// Config says how a Server serves.
type Config struct {
	// Handler answers requests. Required.
	Handler http.Handler
	// Refuse answers what no handler can be given; f says why. The request holds
	// what could be read: after a malformed head it has no method, header or path.
	// The connection closes after the answer. nil means a plain text.
	Refuse func(w http.ResponseWriter, r *http.Request, f *Fault)
	// TLS makes the server speak TLS; nil means plain text. NextProtos is set by
	// the server.
	TLS *tls.Config
	// H2C accepts HTTP/2 without TLS from clients that begin with it.
	H2C bool
	// ProxyProtocol makes every connection begin with a PROXY protocol header,
	// version 1 or 2, whose address becomes RemoteAddr. It reports whether a peer may
	// send one; other peers are refused, and so are connections without one. nil
	// means no PROXY protocol.
	ProxyProtocol func(peer netip.Addr) bool
	// Connections bounds the open connections, of several servers together; nil
	// means no bound.
	Connections *Connections
	// Limits bound what a request or a connection may cost.
	Limits Limits
	// BaseContext is what the contexts of requests derive from: they end with it.
	// nil means context.Background().
	BaseContext context.Context //nolint:containedctx // as in http.Server
	// Log is told of panics in the handler, and at debug level of broken handshakes;
	// nil means nobody.
	Log *slog.Logger
}

// Limits bound what a request or a connection may cost. Of the durations and the
// rate, 0 means no limit.
type Limits struct {
	Header int // bytes of all header lines; 0 means DefaultHeader
	Target int // bytes of the request target; 0 means DefaultTarget
	Fields int // header fields; 0 means DefaultFields

	// HeaderTimeout bounds the arrival of a head, of the PROXY header and of the TLS
	// handshake, each by itself.
	HeaderTimeout time.Duration
	// Idle bounds the wait for the next request.
	Idle time.Duration
	// BodyIdle bounds the silence within a body that somebody reads, over HTTP/1.
	BodyIdle time.Duration
	// BodyRate is what a body must bring on the average, in bytes a second of waiting
	// for it, after a grace of 5 s. Over HTTP/2 calls of gRPC are exempt.
	BodyRate int64
	// WriteStall is how long a client may take nothing of an answer; it is cut
	// between that and twice that.
	WriteStall time.Duration
}

func (c *Config) problems() error {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf("front: "+format, args...)) }
	if c.Handler == nil {
		add("Handler is nil: give the handler that answers requests")
	}
	if c.TLS != nil && c.H2C {
		add("H2C is set with TLS: HTTP/2 without TLS is for listeners without TLS")
	}
	l := &c.Limits
	for _, n := range []struct {
		name  string
		value int64
	}{{"Header", int64(l.Header)}, {"Target", int64(l.Target)}, {"Fields", int64(l.Fields)}, {"BodyRate", l.BodyRate}} {
		if n.value < 0 {
			add("Limits.%s is %d: it must not be negative", n.name, n.value)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"HeaderTimeout", l.HeaderTimeout}, {"Idle", l.Idle}, {"BodyIdle", l.BodyIdle}, {"WriteStall", l.WriteStall}} {
		if d.value < 0 {
			add("Limits.%s is %v: it must not be negative", d.name, d.value)
		}
	}
	return errors.Join(problems...)
}

func (c *Config) withDefaults() {
	if c.Refuse == nil {
		c.Refuse = refusePlain
	}
	if c.BaseContext == nil {
		c.BaseContext = context.Background()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Connections == nil {
		c.Connections = NewConnections(ConnectionLimits{})
	}
	if c.Limits.Header == 0 {
		c.Limits.Header = DefaultHeader
	}
	if c.Limits.Target == 0 {
		c.Limits.Target = DefaultTarget
	}
	if c.Limits.Fields == 0 {
		c.Limits.Fields = DefaultFields
	}
}
