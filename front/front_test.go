package front

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds whatever a test waits for: only a failing one uses it up.
const patience = 20 * time.Second

// house is a running Server on loopback.
type house struct {
	*Server
	addr string
}

// open serves c on a free port, until the test ends.
func open(t testing.TB, c Config) *house {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		s.Wait()
	})
	return &house{s, l.Addr().String()}
}

// dial opens a connection that gives up in time.
func (h *house) dial(t testing.TB) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", h.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// say sends text and returns all that comes until the connection ends.
func (h *house) say(t testing.TB, text string) string {
	t.Helper()
	c := h.dial(t)
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("after %q: %v", b, err)
	}
	return string(b)
}

// answer is the next answer on a connection.
func answer(t testing.TB, r *bufio.Reader, method string) (*http.Response, string) {
	t.Helper()
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%v after %q", err, b)
	}
	return res, string(b)
}

// echo says what the request was.
func echo(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %q %v", r.Method, r.RequestURI, r.Host, b, err)
}

func TestServes(t *testing.T) {
	h := open(t, Config{Handler: http.HandlerFunc(echo)})
	got := h.say(t, "GET /a?b HTTP/1.1\r\nHost: x\r\n\r\nPOST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"+
		"POST /d HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nde\r\n0\r\n\r\n")
	r := bufio.NewReader(strings.NewReader(got))
	for i, want := range []string{`GET /a?b x "" <nil>`, `POST /c x "abc" <nil>`, `POST /d x "de" <nil>`} {
		res, body := answer(t, r, "GET")
		if res.StatusCode != 200 || body != want || res.Close != (i == 2) {
			t.Errorf("%v %q, want %q", res, body, want)
		}
	}
	if r.Buffered() > 0 {
		t.Errorf("%q is left", got)
	}
}
