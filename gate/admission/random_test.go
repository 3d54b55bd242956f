package admission

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/comporta/comporta"
)

// house is the model that random sequences are checked against: it knows who
// should be inside, and counts in the plainest way.
type house struct {
	*rapid.T
	s    *State
	c    *Controller
	cfg  Config
	l    *learner
	now  time.Time
	view View

	inside  []Permit
	streams []Permit
	waiting []*Waiter
	lifted  bool // the idle reserve may have been lent since an original was refused last

	fromQueue, jumped int // weight served from the queue to originals, and past a waiting one
}

func (h *house) draw(label string, from, to int) int {
	return rapid.IntRange(from, to).Draw(h.T, label)
}

func (h *house) build() {
	h.cfg.Learner = h.l
	h.cfg.QueueWait = time.Duration(rapid.SampledFrom([]int{0, 1, 20, 100}).Draw(h.T, "queue wait")) * ms
	h.cfg.Routes = []Route{
		{}, {Name: "half", Share: 0.5}, {Name: "half", Share: 0.5, Sheddable: true},
		{Name: "heavy", Weight: h.draw("weight", 1, 5)},
	}
	c, err := New(h.cfg, h.s)
	if err != nil {
		h.Fatal(err)
	}
	h.c = c
}

func (h *house) request() *comporta.Request {
	r := &comporta.Request{Client: comporta.Client{Key: uint64(h.draw("client", 1, 4)), Class: comporta.Class(h.draw("class", 0, 2))}}
	r.Route = max(h.draw("route", -3, 3), 0)
	r.Sighting.Kind = rapid.SampledFrom([]comporta.Kind{comporta.KindOriginal, comporta.KindPoll, comporta.KindRetry, comporta.KindHopeless}).Draw(h.T, "kind")
	r.Sighting.Evidence = comporta.Evidence(h.draw("evidence", 0, 5))
	r.Slot.State = comporta.SlotState(h.draw("slot", 0, 4))
	r.Slot.Disobedient = h.draw("disobedient", 0, 9) == 0
	r.Slot.Crowding = h.draw("crowding", 0, 9) == 0
	r.Patience = time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 50}).Draw(h.T, "patience")) * ms
	return r
}

// arrive lets one request come and checks the decision itself.
func (h *house) arrive() {
	r := h.request()
	limit := h.c.Limit()
	before, waited := h.s.count()
	rt := &h.c.routes[r.Route]
	_, weight := h.c.size(rt)
	free := before+weight <= limit && !rt.full(rt.most(limit, weight))
	rank := rankOf(r, h.view.Attack)
	h.lifted = h.lifted || h.s.idle.lifted.Load()
	g := h.c.AdmitAt(h.now, r, h.view)
	h.lifted = h.lifted || h.s.idle.lifted.Load()
	after, _ := h.s.count()
	switch {
	case g.Waiter != nil:
		h.waiting = append(h.waiting, g.Waiter)
		if limit > 0 && free && waited == 0 {
			h.Fatalf("waits although a permit is free: %+v", h.c.StatsAt(h.now))
		}
		h.queueWithinCaps(limit)
	case g.Admitted():
		h.inside = append(h.inside, g.Permit)
		if after > limit {
			h.Fatalf("%d in flight, limit %d", after, limit)
		}
		ceiling := int(math.Floor((1-h.cfg.Reserve)*float64(limit) + 1e-9))
		if h.cfg.Policy == PolicyReserve && !rank.isOriginal() && !h.lifted && after > ceiling {
			h.Fatalf("a repeat holds what is reserved: %d in flight, limit %d, reserve %v", after, limit, h.cfg.Reserve)
		}
	case limit > 0 && free && waited == 0:
		h.refusedThoughFree(r, rank, g.Reason, before, limit)
	case before+weight > limit && waited == 0 && g.Reason != comporta.CapacityExhausted:
		h.Fatalf("no permit is free, but the reason is %v", g.Reason)
	}
	if h.cfg.Policy == PolicyReserve && rank.isOriginal() && g.Reason != comporta.ReasonNone {
		h.lifted = false
	}
}

