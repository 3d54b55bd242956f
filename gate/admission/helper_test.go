package admission

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

// t0 is when virtual time begins. It has no monotonic reading, as in a simulation.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const ms = time.Millisecond

func at(d time.Duration) time.Time { return t0.Add(d) }

func newController(t testing.TB, c Config, s *State) *Controller {
	t.Helper()
	ctl, err := New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	return ctl
}

func original(client uint64) *comporta.Request {
	return &comporta.Request{Client: comporta.Client{Key: client}}
}

func retry(client uint64) *comporta.Request {
	r := original(client)
	r.Sighting = comporta.Sighting{Kind: comporta.KindRetry, Evidence: comporta.EvidenceKey, Attempts: 2}
	return r
}

func slotted(client uint64, state comporta.SlotState) *comporta.Request {
	r := retry(client)
	r.Slot.State = state
	return r
}

func believed(r *comporta.Request) *comporta.Request {
	r.Client.Class = comporta.ClassProven
	return r
}

func success(latency time.Duration) comporta.Outcome {
	return comporta.Outcome{Status: 200, Result: comporta.ResultSuccess, Latency: latency}
}

// fill admits n originals, each of its own client, and returns their permits.
func fill(t testing.TB, c *Controller, now time.Time, n int) []Permit {
	t.Helper()
	permits := make([]Permit, 0, n)
	for i := range n {
		permits = append(permits, mustAdmit(t, c, now, original(uint64(1000+i))))
	}
	return permits
}

func mustAdmit(t testing.TB, c *Controller, now time.Time, r *comporta.Request) Permit {
	t.Helper()
	g := c.AdmitAt(now, r, View{})
	if !g.Admitted() {
		t.Fatalf("not admitted: reason %v, waiter %v, %+v", g.Reason, g.Waiter != nil, c.StatsAt(now))
	}
	return g.Permit
}

func mustWait(t testing.TB, c *Controller, now time.Time, r *comporta.Request, v View) *Waiter {
	t.Helper()
	g := c.AdmitAt(now, r, v)
	if g.Waiter == nil {
		t.Fatalf("does not wait: admitted %v, reason %v, %+v", g.Admitted(), g.Reason, c.StatsAt(now))
	}
	return g.Waiter
}

func mustRefuse(t testing.TB, c *Controller, now time.Time, r *comporta.Request, v View, want comporta.Reason) {
	t.Helper()
	g := c.AdmitAt(now, r, v)
	if g.Reason != want || g.Permit.Held() || g.Waiter != nil {
		t.Fatalf("reason %v (admitted %v, waits %v), want %v; %+v", g.Reason, g.Admitted(), g.Waiter != nil, want, c.StatsAt(now))
	}
}

// got returns the permit of a waiter that was served, the zero Permit if it
// still waits or was refused.
func got(w *Waiter, now time.Time) Permit {
	g, _ := w.AnswerAt(now)
	return g.Permit
}

func served(w *Waiter, now time.Time) bool {
	g, ok := w.AnswerAt(now)
	return ok && g.Admitted()
}

// atRest fails unless nothing is counted any more.
func atRest(t testing.TB, s *State) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	inflight, waiting := s.count()
	if inflight != 0 || waiting != 0 || s.queue.n != 0 || s.streams.Load() != 0 {
		t.Errorf("not at rest: %d in flight, %d waiting (%d queued), %d streams", inflight, waiting, s.queue.n, s.streams.Load())
	}
	for name, w := range s.routes {
		if n := w.inflight.Load(); n != 0 {
			t.Errorf("route %q still holds %d", name, n)
		}
	}
	for l := range s.queue.lines {
		if q := &s.queue.lines[l]; q.n != 0 || q.most != 0 || len(q.of) != 0 {
			t.Errorf("line %d still counts %d waiters, most %d, %v", l, q.n, q.most, q.of)
		}
	}
}

// learner is a Learner whose limit the test sets. It counts what it is told.
type learner struct {
	limit                                      atomic.Int64
	starts, done, drops, ignored, refused, max atomic.Int64
}

func (l *learner) Limit() int { return int(l.limit.Load()) }
func (l *learner) StartAt(_ time.Time, inflight int) {
	l.starts.Add(1)
	for m := l.max.Load(); int64(inflight) > m && !l.max.CompareAndSwap(m, int64(inflight)); m = l.max.Load() {
	}
}

func (l *learner) DoneAt(_ time.Time, _ int, _ time.Duration, drop bool) {
	if drop {
		l.drops.Add(1)
	} else {
		l.done.Add(1)
	}
}
func (l *learner) IgnoreAt(time.Time, int) { l.ignored.Add(1) }
func (l *learner) RefusedAt(time.Time)     { l.refused.Add(1) }
