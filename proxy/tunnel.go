package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// tunnel joins the caller's connection with that of an upstream which has agreed
// to switch protocols, until both have said all or one breaks. A nil error means
// that the caller's connection was taken over; else nothing has been written.
func (x *exchange) tunnel(a answer) error {
	if protocol := a.protocol(); x.upgrade == "" || !strings.EqualFold(protocol, x.upgrade) {
		return fmt.Errorf("proxy: the upstream switches to %q when %q was asked", protocol, x.upgrade)
	}
	service, err := a.takeOver()
	if err != nil {
		return err
	}
	defer func() { _ = service.Close() }() // its end is the end of the tunnel
	h := x.w.Header()
	kept := h.Clone()
	a.addHeader(h)
	h["Connection"], h["Upgrade"] = []string{"Upgrade"}, []string{x.upgrade}
	conn, buffered, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		clear(h)
		maps.Copy(h, kept)
		return fmt.Errorf("proxy: switching protocols: %w", err)
	}
	defer func() { _ = conn.Close() }()
	// The end of the request's context (a drain, a deadline) ends the tunnel.
	stop := context.AfterFunc(x.in.Context(), func() {
		_ = conn.Close()
		_ = service.Close()
	})
	defer stop()
	if conn.SetDeadline(time.Time{}) != nil || writeSwitch(buffered.Writer, h) != nil {
		return nil // the caller is gone, and its connection was ours
	}
	join(conn, fromCaller(conn, buffered.Reader), service)
	return nil
}

// fromCaller reads what the server has read ahead, and then the connection itself:
// the server's reader would cancel the request at the end of the input.
func fromCaller(conn net.Conn, ahead *bufio.Reader) io.Reader {
	if ahead.Buffered() == 0 {
		return conn
	}
	first, err := ahead.Peek(ahead.Buffered())
	if err != nil {
		return conn // cannot be: so much is buffered
	}
	return io.MultiReader(bytes.NewReader(first), conn)
}

// writeSwitch writes the head of the 101 by hand: the server no longer owns the
// connection.
func writeSwitch(w *bufio.Writer, h http.Header) error {
	if _, err := w.WriteString("HTTP/1.1 101 Switching Protocols\r\n"); err != nil {
		return err
	}
	if err := h.Write(w); err != nil {
		return err
	}
	if _, err := w.WriteString("\r\n"); err != nil {
		return err
	}
	return w.Flush()
}

// halfClosedIdle is how long a tunnel may be silent of which one side has ended; it is
// cut between that and twice that. Some say all and then wait for a long answer, so it
// is minutes; but a side that never ends would keep the tunnel, and its place among the
// streams, for a caller that has left.
const halfClosedIdle = 5 * time.Minute

// way is one direction of a tunnel.
type way struct {
	dst   io.Writer
	src   io.Reader
	heard atomic.Bool   // since the other way looked
	ended chan struct{} // closed when nothing more comes
}

// Read notes that something came.
func (w *way) Read(p []byte) (int, error) {
	n, err := w.src.Read(p)
	if n > 0 {
		w.heard.Store(true)
	}
	return n, err
}

// outlived returns when the way has ended, or with an error when it is silent for too long.
func (w *way) outlived() error {
	w.heard.Store(false)
	ticker := time.NewTicker(halfClosedIdle)
	defer ticker.Stop()
	for {
		select {
		case <-w.ended:
			return nil
		case <-ticker.C:
			if !w.heard.Swap(false) {
				return os.ErrDeadlineExceeded
			}
		}
	}
}

// join copies both ways. An end of input is passed on as such, and the other
// direction goes on while something comes; an error ends both.
func join(caller net.Conn, said io.Reader, service io.ReadWriteCloser) {
	up := &way{dst: service, src: said, ended: make(chan struct{})}
	down := &way{dst: caller, src: service, ended: make(chan struct{})}
	var both sync.WaitGroup
	for _, w := range [...]struct{ this, other *way }{{up, down}, {down, up}} {
		both.Go(func() {
			err := pour(w.this.dst, w.this)
			close(w.this.ended)
			if err == nil {
				err = w.other.outlived()
			}
			if err != nil {
				_ = caller.Close()
				_ = service.Close()
			}
		})
	}
	both.Wait()
}

// pour copies from src to dst and ends dst's input when src's has ended.
func pour(dst io.Writer, src io.Reader) error {
	if _, err := io.Copy(dst, src); err != nil {
		return err
	}
	if half, ok := dst.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed // it cannot be half closed: end both
}
