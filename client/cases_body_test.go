package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/retry"
)

// Part C of cases/client.md: bodies and connections.

func TestCase_Client_C1_BodyIsSentAgain(t *testing.T) {
	run(t, client.Config{}, then(503, 200), func(b *bench) {
		req := request(b.t, b.t.Context(), "PUT", bytes.NewReader([]byte("hello")))
		made, get := 0, req.GetBody
		req.GetBody = func() (io.ReadCloser, error) { made++; return get() }
		if resp, _, err := b.do(req); err != nil || resp.StatusCode != 200 || made != 1 {
			b.t.Errorf("%v, GetBody called %d times", err, made)
		}
		b.expect(2)
		for _, got := range b.service.got {
			if got.body != "hello" || got.length != 5 {
				b.t.Errorf("body %q of %d", got.body, got.length)
			}
		}
	})
}

func TestCase_Client_C2_StreamIsNeverKept(t *testing.T) {
	first := make(chan string, 1)
	answer := func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }
	run(t, client.Config{}, answer, func(b *bench) {
		server := b.network.Serve("stream", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			buffer := make([]byte, 5)
			_, _ = io.ReadFull(r.Body, buffer)
			first <- string(buffer)
			_, _ = io.Copy(io.Discard, r.Body)
			b.service.ServeHTTP(w, r)
		}))
		read, write := io.Pipe()
		start := time.Now()
		go func() {
			_, _ = io.WriteString(write, "hello")
			<-time.After(300 * time.Millisecond)
			_ = write.Close()
		}()
		req := request(b.t, b.t.Context(), "PUT", read)
		req.URL.Host = "stream"
		got := make(chan time.Duration, 1)
		go func() { <-first; got <- time.Since(start) }()
		resp, _, err := b.do(req)
		if err != nil || client.Report(resp).Reason != retry.ReasonNotReplayable {
			b.t.Errorf("%v %+v", err, client.Report(resp))
		}
		if took := <-got; took > 10*time.Millisecond {
			b.t.Errorf("the first byte took %v", took)
		}
		b.expect(1)
		_ = server.Close()
	})
}

// The race detector is the judge: each attempt reads a reader of its own, while
// the transport may still be at the one before.
func TestCase_Client_C5_AnswerBeforeTheBody(t *testing.T) {
	var n atomic.Int32
	big := bytes.Repeat([]byte("x"), 10<<20)
	run(t, client.Config{}, status(200), func(b *bench) {
		server := b.network.Serve("early", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1) < 3 {
				w.WriteHeader(503) // the body is not read
				return
			}
			size, _ := io.Copy(io.Discard, r.Body)
			_, _ = fmt.Fprint(w, size)
		}))
		req := request(b.t, b.t.Context(), "PUT", bytes.NewReader(big))
		req.URL.Host = "early"
		if _, body, err := b.do(req); err != nil || body != fmt.Sprint(len(big)) {
			b.t.Errorf("%q %v", body, err)
		}
		b.http.CloseIdleConnections()
		_ = server.Close()
	})
}

// dials counts the connections that a bench opens.
func (b *bench) dials() *atomic.Int32 {
	n := new(atomic.Int32)
	b.wire.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		n.Add(1)
		return b.network.DialContext(ctx, network, addr)
	}
	return n
}

func TestCase_Client_C6_ConnectionsAreUsedAgain(t *testing.T) {
	const workers, calls = 5, 100
	config := client.Config{Budget: big}
	var turn atomic.Int32
	answer := func(_ int, w http.ResponseWriter, _ *http.Request) {
		code := 503
		if turn.Add(1)%3 == 0 {
			code = 200
		}
		reply(w, code, strings.Repeat("x", 2000))
	}
	run(t, config, answer, func(b *bench) {
		dials := b.dials()
		b.wire.MaxIdleConnsPerHost = workers
		b.work(workers, calls)
		if n := dials.Load(); n > workers {
			b.t.Errorf("%d connections for %d workers", n, workers)
		}
	})
}

func TestCase_Client_C8_D1_TotalOutage(t *testing.T) {
	const workers, calls = 20, 400
	run(t, client.Config{}, status(503), func(b *bench) {
		dials := b.dials()
		b.wire.MaxIdleConnsPerHost = workers
		b.work(workers, calls)
		if n := dials.Load(); n > workers {
			b.t.Errorf("%d connections for %d workers", n, workers)
		}
		if n := b.service.calls(); n > 410 {
			b.t.Errorf("%d calls in a total outage, want at most 410", n)
		}
	})
}

