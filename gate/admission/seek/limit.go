package seek

import (
	"sync"
	"sync/atomic"
	"time"
)

// Limit is a concurrency limit that learns.
//
// The inflight that its methods take is the number of admitted requests (or
// their weight) after the event. Late or reordered events are tolerated: they
// blur a mean, they break nothing. A clock that steps back, or leaps by more than
// an hour, costs the open window and moves nothing.
//
// All methods may be called from many goroutines. [Limit.Limit] and
// [Limit.RefusedAt] never wait for a lock, for they run most when the house is
// full. None allocates. Make one with [New]; the zero value admits nothing.
type Limit struct {
	level   atomic.Int64  // what the gate reads: the whole part of seeker.level
	refused atomic.Uint64 // refusals ever; a window compares its two ends

	mu     sync.Mutex
	seeker seeker // guarded by mu
}

// New returns a Limit that starts at the configuration's initial value. The
// error joins everything that is wrong with c.
func New(c Config) (*Limit, error) {
	c, err := c.normal()
	if err != nil {
		return nil, err
	}
	l := new(Limit)
	l.seeker = seeker{conf: c, level: float64(c.Initial), fresh: true}
	l.publish()
	return l, nil
}

// Limit returns how many requests may be in flight now. It stays within Min and
// Max of the configuration.
func (l *Limit) Limit() int { return int(l.level.Load()) }

// StartAt tells that a request was admitted.
func (l *Limit) StartAt(now time.Time, inflight int) {
	l.mu.Lock()
	l.seeker.moveTo(now, inflight, &l.refused)
	l.mu.Unlock()
}

// IgnoreAt tells that a request was released without being a sample: its caller
// left, it became a stream, or it failed in a way that has nothing to do with
// capacity.
func (l *Limit) IgnoreAt(now time.Time, inflight int) { l.StartAt(now, inflight) }

// DoneAt tells that a request was answered after latency, counted from its
// admission. drop says that the answer never came: the gateway's own timeout, a
// 504, or a refused connection; its latency is then not read.
func (l *Limit) DoneAt(now time.Time, inflight int, latency time.Duration, drop bool) {
	l.mu.Lock()
	s := &l.seeker
	if s.moveTo(now, inflight, &l.refused) {
		s.open.add(s.now, latency, drop)
		if s.open.enough(s.now, s.mean, s.need) {
			s.close(&l.refused)
			l.publish()
		}
	}
	l.mu.Unlock()
}

// RefusedAt tells that a request was refused for want of this limit. Refusals for other reasons (a rate rule, an operator's shed, a
// withheld reserve) must not be told: they would make the limit grow.
func (l *Limit) RefusedAt(time.Time) { l.refused.Add(1) }

// FreezeAt stops the learning while frozen is true, as when a breaker is open:
// what comes back then says nothing about concurrency. The limit keeps its
// value. Learning resumes with an empty window.
func (l *Limit) FreezeAt(now time.Time, frozen bool) {
	l.mu.Lock()
	s := &l.seeker
	s.moveTo(now, s.inflight, &l.refused)
	if s.frozen != frozen {
		s.frozen = frozen
		s.settle = s.now + seconds(s.mean)
		s.restart(&l.refused)
	}
	l.mu.Unlock()
}

// SetConfig puts new bounds in force, as a reload does. What was learned stays,
// moved into the new bounds where it must be. On an error nothing changes.
func (l *Limit) SetConfig(c Config) error {
	c, err := c.normal()
	if err != nil {
		return err
	}
	l.mu.Lock()
	s := &l.seeker
	s.conf = c
	s.base = min(s.base, float64(c.Max))
	if b := s.bounded(s.level); b != s.level {
		s.set(b)
	}
	s.restart(&l.refused)
	l.publish()
	l.mu.Unlock()
	return nil
}

func (l *Limit) publish() { l.level.Store(int64(l.seeker.level)) }
