package admission

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta"
)

// cases/overload.md 1: waiters that give up take no permit with them.
func TestCase_Overload_A1_PermitOfAnAbandonedWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s State
		c := newController(t, Config{Capacity: 8, QueueWait: 20 * ms}, &s)
		for range 1000 {
			holders := fill(t, c, time.Now(), 8)
			var wg sync.WaitGroup
			var timedOut, abandoned atomic.Int64
			ctx, cancel := context.WithTimeout(t.Context(), 20*ms) // at the same instant as the wait ends
			for i := range 8 {
				g := c.AdmitAt(time.Now(), original(uint64(i)), View{})
				if g.Waiter == nil {
					continue // the queue holds two
				}
				wg.Go(func() {
					switch g, err := g.Waiter.Await(ctx); {
					case errors.Is(err, context.DeadlineExceeded):
						abandoned.Add(1)
					case g.Reason == comporta.CapacityExhausted:
						timedOut.Add(1)
					default:
						t.Errorf("answer %+v, %v", g, err)
					}
				})
			}
			wg.Wait()
			cancel()
			if n := timedOut.Load() + abandoned.Load(); n != 2 {
				t.Fatalf("%d waiters ended without a permit, want 2", n)
			}
			for _, p := range holders {
				p.ReleaseAt(time.Now(), success(ms))
			}
			for _, p := range fill(t, c, time.Now(), 8) {
				p.ReleaseAt(time.Now(), success(ms))
			}
			atRest(t, &s)
		}
	})
}

// The race of case 1 in real time: hand-over and goodbye meet, many times over.
func TestCase_Overload_A1_HandOverMeetsGoodbye(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 1, QueueWait: time.Hour}, &s)
	for i := range 2000 {
		now := time.Now()
		p := mustAdmit(t, c, now, original(1))
		w := mustWait(t, c, now, original(2), View{})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { p.ReleaseAt(now, success(ms)) })
		wg.Go(cancel)
		g, err := w.Await(ctx)
		wg.Wait()
		if err == nil {
			if !g.Permit.Held() {
				t.Fatalf("round %d: an answer without a permit: %+v", i, g)
			}
			g.Permit.ReleaseAt(now, success(ms))
		} else if g.Permit.Held() {
			t.Fatalf("round %d: a permit for a caller that has gone", i)
		}
		atRest(t, &s)
	}
}

// cases/overload.md 2: whatever the moment at which the caller leaves, exactly
// one release, and the next request is admitted.
func TestCase_Overload_A2_CallerLeaves(t *testing.T) {
	abandoned := comporta.Outcome{Result: comporta.ResultAbandoned, Latency: ms}
	var s State
	c := newController(t, Config{Capacity: 1, QueueWait: 100 * ms}, &s)

	p := mustAdmit(t, c, t0, original(1)) // (a) before the handler, (c) while dialling, (d) in mid-body
	w := mustWait(t, c, t0, original(2), View{})
	w.AbandonAt(at(ms)) // (b) while queued
	w.AbandonAt(at(ms))
	if st := c.StatsAt(at(ms)); st.InFlight != 1 || st.Waiting != 0 {
		t.Fatalf("after a goodbye from the queue: %+v", st)
	}
	if !p.ReleaseAt(at(2*ms), abandoned) || p.ReleaseAt(at(2*ms), abandoned) {
		t.Fatal("not released exactly once")
	}
	p = mustAdmit(t, c, at(3*ms), original(3))
	w = mustWait(t, c, at(3*ms), original(4), View{})
	p.ReleaseAt(at(4*ms), success(ms)) // w holds the permit now, and nobody has told its caller
	next := mustWait(t, c, at(5*ms), original(5), View{})
	w.AbandonAt(at(6 * ms))
	if !served(next, at(6*ms)) {
		t.Fatal("the permit of a caller that had gone was not passed on")
	}
	w.AbandonAt(at(7 * ms))
	if st := c.StatsAt(at(7 * ms)); st.InFlight != 1 {
		t.Fatalf("%+v", st)
	}
	got(next, at(7*ms)).ReleaseAt(at(7*ms), abandoned)
	atRest(t, &s)
}

