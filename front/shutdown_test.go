package front

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Shutdown lets requests end, says so to their clients, and closes what is idle.
func TestShutdown(t *testing.T) {
	release, arrived := make(chan struct{}), make(chan struct{})
	h := open(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(arrived)
			<-release
		}
		echo(w, r)
	})})
	idle := h.dial(t)
	ri := bufio.NewReader(idle)
	_, _ = io.WriteString(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	answer(t, ri, "GET")
	fresh := h.dial(t) // has not said anything yet
	busy := h.dial(t)
	_, _ = io.WriteString(busy, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n")
	<-arrived

	done := make(chan error, 1)
	go func() { done <- h.Shutdown(t.Context()) }()
	if b, err := io.ReadAll(ri); len(b) > 0 || err != nil {
		t.Errorf("idle: %q %v", b, err)
	}
	if c, err := net.Dial("tcp", h.addr); err == nil {
		_ = c.Close()
		t.Error("still accepting")
	}
	_, _ = io.WriteString(fresh, "GET /fresh HTTP/1.1\r\nHost: a\r\n\r\n")
	if res, body := answer(t, bufio.NewReader(fresh), "GET"); !strings.HasPrefix(body, "GET /fresh") || !res.Close {
		t.Error(res, body)
	}
	select {
	case err := <-done:
		t.Fatal("over with a request under way", err)
	default:
	}
	close(release)
	rb := bufio.NewReader(busy)
	if res, body := answer(t, rb, "GET"); !strings.HasPrefix(body, "GET /slow") || !res.Close {
		t.Error(res, body)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A connection that has said nothing yet may do so for half a second, and no longer,
// whether it came before the end or with it.
func TestShutdownOfSilentConnections(t *testing.T) {
	timed(t, Config{Handler: silent(t)}, func(t *testing.T, s *Server, dial func() net.Conn) {
		c := dial()
		synctest.Wait()
		start := time.Now()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != freshTime {
			t.Errorf("over after %v", took)
		}
		if got, _ := rest(c); got != "" {
			t.Errorf("%q", got)
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
