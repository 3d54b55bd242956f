package memhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta/internal/memhttp"
)

// serve runs f in a bubble with a server under the name "service". The bubble
// itself fails the test when a goroutine is left.
func serve(t *testing.T, handler http.HandlerFunc, f func(t *testing.T, n *memhttp.Network, c *http.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var n memhttp.Network
		s := n.Serve("service", handler)
		c := n.Client()
		f(t, &n, c)
		c.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// get asks and returns the status.
func get(c *http.Client, url string) (status int, err error) {
	res, err := c.Get(url)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

func TestRequestAndAnswer(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("From", r.RemoteAddr)
		_, _ = io.Copy(w, r.Body)
	}
	serve(t, echo, func(t *testing.T, n *memhttp.Network, _ *http.Client) {
		c := &http.Client{Transport: n.Transport(netip.MustParseAddr("203.0.113.9"))}
		defer c.CloseIdleConnections()
		big := strings.Repeat("x", 5*memhttp.BufferSize)
		res, err := c.Post("http://service/", "text/plain", strings.NewReader(big))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || string(body) != big {
			t.Errorf("got %d bytes, %v", len(body), err)
		}
		if from := res.Header.Get("From"); !strings.HasPrefix(from, "203.0.113.9:") {
			t.Errorf("RemoteAddr = %q", from)
		}
		_ = res.Body.Close()
	})
}

// A client's timeout of an hour passes at once, and exactly.
func TestTimeoutInVirtualTime(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	serve(t, hang, func(t *testing.T, _ *memhttp.Network, c *http.Client) {
		c.Timeout = time.Hour
		start := time.Now()
		_, err := get(c, "http://service/")
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("got %v, want a timeout", err)
		}
		if took := time.Since(start); took != time.Hour {
			t.Errorf("took %v, want 1h", took)
		}
	})
}

// The server's own timeouts rest on the deadlines of the connection.
func TestServerReadTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memhttp.Network
		s := n.ServeConfig("service", &http.Server{ReadHeaderTimeout: 5 * time.Second})
		defer s.Close()
		conn, err := n.DialContext(t.Context(), "tcp", "service")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		start := time.Now()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(conn); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("cut after %v, want 5s", took)
		}
	})
}

func TestNobodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memhttp.Network
		if _, err := n.DialContext(t.Context(), "tcp", "nobody:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v, want connection refused", err)
		}
		l, err := n.Listen("once")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Listen("once"); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("got %v, want address in use", err)
		}
		waiting, err := n.DialContext(t.Context(), "tcp", "once:80")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		_ = l.Close()
		if _, err := waiting.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("a connection nobody accepted reads %v, want EOF", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Close: %v", err)
		}
		again, err := n.Listen("once")
		if err != nil {
			t.Errorf("the name is not free after Close: %v", err)
		}
		_ = again.Close()
	})
}

// A dial that finds the backlog full waits as long as its context says.
func TestDialWaitsForItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memhttp.Network
		l, err := n.Listen("full")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		for i := 0; ; i++ {
			if _, err := n.DialContext(ctx, "tcp", "full"); err != nil {
				if !errors.Is(err, context.DeadlineExceeded) || i == 0 {
					t.Errorf("dial %d: %v", i, err)
				}
				return
			}
		}
	})
}

// A crash of the server is seen at once, whatever the client was waiting for.
func TestServerCloseCutsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memhttp.Network
		started := make(chan struct{})
		s := n.Serve("service", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(started)
			<-r.Context().Done()
		}))
		c := n.Client()
		result := make(chan error)
		go func() {
			_, err := get(c, s.URL)
			result <- err
		}()
		<-started
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-result; err == nil {
			t.Error("an answer from a closed server")
		}
	})
}

