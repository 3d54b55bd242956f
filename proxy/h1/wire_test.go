package h1

import (
	"bytes"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is a connection whose other end has said all that it will say. It comes in
// pieces: those of the cuts, of which 0 stands for one byte, and then the rest.
type wire struct {
	said   []byte
	cuts   []byte
	closed bool
	heard  bytes.Buffer
}

func (w *wire) Read(p []byte) (int, error) {
	if len(w.said) == 0 {
		return 0, io.EOF
	}
	n := min(len(p), len(w.said))
	if len(w.cuts) > 0 {
		n = min(n, int(w.cuts[0])+1)
		w.cuts = w.cuts[1:]
	}
	copy(p, w.said[:n])
	w.said = w.said[n:]
	return n, nil
}

func (w *wire) Write(p []byte) (int, error)      { return w.heard.Write(p) }
func (w *wire) Close() error                     { w.closed = true; return nil }
func (w *wire) LocalAddr() net.Addr              { return nil }
func (w *wire) RemoteAddr() net.Addr             { return nil }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// never is a guard of waits that do not end by themselves.
type never struct{}

func (never) OverdueAt(time.Time) (time.Time, error) { return time.Time{}, nil }

// atOnce is a guard of waits that end when it is asked.
type atOnce struct{}

func (atOnce) OverdueAt(time.Time) (time.Time, error) { return time.Time{}, os.ErrDeadlineExceeded }

// begun returns a connection on which a request was sent whole.
func begun(w *wire) *Conn {
	c := newConn(NewPool(Config{IdleTimeout: time.Minute, MaxIdle: 1}), w)
	c.Begin(time.Now(), never{}, Patience)
	c.SentAll()
	return c
}

// final reads heads up to the final one.
func final(c *Conn, bodiless bool) (*Head, error) {
	for {
		if h, err := c.ReadHead(bodiless); err != nil || !h.Interim() {
			return h, err
		}
	}
}
