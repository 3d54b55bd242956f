//go:build unix

package socket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// pair returns both ends of a connection.
func pair(t *testing.T, network, address string) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if here, err = net.Dial(network, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if there, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = here.Close()
		_ = there.Close()
	})
	return here, there
}

// on calls f once with the descriptor.
func on(t *testing.T, conn net.Conn, f func(fd uintptr)) {
	t.Helper()
	raw := Of(conn)
	if raw == nil {
		t.Fatal("no socket")
	}
	if err := raw.Control(f); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what another end of a socket does.
func eventually(t *testing.T, conn net.Conn, is func(fd uintptr) bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; <-time.After(time.Millisecond) {
		done := false
		on(t, conn, func(fd uintptr) { done = is(fd) })
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("never")
		}
	}
}

func TestSocket(t *testing.T) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		t.Run(network, func(t *testing.T) {
			here, there := pair(t, network, address)
			p := make([]byte, 8)
			on(t, here, func(fd uintptr) {
				if n, err := Receive(fd, p); n != 0 || !errors.Is(err, syscall.EAGAIN) || !Silent(fd) {
					t.Error("with nothing to read:", n, err)
				}
			})
			on(t, there, func(fd uintptr) {
				if n, err := Send(fd, []byte("0123456789")); n != 10 || err != nil {
					t.Error("sent:", n, err)
				}
			})
			eventually(t, here, func(fd uintptr) bool { return !Silent(fd) })
			on(t, here, func(fd uintptr) {
				for _, want := range []string{"01234567", "89"} { // the look took nothing
					if n, err := Receive(fd, p); string(p[:n]) != want || err != nil {
						t.Errorf("%q, %v", p[:n], err)
					}
				}
				if !Silent(fd) {
					t.Error("not silent")
				}
			})
			_ = there.Close()
			eventually(t, here, func(fd uintptr) bool { return !Silent(fd) })
			on(t, here, func(fd uintptr) {
				if n, err := Receive(fd, p); n != 0 || !errors.Is(err, io.EOF) {
					t.Error("at the end:", n, err)
				}
			})
			eventually(t, here, func(fd uintptr) bool { // TCP hears of it after the first piece
				n, err := Send(fd, p)
				return n == 0 && errors.Is(err, syscall.EPIPE)
			})
		})
	}
}

// A receiver that takes nothing stops the writer, without a wait.
func TestSendIntoAFullSocket(t *testing.T) {
	here, there := pair(t, "tcp", "127.0.0.1:0")
	p, sent := bytes.Repeat([]byte("x"), 1<<20), 0
	on(t, here, func(fd uintptr) {
		for {
			n, err := Send(fd, p)
			if sent += n; n == 0 && errors.Is(err, syscall.EAGAIN) {
				return
			}
			if err != nil || n <= 0 || sent > 1<<30 {
				t.Fatal(n, err, sent)
			}
		}
	})
	_ = here.Close()
	if got, err := io.Copy(io.Discard, there); got != int64(sent) || err != nil {
		t.Errorf("%d bytes came of %d: %v", got, sent, err)
	}
}

// The faults are those of the connection's own methods.
func TestFault(t *testing.T) {
	here, there := pair(t, "tcp", "127.0.0.1:0")
	_ = there.(*net.TCPConn).SetLinger(0)
	_ = there.Close()
	_, want := here.Read(make([]byte, 1))
	got := Fault(here, "read", syscall.ECONNRESET)
	if want == nil || got.Error() != want.Error() || !errors.Is(got, syscall.ECONNRESET) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What is no socket, or does more than one, has its own methods only.
func TestOfOthers(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	defer here.Close()
	tcp, _ := pair(t, "tcp", "127.0.0.1:0")
	closed, _ := pair(t, "tcp", "127.0.0.1:0")
	_ = closed.Close()
	for name, conn := range map[string]net.Conn{"pipe": here, "wrapped": struct{ net.Conn }{tcp}, "none": nil} {
		if Of(conn) != nil {
			t.Errorf("%s: a socket", name)
		}
	}
	if raw := Of(closed); raw != nil && raw.Control(func(uintptr) {}) == nil {
		t.Error("closed: a descriptor")
	}
}
