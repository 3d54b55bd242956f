// Package relay stands between a client and its server as a line that can break, for
// tests.
//
// # Basics
//
//	line, err := relay.To(server) // its address
//	…
//	defer line.Close()
//	client.Dial(line.Addr())
//	line.Break() // the server is away
//	line.Mend()
package relay

import (
	"context"
	"net"
	"sync"
)

// Relay passes bytes between clients and a server, over TCP on loopback. Its methods
// may be called from many goroutines.
type Relay struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu     sync.Mutex // guards what follows
	open   map[net.Conn]bool
	mute   bool
	broken bool
}

// To returns a Relay to the address of a server. Its owner closes it.
func To(address string) (*Relay, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{listener: l, to: address, open: map[net.Conn]bool{}}
	r.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return // closed
			}
			r.wg.Go(func() { r.serve(in) })
		}
	})
	return r, nil
}

// Addr is where clients reach the server.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Mute lets requests arrive and loses what the server answers, until it is called
// with false.
func (r *Relay) Mute(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mute = on
}

// Cut breaks every connection. New ones are passed on.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		_ = c.Close() // as a broken line does
	}
}

// Break breaks every connection, and new ones at once, until Mend.
func (r *Relay) Break() {
	r.mu.Lock()
	r.broken = true
	r.mu.Unlock()
	r.Cut()
}

// Mend ends Break.
func (r *Relay) Mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = false
}

// Close breaks every connection and takes no new ones. It waits for what it has
// started.
func (r *Relay) Close() error {
	err := r.listener.Close()
	r.Break()
	r.wg.Wait()
	return err
}

func (r *Relay) serve(in net.Conn) {
	defer in.Close()
	out, err := new(net.Dialer).DialContext(context.Background(), "tcp", r.to)
	if err != nil {
		return
	}
	defer out.Close()
	if !r.enter(in, out) {
		return
	}
	r.wg.Go(func() { r.pass(in, out, false) })
	r.pass(out, in, true)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, in)
	delete(r.open, out)
}

// enter makes the ends of a connection known to Cut; false: the line is broken.
func (r *Relay) enter(in, out net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken {
		return false
	}
	r.open[in], r.open[out] = true, true
	return true
}

// pass copies what comes from one end to the other until either is gone.
func (r *Relay) pass(from, to net.Conn, answers bool) {
	defer func() { _, _ = from.Close(), to.Close() }() // either end may have gone
	buf := make([]byte, 1<<14)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if answers && r.muted() {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (r *Relay) muted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mute
}
