package front

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// shut begins Shutdown, and returns when nothing is accepted any more. It dials nobody to
// see that: the port may be somebody else's by then.
func (h *house) shut(t *testing.T) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- h.Shutdown(t.Context()) }()
	for h.listens() {
		runtime.Gosched()
	}
	return done
}

func (h *house) listens() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.listeners) > 0
}

// cases/proxy.md E 41: Shutdown lets requests end, serves one more on connections that
// are idle, says to all of their clients that it was the last, and resets none.
func TestCase_Proxy_E41_Shutdown(t *testing.T) {
	released, arrived := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	defer release()
	h := open(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(arrived)
			<-released
		}
		echo(w, r)
	})})
	silent, kept := h.dial(t), h.dial(t)
	readers := map[net.Conn]*bufio.Reader{silent: bufio.NewReader(silent), kept: bufio.NewReader(kept)}
	for c, r := range readers {
		_, _ = io.WriteString(c, get)
		answer(t, r, "GET")
	}
	fresh := h.dial(t) // has not said anything yet
	readers[fresh] = bufio.NewReader(fresh)
	busy := h.dial(t)
	_, _ = io.WriteString(busy, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n")
	<-arrived

	done := h.shut(t)
	for _, c := range []net.Conn{kept, fresh} {
		_, _ = io.WriteString(c, get)
		if res, body := answer(t, readers[c], "GET"); !strings.HasPrefix(body, "GET /") || !res.Close {
			t.Error(res, body)
		}
	}
	if b, err := io.ReadAll(readers[silent]); len(b) > 0 || err != nil {
		t.Errorf("idle: %q %v", b, err)
	}
	_ = silent.Close()
	select {
	case err := <-done:
		t.Fatal("over with a request under way", err)
	default:
	}
	release()
	rb := bufio.NewReader(busy)
	if res, body := answer(t, rb, "GET"); !strings.HasPrefix(body, "GET /slow") || !res.Close {
		t.Error(res, body)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// An idle connection, whether it has asked before or not, may ask until half a second
// after the end has begun. One that asks later gets no answer, and neither a reset: its
// client is waited for.
func TestShutdownOfIdleConnections(t *testing.T) {
	for _, asked := range []bool{false, true} {
		for _, tt := range []struct {
			name  string
			after time.Duration // of the request; 0: none
			ends  bool          // the client closes when it has seen the end
			took  time.Duration // until Shutdown returns
		}{
			{"silent", 0, true, lastCall},
			{"silent, and does not look", 0, false, lastCall + lingerTime},
			{"in time", lastCall - time.Millisecond, true, lastCall - time.Millisecond},
			{"too late", lastCall + time.Millisecond, true, lastCall + time.Millisecond},
		} {
			t.Run(fmt.Sprintf("%s, asked before: %t", tt.name, asked), func(t *testing.T) {
				timed(t, Config{Handler: http.HandlerFunc(echo), Limits: limited}, func(t *testing.T, s *Server, dial func() net.Conn) {
					c := dial()
					r := bufio.NewReader(c)
					if asked {
						_, _ = io.WriteString(c, get)
						answer(t, r, "GET")
					}
					synctest.Wait()
					start, done := time.Now(), make(chan time.Duration)
					go func() {
						if err := s.Shutdown(t.Context()); err != nil {
							t.Error(err)
						}
						done <- time.Since(start)
					}()
					if tt.after > 0 {
						time.Sleep(tt.after)
						if _, err := io.WriteString(c, get); err != nil {
							t.Error(err)
						}
					}
					if tt.after > 0 && tt.after < lastCall {
						if res, _ := answer(t, r, "GET"); !res.Close {
							t.Error("not told that it was the last")
						}
					}
					if b, err := io.ReadAll(r); len(b) > 0 || err != nil {
						t.Errorf("%q %v", b, err)
					}
					if tt.ends {
						_ = c.Close()
					}
					if took := <-done; took != tt.took {
						t.Errorf("over after %v, not %v", took, tt.took)
					}
				})
			})
		}
	}
}

// A second Shutdown gives idle connections no more time than the first.
func TestShutdownTwice(t *testing.T) {
	timed(t, Config{Handler: silent(t)}, func(t *testing.T, s *Server, dial func() net.Conn) {
		c := dial()
		synctest.Wait()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), lastCall/2)
		defer cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		go func() {
			_, _ = rest(c)
			_ = c.Close()
		}()
		if err := s.Shutdown(t.Context()); err != nil || time.Since(start) != lastCall {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// Shutdown waits no longer than its context, and Close cuts.
func TestShutdownIsBounded(t *testing.T) {
	w := newWaiting()
	h := open(t, Config{Handler: w})
	c := h.dial(t)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-w.arrived
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := h.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	now := time.Now()
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if took := (<-w.ended).Sub(now); took > time.Second {
		t.Errorf("cut after %v", took)
	}
}

// Taken over connections are their handler's: nobody waits for them, or cuts them.
func TestShutdownLeavesTakenOver(t *testing.T) {
	taken := make(chan net.Conn, 1)
	h := open(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
		}
		taken <- c
	})})
	c := h.dial(t)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	mine := <-taken
	if open := h.config.Connections.Stats().Open; open != 1 {
		t.Errorf("%d open", open)
	}
	if err := errors.Join(h.Shutdown(t.Context()), h.Close()); err != nil {
		t.Error(err)
	}
	_, _ = io.WriteString(mine, "hello")
	_ = mine.Close()
	if b, err := io.ReadAll(c); string(b) != "hello" || err != nil {
		t.Errorf("%q %v", b, err)
	}
	if open := h.config.Connections.Stats().Open; open != 0 {
		t.Errorf("%d open", open)
	}
}
