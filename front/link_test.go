package front

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// linked is a link over a TCP connection, and the client's end of it.
func linked(t *testing.T, stall time.Duration) (l *link, client net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if client, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		_ = conn.Close()
	})
	l = newLink(conn, stall, new(atomic.Bool))
	if l.raw == nil {
		t.Fatal("a TCP connection without its socket")
	}
	return l, client
}

// What the system does not take at once is written when it has room.
func TestWriteWaitsForRoom(t *testing.T) {
	l, client := linked(t, time.Minute)
	want := bytes.Repeat([]byte("0123456789abcdef"), 2<<20) // no buffer of the system holds as much
	failed := make(chan error, 1)
	go func() {
		err := l.write(want)
		failed <- errors.Join(err, l.closeWrite())
	}()
	got, err := io.ReadAll(client)
	if err = errors.Join(err, <-failed); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes came of %d", len(got), len(want))
	}
}

// A client that takes nothing any more ends the write.
func TestWriteStalls(t *testing.T) {
	l, _ := linked(t, 20*time.Millisecond)
	if err := l.write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

// One that is gone fails it, with the words of the connection's own methods.
func TestWriteToTheGone(t *testing.T) {
	l, client := linked(t, time.Minute)
	_ = client.Close()
	for deadline := time.Now().Add(5 * time.Second); ; {
		err := l.write([]byte("hello"))
		if fault, ok := errors.AsType[*net.OpError](err); ok && fault.Op == "write" && fault.Addr != nil {
			return
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
