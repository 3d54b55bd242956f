package admission

import (
	"sync"
	"sync/atomic"
	"time"
)

// State is what admission counts. It outlives every Controller: old and new ones
// count in the same words. The zero value is an empty house, ready for use; it
// must not be copied. Its memory is bounded: about 20 KiB, one word of 64 bytes
// for each of at most 2048 route names, and at most 5120 waiters.
type State struct {
	// word holds the weight in flight and, in its upper 16 bits, the number of
	// waiters. They share one word so that one atomic operation sees both:
	// whoever releases sees every waiter that stood before, and whoever arrives
	// while somebody waits cannot slip past.
	word  atomic.Uint64
	meter meter // beside word on purpose: a release writes both
	_     [64]byte

	streams atomic.Int64
	// fullAt is when the limit last kept somebody out or waiting, Unix ns; 0 never.
	fullAt atomic.Int64
	idle   idleReserve
	holds  sync.Pool // of *hold

	mu     sync.Mutex // guards what follows, and every change to the number of waiters
	queue  queue
	routes map[string]*routeWord
}

const (
	waiterBits  = 48
	oneWaiter   = 1 << waiterBits
	inflightMax = oneWaiter - 1
)

func unpack(word uint64) (inflight, waiting int) {
	return int(word & inflightMax), int(word >> waiterBits)
}

// count returns the weight in flight and the number of waiters, of one moment.
func (s *State) count() (inflight, waiting int) { return unpack(s.word.Load()) }

// enter adds weight if at most is in flight and, unless passing, nobody
// waits. Only whoever holds mu passes waiters.
func (s *State) enter(weight, most int, passing bool) (inflight int, ok bool) {
	for {
		word := s.word.Load()
		inflight, waiting := unpack(word)
		if inflight > most || waiting > 0 && !passing {
			return inflight, false
		}
		if s.word.CompareAndSwap(word, word+uint64(weight)) {
			return inflight + weight, true
		}
	}
}

// leave takes weight out and returns what stays in flight.
func (s *State) leave(weight int) (inflight int) {
	inflight, _ = unpack(s.word.Add(-uint64(weight)))
	return inflight
}

// markFull remembers that the limit was felt. It writes at most every 100 ms: a
// storm of refusals need not fight for the line.
func (s *State) markFull(now time.Time) { remember(&s.fullAt, now.UnixNano()) }

// remember stores a moment unless about the same one is there already. A clock
// that stepped back is believed.
func remember(at *atomic.Int64, now int64) {
	if since := now - at.Load(); since < 0 || since > int64(100*time.Millisecond) {
		at.Store(now)
	}
}

// Stats is how the house stands at one moment.
type Stats struct {
	InFlight int // weight in flight
	Limit    int // weight that may be in flight
	Waiting  int // requests in the queue
	Streams  int // exchanges that left the gate as streams and still live
	// Rate is how many requests left per second, averaged over about a second.
	Rate float64
	// Drain is how many would leave per second were the limit used to the full:
	// the limit over the mean latency. 0 while nothing has been measured.
	Drain float64
	// Bound reports whether the limit kept somebody out or waiting within the last second.
	Bound bool
}

// StatsAt returns how the house stands.
func (c *Controller) StatsAt(now time.Time) Stats {
	s := c.state
	at := now.UnixNano()
	s.meter.lookAt(at)
	inflight, waiting := s.count()
	limit := c.Limit()
	full := s.fullAt.Load()
	since := time.Duration(at - full)
	return Stats{
		InFlight: inflight,
		Limit:    limit,
		Waiting:  waiting,
		Streams:  int(s.streams.Load()),
		Rate:     s.meter.rate(),
		Drain:    s.meter.drain(limit),
		Bound:    inflight >= limit || full != 0 && since >= 0 && since < time.Second,
	}
}