// conns returns both ends of one connection.
func conns(t *testing.T, n *memhttp.Network) (client, server net.Conn) {
	t.Helper()
	l, err := n.Listen("pair")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = n.DialContext(t.Context(), "tcp", "pair"); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

func TestConn(t *testing.T) {
	read := func(c net.Conn) string {
		p := make([]byte, 16)
		n, err := c.Read(p)
		return fmt.Sprintf("%q %v", p[:n], errorName(err))
	}
	write := func(c net.Conn) string {
		n, err := c.Write([]byte("x"))
		return fmt.Sprintf("%d %v", n, errorName(err))
	}
	tests := []struct {
		name string
		do   func(c, s net.Conn) string
		want string
	}{
		{"what was written before a close is read", func(c, s net.Conn) string {
			return write(c) + errorName(c.Close()) + read(s) + read(s)
		}, `1 <nil><nil>"x" <nil>"" EOF`},
		{"writing to a closed end", func(c, s net.Conn) string { return errorName(c.Close()) + write(s) }, "<nil>0 broken pipe"},
		{"reading from one's own closed end", func(c, s net.Conn) string {
			return write(s) + errorName(c.Close()) + read(c)
		}, `1 <nil><nil>"" closed`},
		{"half closed", func(c, s net.Conn) string {
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
			return read(s) + write(s) + read(c) + write(c)
		}, `"" EOF1 <nil>"x" <nil>0 closed`},
		{"a read deadline passes and is lifted", func(c, s net.Conn) string {
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			first := read(c)
			_ = c.SetReadDeadline(time.Time{})
			return first + write(s) + read(c)
		}, `"" deadline1 <nil>"x" <nil>`},
		{"a deadline in the past", func(c, _ net.Conn) string {
			_ = c.SetDeadline(time.Now().Add(-time.Second))
			return read(c) + write(c)
		}, `"" deadline0 deadline`},
		{"a write deadline passes on a full buffer", func(c, _ net.Conn) string {
			_ = c.SetWriteDeadline(time.Now().Add(time.Minute))
			n, err := c.Write(make([]byte, memhttp.BufferSize+1))
			return fmt.Sprint(n-memhttp.BufferSize, " ", errorName(err))
		}, "0 deadline"},
		{"a deadline that was moved does not fire at its old time", func(c, s net.Conn) string {
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			_ = c.SetReadDeadline(time.Now().Add(time.Hour))
			start := time.Now()
			return read(c) + time.Since(start).String()
		}, `"" deadline1h0m0s`},
		{"nothing is asked", func(c, _ net.Conn) string {
			n, err := c.Read(nil)
			return fmt.Sprint(n, err)
		}, "0 <nil>"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n memhttp.Network
				c, s := conns(t, &n)
				defer s.Close()
				defer c.Close()
				if got := tt.do(c, s); got != tt.want {
					t.Errorf("got %s\nwant %s", got, tt.want)
				}
			})
		})
	}
}

func errorName(err error) string {
	switch {
	case err == nil:
		return "<nil>"
	case errors.Is(err, io.EOF):
		return "EOF"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "deadline"
	case errors.Is(err, net.ErrClosed):
		return "closed"
	case errors.Is(err, syscall.EPIPE):
		return "broken pipe"
	}
	return err.Error()
}

// Bytes arrive in order and complete, however reader and writer interleave.
func TestConnKeepsOrder(t *testing.T) {
	var n memhttp.Network // outside a bubble it is a network as well
	c, s := conns(t, &n)
	want := make([]byte, 10*memhttp.BufferSize)
	for i := range want {
		want[i] = byte(i * 7 >> 3)
	}
	go func() {
		for rest := want; len(rest) > 0; {
			k := min(len(rest), 1+len(rest)%4099)
			if _, err := c.Write(rest[:k]); err != nil {
				t.Error(err)
				return
			}
			rest = rest[k:]
		}
		_ = c.Close()
	}()
	got, err := io.ReadAll(s)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v; want %d", len(got), err, len(want))
	}
	_ = s.Close()
}

func ExampleNetwork() {
	var network memhttp.Network
	server := network.Serve("service", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello")
	}))
	defer server.Close()
	client := network.Client()
	defer client.CloseIdleConnections()

	res, err := client.Get("http://service/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	fmt.Printf("%s\n", body)
	// Output: hello
}
