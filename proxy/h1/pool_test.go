package h1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// upstream accepts connections on loopback and hands them over.
func upstream(t *testing.T) (p *Pool, accepted <-chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns := make(chan net.Conn, 16)
	var open sync.WaitGroup
	open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns <- c
		}
	})
	p = NewPool(Config{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
		},
		IdleTimeout: time.Minute, MaxIdle: 2,
	})
	t.Cleanup(func() {
		p.CloseIdle()
		_ = l.Close()
		open.Wait()
	})
	return p, conns
}

// exchange makes a whole exchange on c: said is the answer.
func exchange(t *testing.T, c *Conn, there net.Conn, said string) {
	t.Helper()
	c.Begin(time.Now(), never{}, Patience)
	head, err := AppendHead(nil, &Request{Method: http.MethodGet, Path: "/", Host: "h"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(head); err != nil {
		t.Fatal(err)
	}
	c.SentAll()
	if _, err := http.ReadRequest(bufio.NewReader(there)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(there, said); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadHead(false); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil {
		t.Fatal(err)
	}
	c.Release()
}

const fine = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"

// eventually waits for what another end of a socket does.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !is(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// An unused connection that the upstream closes, or on which it speaks, is found out
// without a byte of a request.
func TestDeadConnectionIsNotUsed(t *testing.T) {
	for name, die := range map[string]func(net.Conn){
		"closed": func(c net.Conn) { _ = c.Close() },
		"reset": func(c net.Conn) {
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		},
		"spoken on": func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 408 Late\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			p, accepted := upstream(t)
			c, err := p.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			there := <-accepted
			defer there.Close()
			exchange(t, c, there, fine)
			if p.Stats().Idle != 1 {
				t.Fatal(p.Stats())
			}
			die(there)
			eventually(t, "dead", func() bool { return !c.live.alive() })
			if c := p.Kept(time.Now()); c != nil {
				t.Error("a dead connection was handed out")
			}
			if s := p.Stats(); s.Stale != 1 || s.Idle != 0 || s.Dialed != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestConnectionIsUsedAgain(t *testing.T) {
	p, accepted := upstream(t)
	c, err := p.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	there := <-accepted
	defer there.Close()
	for range 3 {
		exchange(t, c, there, fine)
		if c = p.Kept(time.Now()); c == nil || !c.Reused() {
			t.Fatal("not kept")
		}
	}
	c.Release()
}

// The connection that was used last is the first to be used again, and no more are
// kept than may be.
func TestLastInFirstOut(t *testing.T) {
	p, accepted := upstream(t)
	var conns []*Conn
	for range 3 {
		c, err := p.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	for _, c := range conns {
		there := <-accepted
		t.Cleanup(func() { _ = there.Close() })
		exchange(t, c, there, fine)
	}
	if s := p.Stats(); s.Idle != 2 {
		t.Errorf("%+v", s)
	}
	if p.Kept(time.Now()) != conns[1] || p.Kept(time.Now()) != conns[0] || p.Kept(time.Now()) != nil {
		t.Error("not the last first")
	}
	conns[0].Release()
	conns[1].Release()
}

// still is a connection that says when it is closed.
type still struct {
	wire

	mu sync.Mutex
	at time.Time
}

func (s *still) closed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

func (s *still) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Now()
	return nil
}

// An unused connection is closed when its time is over, although nobody asks.
func TestUnusedConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Config{IdleTimeout: 4 * time.Second, MaxIdle: 10})
		start := time.Now()
		var raws []*still
		for range 3 {
			raw := &still{}
			raws = append(raws, raw)
			p.put(newConn(p, raw))
			time.Sleep(time.Second) // virtual
		}
		time.Sleep(500 * time.Millisecond) // virtual
		if p.Kept(time.Now()) == nil {
			t.Error("the last one's time is not over")
		}
		time.Sleep(10 * time.Second) // virtual
		for i, raw := range raws[:2] {
			if got := raw.closed().Sub(start); got != time.Duration(4+i)*time.Second {
				t.Errorf("closed after %v", got)
			}
		}
		if s := p.Stats(); s.Idle != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A connection whose time is over is not handed out, whenever it will be closed.
func TestOldConnectionIsNotUsed(t *testing.T) {
	p := NewPool(Config{IdleTimeout: time.Minute, MaxIdle: 1})
	p.put(newConn(p, &wire{}))
	if p.Kept(time.Now().Add(time.Minute)) != nil {
		t.Error("used after its time")
	}
	p.CloseIdle()
	p.CloseIdle()
}

// counting counts deadlines.
type counting struct {
	net.Conn

	set int
}

func (c *counting) SetDeadline(t time.Time) error {
	c.set++
	return c.Conn.SetDeadline(t)
}

// Quick exchanges share a deadline, and it hurts none of them.
func TestDeadlinesAreShared(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	raw := &counting{Conn: here}
	c := newConn(NewPool(Config{}), raw)
	now := time.Now().Add(time.Hour) // so that none passes
	for range 10 {
		c.Begin(now, atOnce{}, Patience)
		now = now.Add(Patience / 20)
	}
	if raw.set != 1 {
		t.Errorf("set %d times", raw.set)
	}
	c.BeginStream()
	c.Begin(now, atOnce{}, Patience)
	if raw.set != 2 {
		t.Error("after a stream writes have no deadline")
	}
	_ = here.Close()
}

// A wait ends when the guard says so, and may be taken up again.
func TestGuard(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	c := newConn(NewPool(Config{}), here)
	c.Begin(time.Now(), atOnce{}, Patience)
	go func() { _, _ = io.WriteString(there, "HTTP/1.1 204 No") }()
	if _, err := c.ReadHead(false); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	c.guard = never{}
	c.arm(time.Time{})
	go func() { _, _ = io.WriteString(there, " Content\r\n\r\n") }()
	if h, err := c.ReadHead(false); err != nil || h.Status != 204 {
		t.Fatal(h, err)
	}
	if err := c.Send(nil); err != nil || c.Sent() {
		t.Error("nothing was sent")
	}
	c.guard = atOnce{}
	c.arm(time.Now().Add(time.Millisecond))
	if err := c.Send([]byte("nobody reads it")); !errors.Is(err, os.ErrDeadlineExceeded) || c.Sent() {
		t.Error(err)
	}
	c.Release()
}

func TestInterrupt(t *testing.T) {
	p, accepted := upstream(t)
	c, err := p.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	there := <-accepted
	defer there.Close()
	c.Begin(time.Now(), never{}, Patience)
	c.SentAll()
	go c.Interrupt()
	if _, err := c.ReadHead(false); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	c.Release()
	if s := p.Stats(); s.Idle != 0 {
		t.Errorf("%+v", s)
	}
}

// What an upstream says right after it has switched protocols is not lost.
func TestDetach(t *testing.T) {
	c := begun(&wire{said: []byte("HTTP/1.1 101 S\r\nUpgrade: x\r\n\r\nfirst")})
	if h, err := c.ReadHead(false); err != nil || h.Status != 101 {
		t.Fatal(h, err)
	}
	raw, ahead := c.Detach()
	if string(ahead) != "first" || raw == nil {
		t.Errorf("%q", ahead)
	}
}

func TestAnswerAllocates(t *testing.T) {
	said := []byte(fine)
	w := &wire{}
	c := newConn(NewPool(Config{IdleTimeout: time.Minute, MaxIdle: 1}), w)
	defer c.pool.CloseIdle()
	allocs := testing.AllocsPerRun(100, func() {
		w.said = said
		c.Begin(time.Now(), never{}, Patience)
		c.SentAll()
		if _, err := c.ReadHead(false); err != nil || string(c.Next()) != "body" {
			t.Fatal(err)
		}
		c.Release()
		if c = c.pool.Kept(time.Now()); c == nil {
			t.Fatal("not kept")
		}
	})
	if allocs > 1 { // the text of the head
		t.Errorf("%v allocations", allocs)
	}
}