// cases/overload.md 3: released exactly once, although finish and close both
// fire; a stream is moved to its own count.
func TestCase_Overload_A3_StreamsAndDoubleRelease(t *testing.T) {
	var s State
	l := new(learner)
	l.limit.Store(2)
	c := newController(t, Config{Learner: l, Streams: 2, QueueWait: 100 * ms}, &s)
	p, q := mustAdmit(t, c, t0, original(1)), mustAdmit(t, c, t0, original(2))
	w := mustWait(t, c, t0, original(3), View{})
	for range 2 { // the second call finds it a stream already
		if !p.StreamAt(at(ms)) {
			t.Fatal("no room for a stream")
		}
	}
	if st := c.StatsAt(at(ms)); st.InFlight != 2 || st.Streams != 1 || !served(w, at(ms)) {
		t.Fatalf("its permit did not pass to the waiter: %+v", st)
	}
	if !q.StreamAt(at(ms)) {
		t.Fatal("no room for a second stream")
	}
	third := got(w, at(ms))
	if third.StreamAt(at(ms)) {
		t.Fatal("three streams, the cap is two")
	}
	if st := c.StatsAt(at(ms)); st.InFlight != 1 || st.Streams != 2 {
		t.Fatalf("a refused stream has moved: %+v", st)
	}
	copied := p
	var wg sync.WaitGroup
	var released atomic.Int64
	for range 8 {
		wg.Go(func() {
			if copied.ReleaseAt(at(time.Hour), success(time.Hour)) {
				released.Add(1)
			}
		})
	}
	wg.Wait()
	if released.Load() != 1 || p.Held() || p.StreamAt(at(time.Hour)) {
		t.Fatalf("released %d times", released.Load())
	}
	q.ReleaseAt(at(time.Hour), success(time.Hour))
	third.ReleaseAt(at(time.Hour), success(ms))
	// cases/overload.md 16: streams are no samples.
	if l.done.Load() != 1 || l.ignored.Load() != 2 {
		t.Errorf("%d samples and %d ignored, want 1 and 2", l.done.Load(), l.ignored.Load())
	}
	if (Permit{}).Held() || (Permit{}).ReleaseAt(t0, success(ms)) || (Permit{}).StreamAt(t0) {
		t.Error("the zero permit holds something")
	}
	atRest(t, &s)
}

func TestStreamCapFollowsTheLimit(t *testing.T) {
	for capacity, want := range map[int]int{1: 1000, 100: 1000, 500: 5000} {
		if n := newController(t, Config{Capacity: capacity}, new(State)).maxStreams(); n != want {
			t.Errorf("capacity %d: %d streams, want %d", capacity, n, want)
		}
	}
}

// An old copy of a permit has no power over the later permit that uses its hold.
func TestStalePermit(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 1}, &s)
	old := mustAdmit(t, c, t0, original(1))
	old.ReleaseAt(t0, success(ms))
	for range 100 {
		p := mustAdmit(t, c, t0, original(2))
		if old.Held() || old.ReleaseAt(t0, success(ms)) || old.StreamAt(t0) || !p.Held() {
			t.Fatal("the old copy released a later permit")
		}
		p.ReleaseAt(t0, success(ms))
	}
}

// Release and StreamAt of one permit meet: whoever is first, nothing is left.
func TestReleaseMeetsStream(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 4}, &s)
	for range 2000 {
		p := mustAdmit(t, c, t0, original(1))
		var wg sync.WaitGroup
		wg.Go(func() { p.StreamAt(t0) })
		wg.Go(func() { p.ReleaseAt(t0, success(ms)) })
		wg.Go(func() { p.ReleaseAt(t0, success(ms)) })
		wg.Wait()
		atRest(t, &s)
	}
}

// cases/overload.md 8: the limit holds at every moment, whoever arrives, waits,
// gives up, streams or reloads meanwhile.
// cases/overload.md 10: and everything is read meanwhile.
func TestCase_Overload_A8_NeverAboveTheLimit(t *testing.T) {
	const limit = 10
	var s State
	l := new(learner) // sees the count after each admission
	l.limit.Store(limit)
	cfg := Config{Learner: l, QueueWait: 2 * ms, Routes: []Route{{}, {Name: "half", Share: 0.5}, {Name: "half", Share: 0.5, Sheddable: true}, {Weight: 3}}}
	cs := []*Controller{newController(t, cfg, &s), newController(t, cfg, &s)}
	var inside, most, entered atomic.Int64
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for i := range 1000 {
				c := cs[i%2]
				r := original(uint64(g % 7))
				r.Route = (g + i) % 4
				if i%3 == 0 {
					r.Sighting = retry(0).Sighting
					r.Slot.State = comporta.SlotState(i % 5)
				}
				grant := c.AdmitAt(time.Now(), r, View{Attack: i%50 == 0})
				if grant.Waiter != nil {
					if i%4 == 0 {
						grant.Waiter.AbandonAt(time.Now())
						continue
					}
					grant, _ = grant.Waiter.Await(t.Context())
				}
				if !grant.Permit.Held() {
					continue
				}
				weight := int64(grant.Permit.weight)
				n := inside.Add(weight)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				entered.Add(1)
				runtime.Gosched() // let the others find the house full
				inside.Add(-weight)
				if i%10 == 0 {
					grant.Permit.StreamAt(time.Now())
				}
				grant.Permit.ReleaseAt(time.Now(), success(time.Duration(i)))
				c.StatsAt(time.Now())
			}
		})
	}
	wg.Wait()
	if most.Load() > limit || l.max.Load() > limit {
		t.Errorf("%d and %d in flight, limit %d", most.Load(), l.max.Load(), limit)
	}
	if entered.Load() == 0 {
		t.Error("nobody entered")
	}
	atRest(t, &s)
}