// refusedThoughFree: nobody waits and a permit is free; no original is refused
// then, and a repeat only above its line.
func (h *house) refusedThoughFree(r *comporta.Request, k rank, reason comporta.Reason, before, limit int) {
	if k.isOriginal() {
		h.Fatalf("an original is refused with %d of %d in flight", before, limit)
	}
	if reason != comporta.RetryDeferred {
		h.Fatalf("a permit was withheld, but the reason is %v", reason)
	}
	if h.cfg.Policy == PolicyReserve {
		return
	}
	early := r.Slot.State == comporta.SlotEarly || k == rankDisobedient
	if !early || float64(before) < 0.98*float64(limit) {
		h.Fatalf("a repeat of rank %d is refused with %d of %d in flight", k, before, limit)
	}
}

func (h *house) queueWithinCaps(limit int) {
	for l := range numLines {
		n := h.s.queue.lines[l].n
		if n > capOf(l, limit) && n > 1 && h.l.max.Load() == int64(limit) {
			h.Fatalf("%d stand in line %d under a limit of %d", n, l, limit)
		}
	}
}

// collect sorts out those whose wait has ended, until nothing changes: one that
// leaves at its deadline may let another in.
func (h *house) collect() {
	for n := -1; n != len(h.waiting); {
		n = len(h.waiting)
		h.collectOnce()
	}
}

func (h *house) collectOnce() {
	stay := h.waiting[:0]
	for _, w := range h.waiting {
		if g, ok := w.AnswerAt(h.now); !ok {
			stay = append(stay, w)
		} else if g.Admitted() {
			h.inside = append(h.inside, g.Permit)
		}
	}
	h.waiting = stay
}

// release ends a request and checks who got its permit.
func (h *house) release(p Permit, o comporta.Outcome) {
	before := map[*Waiter]bool{}
	for _, w := range h.waiting {
		before[w] = true
	}
	if !p.ReleaseAt(h.now, o) || p.ReleaseAt(h.now, o) {
		h.Fatal("not released exactly once")
	}
	best := numRanks // of the originals that still wait and could have entered
	for _, w := range h.waiting {
		if limit, weight := w.ctl.size(w.route); !w.answered && w.rank.isOriginal() && !w.route.full(w.route.most(limit, weight)) {
			best = min(best, w.rank)
		}
	}
	for _, w := range h.waiting {
		if !before[w] || !w.answered || !w.answer.Admitted() {
			continue
		}
		switch {
		case w.rank.isOriginal():
			h.fromQueue += w.route.weight
		case best < w.rank:
			h.jumped += w.route.weight
		}
	}
}

func (h *house) check() {
	sum := 0
	for _, p := range h.inside {
		if !p.Held() {
			h.Fatal("a permit was lost")
		}
		sum += p.weight
	}
	inflight, waiting := h.s.count()
	if inflight != sum || waiting != len(h.waiting) || h.s.queue.n != waiting {
		h.Fatalf("%d in flight and %d waiting (%d queued), want %d and %d", inflight, waiting, h.s.queue.n, sum, len(h.waiting))
	}
	if n := h.s.streams.Load(); n != int64(len(h.streams)) {
		h.Fatalf("%d streams, want %d", n, len(h.streams))
	}
	// What jumps the queue is at most 5 % of what originals got from it, and the
	// bounded debt of before.
	if slack := max(5, 64/owedEvery) + 5; h.jumped > h.fromQueue/(owedEvery-1)+slack {
		h.Fatalf("%d permits went past waiting originals, who got %d", h.jumped, h.fromQueue)
	}
}

