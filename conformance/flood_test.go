package conformance

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// crowd opens many connections, a few at a time.
func crowd(t *testing.T, addr string, n int) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, n)
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for i := worker; i < n; i += 16 {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				conns[i] = conn
			}
		})
	}
	wg.Wait()
	t.Cleanup(func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	return conns
}

// soon is how long another caller may wait on a busy machine, while the gateway is
// flooded.
const soon = 5 * time.Second

// cases/proxy.md 39: whoever sends a byte a second is cut when its head is late,
// and others are served meanwhile.
func TestCase_Proxy_E39_Slowloris(t *testing.T) {
	const late = 2 * time.Second
	g := serve(t, answering(t), "admission: {capacity: 64}\nlimits: {header_timeout: 2s}\n")
	g.served(t)
	before := g.memory(t)
	conns := crowd(t, g.addr, 1000)
	start := time.Now()
	var cut atomic.Int64
	var wg sync.WaitGroup
	for i, conn := range conns {
		wg.Go(func() {
			head := []byte("GET /slow HTTP/1.1\r\nHost: a\r\nX-Slow: " + fmt.Sprint(i))
			go func() {
				for _, b := range head {
					if _, err := conn.Write([]byte{b}); err != nil {
						return
					}
					<-time.After(time.Second)
				}
			}()
			_ = conn.SetReadDeadline(start.Add(late + 5*time.Second))
			if _, err := io.Copy(io.Discard, conn); !isTimeout(err) {
				cut.Add(1)
			}
			_ = conn.Close()
		})
	}
	<-time.After(late / 2)
	took := g.served(t)
	during := g.memory(t)
	wg.Wait()
	t.Logf("all were cut within %v; another caller was served in %v; %d bytes a connection",
		time.Since(start).Round(time.Millisecond), took, (during-before)/int64(len(conns)))
	if cut.Load() != int64(len(conns)) || took > soon || during-before > int64(len(conns))*(64<<10) {
		t.Errorf("%d of %d were cut, another caller waited %v, memory %d and then %d", cut.Load(), len(conns), took, before, during)
	}
}

// The same while it is not yet known what the connection speaks: in the preface of
// HTTP/2 (CVE-2026-56853), and in the handshake of TLS (CVE-2026-22045).
func TestCase_Proxy_E39_SlowBeginnings(t *testing.T) {
	limits := "admission: {capacity: 64}\nlimits: {header_timeout: 2s}\n"
	plain := serve(t, answering(t), limits)
	secure := serve(t, answering(t), limits+fmt.Sprintf("listen: [{addr: \"127.0.0.1:0\", tls: %s}]\n", certificate(t)))
	for what, c := range map[string]struct{ addr, text string }{
		"nothing":                    {plain.addr, ""},
		"a part of the preface":      {plain.addr, "PRI * HTTP/2.0\r\n\r\nS"},
		"the first line of it":       {plain.addr, "PRI * HTTP/2.0\r\n"},
		"a part of the first line":   {plain.addr, "GET /"},
		"nothing to TLS":             {secure.addr, ""},
		"a record's head":            {secure.addr, "\x16\x03\x01\x01\x00\x01"},
		"an unfinished client hello": {secure.addr, string(hello(t))},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, c.addr)
			if _, err := io.WriteString(conn, c.text); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			_ = conn.SetReadDeadline(start.Add(10 * time.Second))
			if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
				t.Errorf("after 10 s the connection is open")
			}
			t.Logf("cut after %v", time.Since(start).Round(100*time.Millisecond))
		})
	}
}

// hello is the beginning of a handshake.
func hello(t *testing.T) []byte {
	t.Helper()
	client, server := net.Pipe()
	go func() {
		_ = tls.Client(client, &tls.Config{ServerName: "a"}).Handshake()
	}()
	text := make([]byte, 100)
	if _, err := io.ReadFull(server, text); err != nil {
		t.Fatal(err)
	}
	_ = server.Close()
	return text
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// h2conn is a connection of HTTP/2 that keeps no rules.
type h2conn struct {
	net.Conn

	framer *http2.Framer
	head   bytes.Buffer
	coder  *hpack.Encoder
}

// last is the ping after a flood: its answer says that the flood was digested.
var last = [8]byte{'l', 'a', 's', 't'}

// speak opens a connection, and reads whatever comes until it is closed or the last
// ping is answered.
func speak(t *testing.T, addr string) (conn *h2conn, over <-chan error) {
	t.Helper()
	c := &h2conn{Conn: dial(t, addr)}
	c.framer = http2.NewFramer(c.Conn, c.Conn)
	c.coder = hpack.NewEncoder(&c.head)
	if _, err := io.WriteString(c.Conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := c.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() {
		for {
			frame, err := c.framer.ReadFrame()
			if err != nil {
				end <- err
				return
			}
			switch f := frame.(type) {
			case *http2.GoAwayFrame:
				end <- fmt.Errorf("GOAWAY %v", f.ErrCode)
				return
			case *http2.PingFrame:
				if f.IsAck() && f.Data == last {
					end <- errDigested
					return
				}
			}
		}
	}()
	return c, end
}

// block is the head of a request.
func (c *h2conn) block(path string, more ...string) []byte {
	c.head.Reset()
	fields := append([]string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", path}, more...)
	for i := 0; i < len(fields); i += 2 {
		_ = c.coder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true}) // to a buffer
	}
	return c.head.Bytes()
}

// hanging is a service that never answers below /hang, and counts who waits there.
func hanging(t *testing.T) (url string, most *atomic.Int64) {
	t.Helper()
	var now atomic.Int64
	most = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/hang" {
			_, _ = io.WriteString(w, "ok")
			return
		}
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-r.Context().Done()
		now.Add(-1)
	}))
	t.Cleanup(s.Close)
	return s.URL, most
}