// A release and an arrival meet at a full house, or at a full route: whoever
// waits is woken. Two callers share one permit; when one has just given it back,
// the other cannot be standing in the queue.
func TestNoLostWakeUp(t *testing.T) {
	for _, share := range []float64{1, 0.01} {
		var s State
		c := newController(t, Config{Capacity: 1, QueueWait: time.Hour, Routes: []Route{{Share: share}}}, &s)
		if share < 1 {
			c = newController(t, Config{Capacity: 100, QueueWait: time.Hour, Routes: []Route{{Share: share}}}, &s)
		}
		var lost atomic.Int64
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				r := original(1)
				for range 50_000 {
					g := c.AdmitAt(t0, r, View{})
					if g.Waiter != nil {
						<-g.Waiter.Ready()
						g, _ = g.Waiter.AnswerAt(t0)
					}
					g.Permit.ReleaseAt(t0, success(time.Microsecond))
					s.mu.Lock()
					if inflight, waiting := s.count(); inflight == 0 && waiting > 0 {
						lost.Add(1)
						s.dispatch(t0) // so that the test ends
					}
					s.mu.Unlock()
				}
			})
		}
		wg.Wait()
		if n := lost.Load(); n != 0 {
			t.Errorf("share %v: nobody woke the waiter, %d times", share, n)
		}
		atRest(t, &s)
	}
}

// Two cores at one permit, as tightly as they can: a check that is not one step
// with the addition shows here.
func TestCase_Overload_A8_OnePermit(t *testing.T) {
	var s State
	c := newController(t, Config{Capacity: 1}, &s)
	var inside, doubled atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			r := original(1)
			for range 500_000 {
				if g := c.AdmitAt(t0, r, View{}); g.Permit.Held() {
					if inside.Add(1) > 1 {
						doubled.Add(1)
					}
					inside.Add(-1)
					g.Permit.ReleaseAt(t0, success(ms))
				}
			}
		})
	}
	wg.Wait()
	if doubled.Load() != 0 {
		t.Errorf("two held the only permit, %d times", doubled.Load())
	}
	atRest(t, &s)
}

// The plain form of case 8: no queue, no weights, the limit always reached.
func TestCase_Overload_A8_CompareAndSwap(t *testing.T) {
	const limit = 10
	var s State
	c := newController(t, Config{Capacity: limit}, &s)
	var inside, most atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 1000 {
				g := c.AdmitAt(t0, original(1), View{})
				if !g.Admitted() {
					runtime.Gosched()
					continue
				}
				n := inside.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				if got := c.StatsAt(t0).InFlight; got > limit {
					t.Errorf("%d in flight, limit %d", got, limit)
				}
				runtime.Gosched()
				inside.Add(-1)
				g.Permit.ReleaseAt(t0, success(ms))
			}
		})
	}
	wg.Wait()
	if most.Load() != limit {
		t.Errorf("%d in flight at most, want the limit of %d", most.Load(), limit)
	}
	atRest(t, &s)
}

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s State
		c := newController(t, Config{Capacity: 4, QueueWait: 100 * ms}, &s)
		permits := fill(t, c, time.Now(), 4)
		w := mustWait(t, c, time.Now(), original(1), View{})
		time.AfterFunc(40*ms, func() { permits[0].ReleaseAt(time.Now(), success(ms)) })
		if g, err := w.Await(t.Context()); err != nil || !g.Admitted() || g.Queued != 40*ms {
			t.Errorf("%+v, %v", g, err)
		}
		w = mustWait(t, c, time.Now(), original(1), View{})
		began := time.Now()
		if g, err := w.Await(t.Context()); err != nil || g.Reason != comporta.CapacityExhausted || time.Since(began) != 100*ms {
			t.Errorf("%+v, %v after %v", g, err, time.Since(began))
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		w = mustWait(t, c, time.Now(), original(1), View{})
		time.AfterFunc(10*ms, func() { cancel(gone) })
		if g, err := w.Await(ctx); !errors.Is(err, gone) || g.Permit.Held() {
			t.Errorf("%+v, %v", g, err)
		}
		if st := c.StatsAt(time.Now()); st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
	})
}
