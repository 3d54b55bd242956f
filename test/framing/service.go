package framing

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// Service stands behind a proxy and records what arrives, byte by byte as it was
// sent. It answers each request with the request's own first line, so that an answer
// that goes to somebody else shows. Its methods may be called from many goroutines.
type Service struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	open    map[net.Conn]bool
	reply   []byte // to all but probes and fences; nil for the usual answer
	record  record
	reading int // messages that have begun and not ended
}

// record is what has arrived since the last one was taken.
type record struct {
	arrivals []arrival
	hungUp   int // connections that carried nothing after a reply
	reused   int // and that did
}

// Listen starts a service on an address; port 0 is a free one. Close ends it.
func Listen(ctx context.Context, addr string) (*Service, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &Service{listener: l, open: map[net.Conn]bool{}}
	s.wg.Go(s.accept)
	return s, nil
}

// Addr is where the service listens.
func (s *Service) Addr() string { return s.listener.Addr().String() }

// Close ends the service and all its connections, and waits for them.
func (s *Service) Close() error {
	s.mu.Lock()
	s.closed = true
	errs := []error{s.listener.Close()}
	for c := range s.open {
		errs = append(errs, c.Close())
	}
	s.mu.Unlock()
	s.wg.Wait()
	return errors.Join(errs...)
}

func (s *Service) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		s.wg.Go(func() {
			if s.enter(conn) {
				s.converse(conn)
			}
			s.leave(conn)
		})
	}
}

func (s *Service) enter(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[conn] = true
	return !s.closed
}

func (s *Service) leave(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, conn)
	_ = conn.Close() // Close may have been first
}

// converse reads and answers requests until one is broken or the proxy hangs up.
func (s *Service) converse(conn net.Conn) {
	r := bufio.NewReader(conn)
	for replied := false; ; {
		if _, err := r.Peek(1); err != nil {
			s.note(func() {
				if replied {
					s.record.hungUp++
				}
			})
			return
		}
		var reply []byte
		s.note(func() {
			s.reading++
			reply = s.reply
			if replied {
				s.record.reused++
			}
		})
		a, ok := s.read(conn, r, reply)
		if !ok {
			return
		}
		if replied = a.early; replied {
			continue
		}
		if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(a.line), bodyFor(a)); err != nil {
			return
		}
	}
}

// read reads one request and records it. With a reply it writes that as soon as
// it has the head.
func (s *Service) read(conn net.Conn, r *bufio.Reader, reply []byte) (a *arrival, ok bool) {
	a, err := readHead(r)
	if err == nil && reply != nil && !clean(a.line) {
		a.early = true
		if _, err = conn.Write(reply); err == nil {
			s.note(func() { s.record.arrivals = append(s.record.arrivals, *a) })
		}
	}
	if err == nil {
		err = a.readBody(r)
	}
	s.note(func() {
		s.reading--
		if !a.early {
			s.record.arrivals = append(s.record.arrivals, *a)
		}
		if a.early && err != nil {
			s.record.hungUp++
		}
	})
	return a, err == nil
}

// clean reports whether a first line is that of a probe or a fence.
func clean(line string) bool { return strings.HasPrefix(line, "GET "+cleanPrefix) }

// bodyFor is the usual answer; none to HEAD.
func bodyFor(a *arrival) string {
	if strings.HasPrefix(a.line, "HEAD ") {
		return ""
	}
	return a.line
}

func (s *Service) note(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// begin sets the reply to the next case, and forgets what has arrived.
func (s *Service) begin(reply []byte) {
	s.note(func() { s.reply, s.record = reply, record{} })
}

// settle returns what has arrived once no message is under way, and once a
// connection on which a reply was written has hung up if that is wanted. It waits
// for both no longer than patience.
func (s *Service) settle(ctx context.Context, unlinked bool, patience time.Duration) (r record, hanging bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		s.mu.Lock()
		r, hanging = s.record, s.reading > 0
		s.mu.Unlock()
		if !hanging && (!unlinked || r.hungUp+r.reused > 0) {
			return r, false
		}
		select {
		case <-ctx.Done():
			return r, hanging
		case <-tick.C:
		}
	}
}
