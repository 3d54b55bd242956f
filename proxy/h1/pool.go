package h1

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Config says how a Pool makes and keeps connections.
type Config struct {
	// Dial makes a connection. Required.
	Dial func(ctx context.Context) (net.Conn, error)
	// IdleTimeout is how long an unused connection is kept; 0 keeps none.
	IdleTimeout time.Duration
	// MaxIdle bounds the unused connections; 0 keeps none.
	MaxIdle int
	// MaxHead bounds the head of an answer, and its trailers, in bytes. 0 means 256
	// KiB.
	MaxHead int
}

const defaultMaxHead = 256 << 10

// Pool keeps the connections to one upstream that nobody uses. It does not bound
// those in use: whoever calls Dial knows how many may be. Its methods may be called
// from many goroutines.
type Pool struct {
	config Config

	mu     sync.Mutex
	idle   []*Conn // the one used last is the last
	reaper *time.Timer
	reaps  bool // the reaper is on its way

	dialed, stale atomic.Uint64
}

// NewPool returns an empty Pool.
func NewPool(c Config) *Pool {
	if c.MaxHead == 0 {
		c.MaxHead = defaultMaxHead
	}
	return &Pool{config: c}
}

// Stats is a view of a Pool for metrics.
type Stats struct {
	Idle   int    // unused connections
	Dialed uint64 // connections that were made
	Stale  uint64 // unused connections that were found dead before they were used
}

// Stats returns the present counts.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Idle: len(p.idle), Dialed: p.dialed.Load(), Stale: p.stale.Load()}
}

// Kept returns the unused connection that was used last, or nil. One that has died,
// or on which the upstream has spoken unasked, is not returned.
func (p *Pool) Kept(now time.Time) *Conn {
	for {
		c := p.pop(now)
		if c == nil || c.live.alive() {
			return c
		}
		p.stale.Add(1)
		c.close()
	}
}

// Dial returns a new connection.
func (p *Pool) Dial(ctx context.Context) (*Conn, error) {
	raw, err := p.config.Dial(ctx)
	if err != nil {
		return nil, err
	}
	p.dialed.Add(1)
	return newConn(p, raw), nil
}

// pop takes the connection that was used last, unless its time is over: then so is
// that of all others.
func (p *Pool) pop(now time.Time) *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 || now.Sub(p.idle[n-1].since) >= p.config.IdleTimeout {
		return nil // what is left is the reaper's
	}
	c := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return c
}

// put keeps a connection for the next.
func (p *Pool) put(c *Conn) {
	c.guard, c.reused, c.since = nil, true, time.Now()
	if len(c.buffer) > bufferSize {
		c.buffer = make([]byte, bufferSize) // a large head is no reason to keep as much for ever
	}
	c.r, c.w = 0, 0
	c.head.forget()
	p.mu.Lock()
	full := len(p.idle) >= p.config.MaxIdle || p.config.IdleTimeout <= 0
	if !full {
		p.idle = append(p.idle, c)
		p.reapLater(p.config.IdleTimeout)
	}
	p.mu.Unlock()
	if full {
		c.close()
	}
}

// reapLater sees to it that the connections are closed whose time is over, also if
// nobody asks for one any more. p.mu is held.
func (p *Pool) reapLater(wait time.Duration) {
	if p.reaps {
		return
	}
	p.reaps = true
	if p.reaper == nil {
		p.reaper = time.AfterFunc(wait, p.reap)
		return
	}
	p.reaper.Reset(wait)
}

func (p *Pool) reap() {
	now := time.Now()
	p.mu.Lock()
	p.reaps = false
	n := 0
	for n < len(p.idle) && now.Sub(p.idle[n].since) >= p.config.IdleTimeout {
		n++
	}
	over := p.cut(n)
	if len(p.idle) > 0 {
		p.reapLater(max(p.config.IdleTimeout-now.Sub(p.idle[0].since), time.Millisecond))
	}
	p.mu.Unlock()
	for _, c := range over {
		c.close()
	}
}

// cut takes the n oldest connections out. p.mu is held.
func (p *Pool) cut(n int) []*Conn {
	over := make([]*Conn, n)
	copy(over, p.idle)
	kept := copy(p.idle, p.idle[n:])
	clear(p.idle[kept:])
	p.idle = p.idle[:kept]
	return over
}

// CloseIdle closes the connections that nobody uses. The pool can still be used.
func (p *Pool) CloseIdle() {
	p.mu.Lock()
	over := p.cut(len(p.idle))
	if p.reaper != nil && p.reaper.Stop() {
		p.reaps = false
	}
	p.mu.Unlock()
	for _, c := range over {
		c.close()
	}
}