// work makes calls from workers.
func (b *bench) work(workers, calls int) {
	b.t.Helper()
	var left atomic.Int32
	left.Store(int32(calls))
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				resp, err := b.http.Do(request(b.t, b.t.Context(), "GET", nil))
				if err != nil {
					b.t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	wg.Wait()
}

func TestCase_Client_C10_Streaming(t *testing.T) {
	answer := func(_ int, w http.ResponseWriter, _ *http.Request) {
		for range 60 {
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			<-time.After(time.Second)
		}
	}
	config := client.Config{Streaming: true, Policy: retry.Policy{Total: 20 * time.Second}}
	run(t, config, answer, func(b *bench) {
		start := time.Now()
		_, body, err := b.get()
		if took := time.Since(start); err != nil || len(body) != 60 || took != time.Minute {
			b.t.Errorf("%d bytes, %v after %v", len(body), err, took)
		}
	})
	run(t, config, answer, func(b *bench) {
		resp, err := b.http.Do(request(b.t, b.t.Context(), "GET", nil))
		if err != nil {
			b.t.Fatal(err)
		}
		ctx := resp.Request.Context()
		if ctx.Err() != nil {
			b.t.Error("the context ended before the body")
		}
		_ = resp.Body.Close()
		if !errors.Is(ctx.Err(), context.Canceled) {
			b.t.Error("the context outlives the body")
		}
	})
}

func TestCase_Client_C11_RequestIsUnchanged(t *testing.T) {
	run(t, client.Config{Version: "acme/1.0.0", AutoKey: true}, then(503, 503, 200), func(b *bench) {
		req := request(b.t, b.t.Context(), "POST", strings.NewReader("order"), "Accept", "text/plain")
		header, body := req.Header.Clone(), req.Body
		if resp, err := b.client.Transport(b.wire).RoundTrip(req); err != nil || resp.StatusCode != 200 {
			b.t.Fatal(err)
		} else {
			_ = resp.Body.Close()
		}
		if len(req.Header) != len(header) || req.Header.Get("Accept") != "text/plain" || req.Body != body || req.Context() != b.t.Context() {
			b.t.Errorf("the request became %+v", req)
		}
		b.expect(3)
		got := b.service.got[2].header
		if got.Get("Client-Version") != "acme/1.0.0" || got.Get("Retry-Attempt") != "2" || got.Get("Accept") != "text/plain" || got.Get("Idempotency-Key") == "" {
			b.t.Errorf("header %v", got)
		}
	})
}

func TestUpgradeIsUntouched(t *testing.T) {
	answer := func(_ int, w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		_, _ = io.WriteString(conn, line)
		_ = conn.Close()
	}
	run(t, client.Config{}, answer, func(b *bench) {
		resp, err := b.http.Do(request(b.t, b.t.Context(), "GET", nil, "Connection", "Upgrade", "Upgrade", "echo"))
		if err != nil {
			b.t.Fatal(err)
		}
		both, ok := resp.Body.(io.ReadWriteCloser)
		if !ok {
			b.t.Fatalf("%T", resp.Body)
		}
		<-time.After(time.Hour) // longer than every deadline of the operation
		if err := resp.Request.Context().Err(); err != nil {
			b.t.Errorf("the connection's context ended: %v", err)
		}
		_, _ = io.WriteString(both, "hello\n")
		if echo, err := io.ReadAll(both); err != nil || string(echo) != "hello\n" {
			b.t.Errorf("%q %v", echo, err)
		}
		_ = both.Close()
	})
}

// A hostile server costs bounded time and memory.
func TestHostileServers(t *testing.T) {
	endless := func(kind, length string) func(int, http.ResponseWriter, *http.Request) {
		return func(_ int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			w.WriteHeader(503)
			chunk := []byte(strings.Repeat("x", 1<<10))
			for r.Context().Err() == nil {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}
	}
	stalled := func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(503)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	for name, answer := range map[string]func(int, http.ResponseWriter, *http.Request){
		"endless": endless("text/plain", ""), "endless json": endless("application/json", ""),
		"huge": endless("application/json", "99999999999"), "stalled": stalled,
	} {
		t.Run(name, func(t *testing.T) {
			run(t, client.Config{}, answer, func(b *bench) {
				start := time.Now()
				resp, err := b.http.Do(request(b.t, b.t.Context(), "GET", nil))
				if err == nil {
					_ = resp.Body.Close()
				}
				if took := time.Since(start); took > retry.DefaultTotal || b.service.calls() > 4 {
					b.t.Errorf("%d calls in %v: %v", b.service.calls(), took, err)
				}
			})
		})
	}
}