var errDigested = errors.New("all was digested")

// flood writes until the gateway hangs up, or n times, and demands that memory
// stays bounded and others are served.
func flood(t *testing.T, g *gateway, n int, write func(c *h2conn, i int) error) (written int) {
	t.Helper()
	g.served(t)
	before := g.memory(t)
	c, over := speak(t, g.addr)
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	var why error
	for written < n && why == nil {
		select {
		case why = <-over:
		default:
			why = write(c, written)
			written++
		}
	}
	took := g.served(t)
	if why == nil {
		if why = c.framer.WritePing(false, last); why == nil {
			why = <-over
		}
	}
	during := g.memory(t)
	if isTimeout(why) {
		t.Error("the gateway neither hangs up nor goes on")
	}
	t.Logf("%d written, then: %v; memory grew by %d KiB; another caller was served in %v", written, why, (during-before)>>10, took)
	// Garbage that is not collected yet counts too; what grew with the flood would
	// be more.
	if during-before > 128<<20 {
		t.Errorf("memory was %d and is %d", before, during)
	}
	if took > soon {
		t.Errorf("another caller waited %v", took)
	}
	return written
}

// Streams that are reset as soon as they are opened (CVE-2023-44487).
func TestRapidReset(t *testing.T) {
	up, most := hanging(t)
	g := serve(t, up, "admission: {capacity: 1000, queue_wait: 0s}\nupstream: {max_connections: 1000}\n")
	const streams = 50_000 // whose heads alone, kept, would be some hundred MiB
	flood(t, g, streams, func(c *h2conn, i int) error {
		id := uint32(2*i + 1)
		if err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block("/hang"), EndStream: true, EndHeaders: true}); err != nil {
			return err
		}
		return c.framer.WriteRSTStream(id, http2.ErrCodeCancel)
	})
	t.Logf("the service had at most %d at once", most.Load())
	if most.Load() > 500 {
		t.Errorf("%d requests of one connection were at the service at once", most.Load())
	}
}

// A head that never ends (CVE-2023-45288): the gateway hangs up long before it has
// read what a head may hold a hundred times.
func TestContinuationFlood(t *testing.T) {
	g := serve(t, answering(t), "admission: {capacity: 64}\n")
	const piece, most = 16 << 10, 2000
	filler := bytes.Repeat([]byte("x"), piece-1000)
	written := flood(t, g, most, func(c *h2conn, i int) error {
		if i == 0 {
			return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block("/")})
		}
		c.head.Reset()
		_ = c.coder.WriteField(hpack.HeaderField{Name: fmt.Sprintf("x-%d", i), Value: string(filler), Sensitive: true})
		return c.framer.WriteContinuation(1, false, c.head.Bytes())
	})
	if written >= most {
		t.Errorf("%d MiB of a head were taken", most*piece>>20)
	}
}

// The same in empty pieces, which cost nothing to send and never fill a head.
func TestEmptyContinuationFlood(t *testing.T) {
	g := serve(t, answering(t), "admission: {capacity: 64}\nlimits: {header_timeout: 2s}\n")
	flood(t, g, 200_000, func(c *h2conn, i int) error {
		if i == 0 {
			return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block("/")})
		}
		return c.framer.WriteContinuation(1, false, nil)
	})
}

// Frames that want an answer, from a caller that reads none (CVE-2019-9512, -9515).
func TestControlFloods(t *testing.T) {
	g := serve(t, answering(t), "admission: {capacity: 64}\n")
	t.Run("ping", func(t *testing.T) {
		flood(t, g, 200_000, func(c *h2conn, _ int) error { return c.framer.WritePing(false, [8]byte{}) })
	})
	t.Run("settings", func(t *testing.T) {
		flood(t, g, 200_000, func(c *h2conn, _ int) error { return c.framer.WriteSettings() })
	})
}

// What ten thousand idle connections hold, before their first request and after.
func TestIdleConnections(t *testing.T) {
	const n, most = 10_000, 48 << 10
	g := serve(t, answering(t), "admission: {capacity: 64}\n")
	for range 100 {
		g.served(t)
	}
	before := g.memory(t)
	conns := crowd(t, g.addr, n)
	took := g.served(t)
	silent := (g.memory(t) - before) / n
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < n; i += 8 {
				if err := once(conns[i]); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	kept := (g.memory(t) - before) / n
	t.Logf("%d connections: %d bytes each before a request, %d after one; another caller was served in %v", n, silent, kept, took)
	if silent > most || kept > most || took > soon {
		t.Errorf("want at most %d bytes each", most)
	}
}

// once makes one request on a connection that stays.
func once(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "GET /kept HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return err
	}
	text := make([]byte, 0, 1024)
	for !bytes.HasSuffix(text, []byte("\r\n\r\nok")) {
		n, err := conn.Read(text[len(text):cap(text)])
		if err != nil {
			return fmt.Errorf("after %q: %w", text, err)
		}
		text = text[:len(text)+n]
	}
	return nil
}
