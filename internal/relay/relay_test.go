package relay_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/comporta/comporta/internal/relay"
)

// ask asks over a connection of its own and returns whether there was an answer.
func ask(t *testing.T, address string) bool {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return askOn(c)
}

func askOn(c net.Conn) bool {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return false
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err == nil
}

func TestBreaksAndIsMended(t *testing.T) {
	defer goleak.VerifyNone(t)
	asked := make(chan struct{}, 100)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	defer s.Close()
	line, err := relay.To(strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	old, err := net.Dial("tcp", line.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	for range 2 {
		if !askOn(old) {
			t.Error("no answer")
		}
	}
	line.Break()
	if askOn(old) || ask(t, line.Addr()) {
		t.Error("an answer over a broken line")
	}
	line.Mend()
	if askOn(old) || !ask(t, line.Addr()) {
		t.Error("mended: the old connection lives, or new ones do not")
	}
	if n := len(asked); n != 3 {
		t.Errorf("the server was asked %d times", n)
	}

	line.Mute(true)
	lost := make(chan bool)
	go func() { lost <- ask(t, line.Addr()) }()
	for range 4 {
		<-asked
	}
	line.Cut()
	if <-lost {
		t.Error("an answer over a mute line")
	}
	line.Mute(false)
	if !ask(t, line.Addr()) {
		t.Error("it stays mute")
	}
	if err := line.Close(); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", line.Addr()); err == nil {
		t.Error("closed, and a connection is taken")
	}
}
