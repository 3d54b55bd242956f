package h1

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// asked is an exchange by Ask, of which there is the upstream's side of the
// connection.
func asked(t *testing.T) (c *Conn, there net.Conn) {
	t.Helper()
	p, accepted := upstream(t)
	c, err := p.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	there = <-accepted
	t.Cleanup(func() { _ = there.Close() })
	if c.turn.socket == nil {
		t.Fatal("a TCP connection without its socket")
	}
	return c, there
}

// A request leaves whole, also one that the system does not take at once, and is
// given up before the answer is awaited.
func TestAsk(t *testing.T) {
	for name, size := range map[string]int{"small": 100, "larger than any buffer": 16 << 20} {
		t.Run(name, func(t *testing.T) {
			c, there := asked(t)
			request := bytes.Repeat([]byte("r"), size)
			var left atomic.Int32
			heard := make(chan error, 1)
			go func() {
				got := make([]byte, size)
				_, err := io.ReadFull(there, got)
				if err == nil && !bytes.Equal(got, request) {
					err = errors.New("another request")
				}
				if size <= bufferSize {
					for deadline := time.Now().Add(5 * time.Second); left.Load() == 0 && time.Now().Before(deadline); {
						<-time.After(time.Millisecond)
					}
					if left.Load() == 0 {
						err = errors.New("the request is held while the answer is awaited")
					}
				}
				heard <- err
				_, _ = io.WriteString(there, fine)
			}()
			c.Begin(time.Now(), never{}, Patience)
			if err := c.Ask(request, func() { left.Add(1) }); err != nil {
				t.Fatal(err)
			}
			if err := <-heard; err != nil {
				t.Fatal(err)
			}
			if h, err := c.ReadHead(false); err != nil || h.Status != 200 || string(c.Next()) != "body" {
				t.Fatal(h, err)
			}
			if c.sent != int64(size) || left.Load() != 1 || c.turn.out != nil {
				t.Errorf("%d bytes sent, given up %d times", c.sent, left.Load())
			}
			c.Release()
			if c.pool.Stats().Idle != 1 {
				t.Error("not kept")
			}
		})
	}
}

// Over what is no socket Ask is Send and SentAll.
func TestAskWithoutSocket(t *testing.T) {
	w := &wire{said: []byte(fine)}
	c := newConn(NewPool(Config{IdleTimeout: time.Minute, MaxIdle: 1}), w)
	c.Begin(time.Now(), never{}, Patience)
	left := 0
	if err := c.Ask([]byte("request"), func() { left++ }); err != nil || left != 1 || w.heard.String() != "request" {
		t.Fatal(err, left, w.heard.String())
	}
	if _, err := c.ReadHead(false); err != nil || string(c.Next()) != "body" {
		t.Fatal(err)
	}
	c.Release()
	if c.pool.Stats().Idle != 1 {
		t.Error("not kept")
	}
	c.pool.CloseIdle()
}

// The wait of Ask ends at the first deadline. How long it goes on the guard says
// afterwards, as ever.
func TestAskOverdue(t *testing.T) {
	c, there := asked(t)
	c.Begin(time.Now(), atOnce{}, time.Millisecond)
	if err := c.Ask([]byte("request"), func() {}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadHead(false); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	c.guard = never{}
	_, _ = io.WriteString(there, fine)
	if h, err := c.ReadHead(false); err != nil || h.Status != 200 {
		t.Fatal(h, err)
	}
	c.Next()
	c.Release()
}

// A deadline that has passed before anything was sent is the guard's to judge.
func TestAskLate(t *testing.T) {
	c, there := asked(t)
	c.Begin(time.Now(), atOnce{}, -time.Second)
	left := 0
	if err := c.Ask([]byte("request"), func() { left++ }); !errors.Is(err, os.ErrDeadlineExceeded) || c.Sent() || left != 1 {
		t.Fatal(err, c.Sent(), left)
	}
	c.Release()
	if rest, err := io.ReadAll(there); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
}

// What an upstream does that does not answer.
func TestAskOfTheDead(t *testing.T) {
	for name, tt := range map[string]struct {
		die  func(net.Conn)
		want error
	}{
		"closed": {func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, len("request")))
			_ = c.Close()
		}, io.EOF},
		"cut": {func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, len("request")))
			_, _ = io.WriteString(c, "HTTP/1.1 2")
			_ = c.Close()
		}, io.ErrUnexpectedEOF},
		"reset": {func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, len("request")))
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}, syscall.ECONNRESET},
		"reset before": {func(c net.Conn) {
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}, syscall.EPIPE},
	} {
		t.Run(name, func(t *testing.T) {
			c, there := asked(t)
			done := make(chan struct{})
			go func() {
				defer close(done)
				tt.die(there)
			}()
			if name == "reset before" {
				<-done
				eventually(t, "dead", func() bool { return !c.live.alive() })
			}
			c.Begin(time.Now(), never{}, Patience)
			left := 0
			err := c.Ask([]byte("request"), func() { left++ })
			if err == nil {
				_, err = c.ReadHead(false)
			}
			if !errors.Is(err, tt.want) {
				t.Error(err)
			}
			if left != 1 {
				t.Errorf("given up %d times", left)
			}
			if _, err := c.ReadHead(false); err == nil {
				t.Error("it came back to life")
			}
			c.Release()
			if c.pool.Stats().Idle != 0 {
				t.Error("kept")
			}
			<-done
		})
	}
}

// What the system told before Ask began is found when the first deadline passes.
func TestAskAfterTheAnswer(t *testing.T) {
	c, there := asked(t)
	_, _ = io.WriteString(there, fine)
	eventually(t, "there is an answer", func() bool { return !c.live.alive() })
	c.Begin(time.Now(), never{}, 20*time.Millisecond)
	if err := c.Ask([]byte("request"), func() {}); err != nil {
		t.Fatal(err)
	}
	if h, err := c.ReadHead(false); err != nil || h.Status != 200 {
		t.Fatal(h, err)
	}
	c.Next()
	c.Release()
}

func TestAskInterrupted(t *testing.T) {
	c, there := asked(t)
	go func() {
		_, _ = io.ReadFull(there, make([]byte, len("request")))
		c.Interrupt()
	}()
	c.Begin(time.Now(), never{}, time.Minute)
	if err := c.Ask([]byte("request"), func() {}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadHead(false); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	c.Release()
}

// An exchange on a socket allocates the text of the answer's head.
func TestAskAllocates(t *testing.T) {
	c, there := asked(t)
	request := []byte(strings.Repeat("r", 300))
	served := make(chan struct{})
	go func() {
		defer close(served)
		answer, p := []byte(fine), make([]byte, len(request))
		for {
			if _, err := io.ReadFull(there, p); err != nil {
				return
			}
			_, _ = there.Write(answer)
		}
	}()
	left := func() {}
	allocs := testing.AllocsPerRun(100, func() {
		c.Begin(time.Now(), never{}, Patience)
		if err := c.Ask(request, left); err != nil {
			t.Fatal(err)
		}
		if _, err := c.ReadHead(false); err != nil || string(c.Next()) != "body" {
			t.Fatal(err)
		}
		c.Release()
		if c = c.pool.Kept(time.Now()); c == nil {
			t.Fatal("not kept")
		}
	})
	if allocs > 1 {
		t.Errorf("%v allocations", allocs)
	}
	c.Interrupt()
	c.Release()
	<-served
}