func (h *house) step() {
	switch op := h.draw("op", 0, 19); {
	case op < 9:
		h.arrive()
	case op < 14 && len(h.inside) > 0:
		i := h.draw("who", 0, len(h.inside)-1)
		p := h.inside[i]
		h.inside = append(h.inside[:i], h.inside[i+1:]...)
		h.release(p, success(time.Duration(h.draw("latency", 0, 200))*ms))
	case op < 15 && len(h.inside) > 0:
		i := h.draw("who", 0, len(h.inside)-1)
		if p := h.inside[i]; p.StreamAt(h.now) {
			h.inside = append(h.inside[:i], h.inside[i+1:]...)
			h.streams = append(h.streams, p)
		}
	case op < 16 && len(h.streams) > 0:
		h.streams[0].ReleaseAt(h.now, success(time.Minute))
		h.streams = h.streams[1:]
	case op < 17 && len(h.waiting) > 0:
		i := h.draw("who", 0, len(h.waiting)-1)
		h.waiting[i].AbandonAt(h.now)
		h.waiting = append(h.waiting[:i], h.waiting[i+1:]...)
	case op < 18:
		h.now = h.now.Add(time.Duration(rapid.SampledFrom([]int{-1000, 1, 10, 30, 120, 2000, 6000}).Draw(h.T, "step")) * ms)
	case op < 19:
		h.l.limit.Store(int64(rapid.SampledFrom([]int{0, 1, 2, 3, 8, 20, 64}).Draw(h.T, "limit")))
		h.l.max.Store(max(h.l.max.Load(), h.l.limit.Load()))
		h.view = View{Attack: h.draw("attack", 0, 3) == 0}
	default:
		h.build()
	}
}

// The invariants of the design hold under random sequences of everything that
// can happen, the clock stepping back and the configuration changing included.
func TestInvariants(t *testing.T) {
	for _, policy := range []Policy{PolicyPriority, PolicyReserve} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				h := &house{T: t, s: new(State), l: new(learner), now: t0}
				h.cfg = Config{Policy: policy, Reserve: 0.3}
				h.l.limit.Store(int64(rapid.IntRange(0, 20).Draw(t, "limit")))
				h.l.max.Store(h.l.limit.Load())
				h.build()
				for range rapid.IntRange(1, 150).Draw(t, "steps") {
					h.step()
					h.collect()
					h.check()
				}
				for _, w := range h.waiting {
					w.AbandonAt(h.now)
				}
				h.waiting = nil
				h.collect()
				for _, p := range append(h.inside, h.streams...) {
					p.ReleaseAt(h.now, success(ms))
				}
				inflight, waiting := h.s.count()
				if inflight != 0 || waiting != 0 || h.s.streams.Load() != 0 {
					t.Fatalf("at the end: %d in flight, %d waiting, %d streams", inflight, waiting, h.s.streams.Load())
				}
			})
		})
	}
}

// A closed world with fixed limit: whenever a permit is free, nobody waits.
func TestWorkConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s State
		c, err := New(Config{Capacity: rapid.IntRange(1, 40).Draw(t, "capacity"), QueueWait: time.Hour}, &s)
		if err != nil {
			t.Fatal(err)
		}
		var inside []Permit
		var waiting []*Waiter
		for range 200 {
			if rapid.Bool().Draw(t, "arrive") || len(inside) == 0 {
				r := original(rapid.Uint64Range(1, 5).Draw(t, "client"))
				if rapid.Bool().Draw(t, "repeat") {
					r = slotted(r.Client.Key, comporta.SlotState(rapid.IntRange(0, 4).Draw(t, "slot")))
				}
				g := c.AdmitAt(t0, r, View{})
				if g.Waiter != nil {
					waiting = append(waiting, g.Waiter)
				} else if g.Admitted() {
					inside = append(inside, g.Permit)
				}
			} else {
				i := rapid.IntRange(0, len(inside)-1).Draw(t, "who")
				inside[i].ReleaseAt(t0, success(time.Microsecond))
				inside = append(inside[:i], inside[i+1:]...)
			}
			stay := waiting[:0]
			for _, w := range waiting {
				if g, ok := w.AnswerAt(t0); ok && g.Admitted() {
					inside = append(inside, g.Permit)
				} else if !ok {
					stay = append(stay, w)
				}
			}
			waiting = stay
			if inflight, n := s.count(); n > 0 && inflight < c.Limit() {
				t.Fatalf("%d wait, %d of %d in flight", n, inflight, c.Limit())
			}
		}
	})
}
