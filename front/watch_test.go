package front

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// waiting is a handler that waits for the end of its request.
type waiting struct {
	arrived chan struct{}
	ended   chan time.Time
}

func newWaiting() *waiting {
	return &waiting{make(chan struct{}, 16), make(chan time.Time, 16)}
}

func (h *waiting) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	h.arrived <- struct{}{}
	select {
	case <-r.Context().Done():
	case <-time.After(patience):
	}
	h.ended <- time.Now()
}

// cases/proxy.md C 28: the request ends within 100 ms of its client.
func TestCase_Proxy_C28_ClientLeaves(t *testing.T) {
	for name, text := range map[string]string{
		"without a body": "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"with a length":  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
		"chunked":        chunkedPost + "1\r\na\r\n0\r\n\r\n",
		"pipelined":      "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWaiting()
			h := open(t, Config{Handler: w})
			for _, wait := range []time.Duration{0, 100 * time.Millisecond} { // before and after somebody watches
				c := h.dial(t)
				_, _ = io.WriteString(c, text)
				<-w.arrived
				time.Sleep(wait)
				left := time.Now()
				_ = c.Close()
				if took := (<-w.ended).Sub(left); took > 100*time.Millisecond {
					t.Errorf("ended after %v", took)
				}
			}
		})
	}
}

// What comes while a request is watched is kept for the next one, and the watch is
// over when the request is.
func TestWatchKeepsWhatComes(t *testing.T) {
	release := make(chan struct{})
	h := open(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-release
		if err := r.Context().Err(); err != nil {
			t.Error(err)
		}
		echo(w, r)
	})})
	c := h.dial(t)
	r := bufio.NewReader(c)
	for range 5 {
		_, _ = io.WriteString(c, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
		time.Sleep(2 * watchAfter)
		_, _ = io.WriteString(c, "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab")
		time.Sleep(watchAfter)
		release <- struct{}{}
		if _, body := answer(t, r, "GET"); !strings.HasPrefix(body, "GET /1") {
			t.Fatal(body)
		}
		_, _ = io.WriteString(c, "cde")
		release <- struct{}{}
		if _, body := answer(t, r, "POST"); body != `POST /2 a "abcde" <nil>` {
			t.Fatal(body)
		}
	}
}

// A fast or idle connection has no goroutine besides its own, and a context that
// somebody derives from costs none either.
func TestNoGoroutines(t *testing.T) {
	h := open(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		stop := context.AfterFunc(ctx, func() {})
		defer stop()
		echo(w, r)
	})})
	before := runtime.NumGoroutine()
	const n = 50
	for range n {
		c := h.dial(t)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		answer(t, bufio.NewReader(c), "GET")
	}
	if extra := runtime.NumGoroutine() - before; extra > n+5 {
		t.Errorf("%d goroutines for %d connections", extra, n)
	}
}

func TestContext(t *testing.T) {
	var derived context.Context
	var called, stopped bool
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		type key struct{}
		ctx := r.Context()
		if addr, ok := ctx.Value(http.LocalAddrContextKey).(net.Addr); !ok || addr.String() != peerAddr.String() || ctx.Value(key{}) != nil {
			t.Error(addr, ok)
		}
		if _, ok := ctx.Deadline(); ok || ctx.Err() != nil {
			t.Error("ended before its time")
		}
		var cancel context.CancelFunc
		derived, cancel = context.WithTimeout(context.WithValue(ctx, key{}, 1), time.Hour) //nolint:fatcontext // it is looked at afterwards
		_ = cancel                                                                         // the end of the request ends it
		ctx.(*requestContext).AfterFunc(func() { called = true })
		ctx.(*requestContext).AfterFunc(func() { stopped = true })() // at once
	})
	play(t, Config{Handler: h}, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-derived.Done()
	if derived.Err() != context.Canceled || !called || stopped {
		t.Errorf("%v %t %t", derived.Err(), called, stopped)
	}
}

// Requests end with BaseContext, taken over connections too.
func TestBaseContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	w := newWaiting()
	h := open(t, Config{BaseContext: ctx, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/taken" {
			c, _, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				t.Error(err)
			}
			defer c.Close()
		}
		w.ServeHTTP(rw, r)
		if !errors.Is(context.Cause(r.Context()), io.ErrNoProgress) {
			t.Error(context.Cause(r.Context()))
		}
	})})
	for _, path := range []string{"/", "/taken"} {
		c := h.dial(t)
		_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
		<-w.arrived
	}
	now := time.Now()
	cancel(io.ErrNoProgress)
	for range 2 {
		if took := (<-w.ended).Sub(now); took > time.Second {
			t.Errorf("ended after %v", took)
		}
	}
}
