package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/proxy/h1"
)

// schemeH2C is the scheme of upstreams that speak HTTP/2 without TLS.
const schemeH2C = "h2c"

// upstream is one address of the service, with its connections and what is known of
// how it does.
type upstream struct {
	url      *url.URL // as configured
	scheme   string   // as a transport knows it
	making   *Config  // what it was made from
	owner    atomic.Pointer[Proxy]
	inFlight atomic.Int64
	guards   guards
	vitals   vitals
	counts   counts

	// Plain HTTP/1 goes over a pool of our own, everything else over a transport.
	places    *bulkhead.Bulkhead
	pool      *h1.Pool
	transport *http.Transport // nil for plain HTTP/1
}

func newUpstream(u *url.URL, c *Config, alone bool) (*upstream, error) {
	up := &upstream{url: u, scheme: u.Scheme, making: c}
	if err := up.guard(c, alone); err != nil {
		return nil, err
	}
	if u.Scheme != "http" {
		up.transport = newTransport(u, c)
		if u.Scheme == schemeH2C {
			up.scheme = "http"
		}
		return up, nil
	}
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "80")
	}
	up.pool = h1.NewPool(h1.Config{
		Dial:        func(ctx context.Context) (net.Conn, error) { return c.DialContext(ctx, "tcp", address) },
		IdleTimeout: c.IdleTimeout, MaxIdle: c.MaxConnections, MaxHead: maxResponseHeader,
	})
	var err error
	up.places, err = bulkhead.New(bulkhead.Config{
		Limit: c.MaxConnections, Queue: waitersPerConnection * c.MaxConnections, MaxWait: c.ConnectTimeout,
		Trace: bulkhead.Trace{Refused: func(e *bulkhead.FullError) {
			if e.Cause == nil {
				up.counts.exhausted.Add(1)
			}
		}},
	})
	return up, err
}

// waitersPerConnection bounds those who wait for a connection. With more, each would
// wait for so long that it had better hear so at once.
const waitersPerConnection = 16

func (up *upstream) closeIdle() {
	if up.transport != nil {
		up.transport.CloseIdleConnections()
		return
	}
	up.pool.CloseIdle()
}

func newTransport(u *url.URL, c *Config) *http.Transport {
	dial := c.DialContext
	t := &http.Transport{
		// No Proxy: the environment of the process must not divert the service's traffic.
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			// The transport lets a dial go on for whoever comes next when its request has
			// given up; it must end all the same.
			ctx, cancel := context.WithTimeout(ctx, c.ConnectTimeout)
			defer cancel()
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &countedConn{Conn: conn}, nil
		},
		TLSClientConfig:        c.TLS.Clone(),
		TLSHandshakeTimeout:    c.ConnectTimeout,
		DisableCompression:     true, // bodies pass as they are
		MaxConnsPerHost:        c.MaxConnections,
		MaxIdleConnsPerHost:    c.MaxConnections,
		IdleConnTimeout:        c.IdleTimeout,
		ExpectContinueTimeout:  continueTime,
		MaxResponseHeaderBytes: maxResponseHeader,
		Protocols:              new(http.Protocols),
	}
	if u.Scheme == schemeH2C {
		t.Protocols.SetUnencryptedHTTP2(true)
	} else {
		t.Protocols.SetHTTP1(true)
		t.Protocols.SetHTTP2(true)
	}
	return t
}

// countedConn knows whether bytes were handed to the network, so that "nothing
// was sent" is a fact and not a guess.
type countedConn struct {
	net.Conn

	sent    atomic.Int64
	writing atomic.Int64 // writes under way: some of their bytes may have left
}

// Write counts what it writes.
func (c *countedConn) Write(p []byte) (int, error) {
	c.writing.Add(1)
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	c.writing.Add(-1)
	return n, err
}

// CloseWrite ends the outgoing direction where the connection can do so: an
// upgraded connection is closed one direction at a time.
func (c *countedConn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}

// connection is what is known of the connection that a try was given.
type connection struct {
	conn   *countedConn // nil where bytes cannot be told apart: many requests share HTTP/2
	before int64        // bytes sent when the try got it
}

func (up *upstream) connection(conn net.Conn) connection {
	if t, ok := conn.(*tls.Conn); ok {
		if t.ConnectionState().NegotiatedProtocol == "h2" {
			return connection{}
		}
		conn = t.NetConn()
	}
	counted, ok := conn.(*countedConn)
	if !ok || up.url.Scheme == schemeH2C {
		return connection{}
	}
	return connection{conn: counted, before: counted.sent.Load()}
}

// untouched reports whether certainly no byte of the try was sent. It is asked
// after the transport has closed the connection, so none can follow.
func (c connection) untouched() bool {
	return c.conn != nil && c.conn.writing.Load() == 0 && c.conn.sent.Load() == c.before
}
