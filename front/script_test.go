package front

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// script is a connection that says its pieces one by one, and writes down what it
// hears.
type script struct {
	pieces [][]byte
	heard  strings.Builder
	closed bool
}

func (s *script) Read(p []byte) (int, error) {
	for len(s.pieces) > 0 && len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
	}
	if s.closed || len(s.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.pieces[0])
	s.pieces[0] = s.pieces[0][n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error) { return s.heard.Write(p) }
func (s *script) Close() error                { s.closed = true; return nil }

func (*script) LocalAddr() net.Addr  { return peerAddr }
func (*script) RemoteAddr() net.Addr { return peerAddr }

func (*script) SetDeadline(time.Time) error      { return nil }
func (*script) SetReadDeadline(time.Time) error  { return nil }
func (*script) SetWriteDeadline(time.Time) error { return nil }

var peerAddr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.7:4711"))

// play serves a script to its end, and returns what was answered.
func play(t testing.TB, c Config, pieces ...string) string {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return playOn(s, pieces...)
}

func playOn(s *Server, pieces ...string) string {
	nc := &script{}
	for _, p := range pieces {
		nc.pieces = append(nc.pieces, []byte(p))
	}
	newConn(s, nc, nc.RemoteAddr().String(), place{}).serve()
	return nc.heard.String()
}

// silent fails the test when a request reaches it.
func silent(t testing.TB) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s reaches the handler", r.Method, r.RequestURI)
	})
}

// status is that of the first answer in text.
func status(text string) string {
	if len(text) < len("HTTP/1.1 200") {
		return ""
	}
	return text[len("HTTP/1.1 "):len("HTTP/1.1 200")]
}
