package grpcclient

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// stream is a grpc.ClientStream that is opened again, for as long as its caller
// has seen nothing of it. As with any stream one goroutine may send while another
// receives.
type stream struct {
	call *call
	desc *grpc.StreamDesc
	open func(*attempt) (grpc.ClientStream, error)

	// mu is held while a stream is opened again, so that who sends waits for the
	// new one.
	mu      sync.Mutex
	attempt *attempt
	inner   grpc.ClientStream // of attempt
	seen    bool              // the caller has something of this stream: it must stay
	done    bool              // the operation's report is out
	failed  error             // how it ended, after it failed

	sent    bool // the caller has sent a message
	message any  // the only one, of a call that has one; nil once it is not needed any more
	closed  bool // the caller has no more to send
}

var _ grpc.ClientStream = (*stream)(nil)

// connect makes attempts until a stream is open. It is called with mu held, or
// before anybody else knows the stream.
func (s *stream) connect() error {
	c := s.call
	if err := c.refuse(); err != nil {
		return err
	}
	for {
		a, err := c.next()
		if err != nil {
			return err
		}
		if err = a.enter(); err == nil {
			s.inner, err = s.open(a)
		}
		if err == nil {
			s.attempt = a
			if err = s.resend(); err == nil {
				return nil
			}
		}
		if err := s.again(a, err); err != nil {
			return err
		}
	}
}

// resend gives a new stream what the former one had got.
func (s *stream) resend() error {
	if s.sent && !s.desc.ClientStreams {
		if err := s.inner.SendMsg(s.message); err != nil && !errors.Is(err, io.EOF) { // after EOF RecvMsg has the reason
			return err
		}
	}
	if s.closed {
		return s.inner.CloseSend()
	}
	return nil
}

// again leaves an attempt behind, and says by nil to make another one.
func (s *stream) again(a *attempt, err error) error {
	a.judge(err)
	a.release()
	s.call.op.Replayable = !s.seen && (!s.sent || !s.desc.ClientStreams)
	return s.call.again(a, err)
}

// RecvMsg receives the next message into m. Before the first one it may be that
// of another attempt.
func (s *stream) RecvMsg(m any) error {
	for {
		inner, a := s.current()
		err := inner.RecvMsg(m)
		if err == nil || errors.Is(err, io.EOF) {
			s.succeed(inner, a, err != nil)
			return err
		}
		if err := s.recover(inner, a, err); err != nil {
			return err
		}
	}
}

func (s *stream) current() (grpc.ClientStream, *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inner, s.attempt
}

// succeed notes that something was received, or that all of it was.
func (s *stream) succeed(inner grpc.ClientStream, a *attempt, end bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.message = true, nil
	if end {
		a.trailer = inner.Trailer()
		a.release()
	}
	if s.done {
		return
	}
	s.done = true
	a.judge(nil)
	s.call.settle(a)
	_ = s.call.finish(nil) // of a success it returns nil
}

// recover opens the stream again, after it broke with err. An error ends it.
func (s *stream) recover(inner grpc.ClientStream, a *attempt, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failed != nil:
		return s.failed
	case s.inner != inner:
		return nil // Header and RecvMsg both saw it break, and the other was first
	case s.done:
		a.release()
		return err
	}
	a.trailer = inner.Trailer()
	if err = s.again(a, err); err == nil {
		err = s.connect()
	}
	if err != nil {
		s.fail(err)
		return s.failed
	}
	return nil
}

// fail ends the operation. It is called with mu held.
func (s *stream) fail(err error) {
	s.done, s.message = true, nil
	s.failed = s.call.finish(err)
}

// SendMsg sends m, which must not be changed afterwards. While the stream is
// opened again it waits.
func (s *stream) SendMsg(m any) error {
	s.mu.Lock()
	inner, a := s.inner, s.attempt
	s.sent = true
	if !s.desc.ClientStreams && !s.seen {
		s.message = m
	}
	s.mu.Unlock()
	err := inner.SendMsg(m)
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	// The message itself is at fault, and no other attempt would help it.
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		a.judge(err)
		s.call.op.Replayable = false
		s.fail(s.call.again(a, err))
	}
	a.release()
	if s.failed != nil {
		return s.failed
	}
	return err
}

// CloseSend says that nothing else will be sent.
func (s *stream) CloseSend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.inner.CloseSend()
}

// Header waits for the server's header. Once there is one the stream stays what
// it is.
func (s *stream) Header() (metadata.MD, error) {
	for {
		inner, a := s.current()
		md, err := inner.Header()
		switch {
		case err != nil:
			if err := s.recover(inner, a, err); err != nil {
				return nil, err
			}
		case md == nil: // it has ended without; RecvMsg has the reason, and may begin anew
			return nil, nil //nolint:nilnil // what grpc-go says of it
		case s.keep(inner):
			return md, nil
		}
	}
}

// Context returns the stream's context, after which the stream stays what it is.
func (s *stream) Context() context.Context {
	inner, _ := s.current()
	s.keep(inner)
	inner, _ = s.current()
	return inner.Context()
}

// keep rules out another attempt, and reports whether inner is the stream that
// stays.
func (s *stream) keep(inner grpc.ClientStream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inner == inner {
		s.seen = true
	}
	return s.seen && s.inner == inner
}

// Trailer returns the server's trailer, after RecvMsg returned an error.
func (s *stream) Trailer() metadata.MD {
	inner, _ := s.current()
	return inner.Trailer()
}
