package live

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/storm"
)

// Service is the sample service of a storm as an http.Handler: a number of
// slots, a first-in first-out queue before them, and a dependency that can be
// switched off. It works on whatever it has queued, whether or not the client
// still waits, as services do that never look at their request's context.
//
// Make one with NewService. Methods may be called from many goroutines.
type Service struct {
	config storm.Service
	slots  chan struct{} // a send takes a slot; blocked senders are served in order
	open   atomic.Int64  // queued and worked on
	worked atomic.Int64  // completed, well or badly
	down   atomic.Bool
	closed chan struct{}
	once   sync.Once

	mu       sync.Mutex // keeps Add of handlers from running into Wait of Close
	stopping bool
	handlers sync.WaitGroup
}

// NewService returns a service whose dependency is up.
func NewService(config storm.Service) *Service {
	return &Service{config: config, slots: make(chan struct{}, max(config.Slots, 1)), closed: make(chan struct{})}
}

// SetDown switches the dependency off or on. Work that already hangs goes on
// hanging until its time is over.
func (s *Service) SetDown(down bool) { s.down.Store(down) }

// Worked returns how many operations were worked on to their end.
func (s *Service) Worked() int { return int(s.worked.Load()) }

// Close drops what is queued and waits until no handler runs. Requests that
// come later are answered with 503.
func (s *Service) Close() {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	s.once.Do(func() { close(s.closed) })
	s.handlers.Wait()
}

func (s *Service) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	s.handlers.Add(1)
	return true
}

// ServeHTTP queues the request, works on it and answers 200; 500 when the
// dependency is down, 503 when the queue is full. It never says how long to
// wait: most services do not.
func (s *Service) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if !s.enter() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer s.handlers.Done()
	n := s.open.Add(1)
	defer s.open.Add(-1)
	if n > int64(s.config.Slots+s.config.Queue) {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	status := s.work(uint64(n))
	w.WriteHeader(status)
}

// work holds a slot for as long as the work takes. The context of the request is
// left out on purpose: that work goes on for clients who left is the heart of
// the incident.
func (s *Service) work(draw uint64) (status int) {
	select {
	case s.slots <- struct{}{}:
	case <-s.closed:
		return http.StatusServiceUnavailable
	}
	defer func() { <-s.slots }()
	down := s.down.Load()
	d := s.config.HangsFor
	if !down {
		// The place in the queue is random enough to keep slots out of step.
		d = s.config.Latency*3/4 + s.config.Latency/2*time.Duration(draw*7%16)/15
	}
	if !pause(s.closed, d) {
		return http.StatusServiceUnavailable
	}
	s.worked.Add(1)
	if down {
		return http.StatusInternalServerError
	}
	return http.StatusOK
}

// pause waits; false if done was closed first.
func pause(done <-chan struct{}, d time.Duration) bool {
	if d <= 0 {
		select {
		case <-done:
			return false
		default:
			return true
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
		return false
	}
}
