package sim

import (
	"math"
	"time"
)

// Service is what everybody asks: slots, a first-in first-out queue before them,
// and a dependency behind. What is queued is worked on, also when nobody waits
// for it any more: most services never look.
type Service struct {
	// Slots is how many requests are worked on at once, for each operation a
	// second of demand: 1.5 slots and a latency of 1.03 s are 1.45 times the
	// demand.
	Slots float64 `yaml:"slots"`
	// Latency is the mean time that a request holds its slot; single ones take a
	// quarter more or less, or an exponential if Exponential.
	Latency     time.Duration `yaml:"latency"`
	Exponential bool          `yaml:"exponential"`
	// Queue is how much work may wait, as the time that the service needs for it.
	// Beyond, the answer is 503 at once. 0 means no queue.
	Queue time.Duration `yaml:"queue"`
	// FailsIn is how long a request holds its slot while the dependency is down,
	// before it is answered 503.
	FailsIn time.Duration `yaml:"fails_in"`
	// Fails is the share of requests that fail by chance, dependency or not.
	Fails float64 `yaml:"fails"`
}

// station is the service at work. Since its queue is first-in first-out and
// nothing is ever taken back, the moment at which a request will be done is known
// when it arrives, and needs no events of its own.
type station struct {
	free    []instant // heap of the moments at which slots are free
	starts  []instant // ring of the starts of those who wait, in order
	head, n int
	limit   int
}

func newStation(slots, queue int) *station {
	return &station{free: make([]instant, max(slots, 1)), starts: make([]instant, queue+1), limit: queue}
}

// waiting is how many stand in the queue.
func (s *station) waiting(now instant) int {
	for s.n > 0 && s.starts[s.head] <= now {
		s.head, s.n = (s.head+1)%len(s.starts), s.n-1
	}
	return s.n
}

// full reports whether one more would find neither a slot nor a place.
func (s *station) full(now instant) bool { return s.free[0] > now && s.waiting(now) >= s.limit }

// start is when a request that comes now is begun.
func (s *station) start(now instant) instant { return max(now, s.free[0]) }

// take gives the first free slot away until an instant; the caller has seen that
// there is room, and got its start.
func (s *station) take(now, start, end instant) {
	if start > now {
		s.starts[(s.head+s.n)%len(s.starts)] = start
		s.n++
	}
	h, i := s.free, 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[child] >= end {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = end
}

// took is how long a request holds its slot, u being a draw.
func (s *Service) took(u float64) instant {
	if s.Exponential {
		return instant(float64(s.Latency) * -math.Log(1-u))
	}
	return instant(float64(s.Latency) * (0.75 + 0.5*u))
}
