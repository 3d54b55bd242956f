package front

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// http2 is net/http's server for the connections that speak HTTP/2.
type http2 struct {
	server *http.Server
	conns  chan net.Conn
	closed chan struct{}
	wg     sync.WaitGroup // of the server's accept loop

	mu             sync.Mutex
	started, ended bool
}

// maxStreams bounds what one connection may ask at once.
const maxStreams = 250

// maxFrame bounds a frame, in octets. It is the least that there is, and what clients
// send unless they are told that more is welcome; a connection holds one in memory.
const maxFrame = 16 << 10

func newHTTP2(c *Config) *http2 {
	h := &http2{conns: make(chan net.Conn), closed: make(chan struct{})}
	handler := c.Handler
	if c.Limits.BodyRate > 0 {
		handler = paced(handler, c.Limits.BodyRate)
	}
	h.server = &http.Server{
		Handler: sameHosts(c, handler), ReadHeaderTimeout: c.Limits.HeaderTimeout, IdleTimeout: c.Limits.Idle,
		MaxHeaderBytes: c.Limits.Header, DisableGeneralOptionsHandler: true,
		BaseContext: func(net.Listener) context.Context { return c.BaseContext },
		ErrorLog:    slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug), // anybody can break a connection
		Protocols:   new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame, WriteByteTimeout: c.Limits.WriteStall,
		},
	}
	h.server.Protocols.SetHTTP2(true)
	h.server.Protocols.SetUnencryptedHTTP2(c.H2C)
	return h
}

// sameHosts refuses the hosts that HTTP/1 refuses. All else that is malformed
// net/http finds in the frames.
func sameHosts(c *Config, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !validHost(r.Host) {
			c.Refuse(w, r, errHost)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// push gives a connection to the server, which closes it in the end. It reports false
// when the server has ended.
func (h *http2) push(nc net.Conn) bool {
	h.start()
	select {
	case h.conns <- nc:
		return true
	case <-h.closed:
		return false
	}
}

// start lets the server accept, once, unless it has ended.
func (h *http2) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started || h.ended {
		return
	}
	h.started = true
	h.wg.Go(func() {
		if err := h.server.Serve(h); !errors.Is(err, http.ErrServerClosed) {
			_ = h.Close() // cannot be: Accept fails only when it is closed
		}
	})
}

// farewell is all that an ended server says: SETTINGS, and GOAWAY before the first
// stream (RFC 9113, 6.8): nothing that the client has sent or sends was looked at.
const farewell = "\x00\x00\x00\x04\x00\x00\x00\x00\x00" +
	"\x00\x00\x08\x07\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"

// goAway is linger for a client that has just begun to speak HTTP/2 to an ended server.
func goAway(nc net.Conn) {
	if nc.SetDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	if _, err := io.WriteString(nc, farewell); err != nil {
		return
	}
	if half, ok := nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, nc, lingerSize) // its end is all that matters
	}
}

// Accept implements net.Listener.
func (h *http2) Accept() (net.Conn, error) {
	select {
	case <-h.closed: // before what waits: it would hear of no end
		return nil, net.ErrClosed
	default:
	}
	select {
	case nc := <-h.conns:
		return nc, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *http2) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.ended = true
		close(h.closed)
	}
	return nil
}

// Addr implements net.Listener.
func (*http2) Addr() net.Addr { return &net.TCPAddr{} }

// shutdown lets streams end, and tells clients to send no more.
func (h *http2) shutdown(ctx context.Context) error {
	_ = h.Close()
	err := h.server.Shutdown(ctx)
	h.wg.Wait()
	return err
}

// cut closes every connection.
func (h *http2) cut() error {
	_ = h.Close()
	err := h.server.Close()
	h.wg.Wait()
	return err
}
