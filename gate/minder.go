package gate

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// patrol is how often an exchange that may be waiting for its caller is looked at.
	patrol = 5 * time.Second
	// leastPace is what a caller must send a second, on the average, while the
	// house is full: slower ones hold permits that others wait for.
	leastPace = 16 << 10
)

// minder looks after an exchange whose caller may keep it waiting: one that sends
// its body slowly, or takes its answer slowly. Both hold a permit and use nothing
// of the service; a handful of them could shut the house. An answer on its way
// leaves the gate as a stream; a body that does not arrive is given up, since what
// it asks for would still have to be done, and be let in for that.
//
// It has a timer and no goroutine, and is made only for bodies that were not read
// ahead and for answers of more than one piece.
type minder struct {
	x       *exchange
	flowing atomic.Bool // the head of the answer has left

	mu       sync.Mutex
	timer    *time.Timer
	over     bool
	streamed bool
}

// mind makes the exchange's minder, once.
func (x *exchange) mind() *minder {
	if x.minder == nil && !x.d.exempt {
		x.minder = &minder{x: x}
		x.minder.mu.Lock() // look may come before the timer is stored
		x.minder.timer = time.AfterFunc(patrol, x.minder.look)
		x.minder.mu.Unlock()
	}
	return x.minder
}

// flows says that the head of the answer is on its way.
func (x *exchange) flows() {
	if m := x.mind(); m != nil {
		m.flowing.Store(true)
	}
}

func (m *minder) look() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return
	}
	x, now := m.x, time.Now()
	inflight, limit := x.gate.admission.Load()
	full, age := inflight >= limit, now.Sub(x.start)
	switch {
	case m.flowing.Load():
		if full || age >= streamAfter {
			m.streamed = x.d.StreamAt(now)
		}
	case full && x.body.slower(leastPace, age):
		x.body.giveUp()
		return
	}
	if !m.streamed {
		m.timer.Reset(patrol)
	}
}

// stop ends the minding, and tells whether it made a stream of the exchange.
func (m *minder) stop() (streamed bool) {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	m.timer.Stop()
	return m.streamed
}

// slower reports whether the body is still coming, and more slowly than pace
// bytes a second.
func (b *body) slower(pace int64, age time.Duration) bool {
	return b != nil && !b.whole.Load() && b.got.Load() < pace*int64(age/time.Second)
}

// giveUp ends the reading of the body, as if its time were over.
func (b *body) giveUp() {
	b.given.Store(true)
	// A transport without deadlines ends at its next read.
	_ = http.NewResponseController(b.x.ResponseWriter).SetReadDeadline(time.Unix(1, 0))
}
