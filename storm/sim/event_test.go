package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The agenda gives everything back, in the order of time, whatever the order in
// which it came and went.
func TestAgendaIsInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var a agenda
	var open []instant
	now := instant(0)
	for range 20_000 {
		if rng.IntN(5) > 1 || a.empty() {
			at := now + instant(rng.IntN(50))
			a.add(at, evSend, uint32(at))
			open = append(open, at)
			continue
		}
		slices.Sort(open)
		ev := a.next()
		if ev.at != open[0] || uint32(ev.at) != ev.ref {
			t.Fatalf("came out at %d, expected %d", ev.at, open[0])
		}
		now, open = ev.at, open[1:]
	}
}

// plainHeap is the agenda as one would write it down: who finds its place early stops
// there.
type plainHeap []event

func (p *plainHeap) add(ev event) {
	h := append(*p, ev)
	for i := len(h) - 1; i > 0 && h[(i-1)/4].at > h[i].at; i = (i - 1) / 4 {
		h[i], h[(i-1)/4] = h[(i-1)/4], h[i]
	}
	*p = h
}

func (p *plainHeap) next() event {
	h := *p
	first := h[0]
	h[0] = h[len(h)-1]
	h = h[:len(h)-1]
	for i := 0; ; {
		least := i
		for c := 4*i + 1; c < min(4*i+5, len(h)); c++ {
			if h[c].at < h[least].at {
				least = c
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*p = h
	return first
}

// Among events of one instant the agenda's order is that of the plain heap, so that
// runs are what they were before it was made quick.
func TestAgendaBreaksTiesAsAPlainHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var a agenda
	var plain plainHeap
	now := instant(0)
	for ref := range uint32(50_000) {
		if rng.IntN(2) == 0 || a.empty() {
			at := now + instant(rng.IntN(10))
			a.add(at, evSend, ref)
			plain.add(event{at, evSend, ref})
			continue
		}
		ev, want := a.next(), plain.next()
		if ev != want {
			t.Fatalf("came out %v, expected %v", ev, want)
		}
		now = ev.at
	}
}

func TestAgendaMakesNoGarbage(t *testing.T) {
	var a agenda
	for i := range 1000 {
		a.add(instant(i), evSend, 0)
	}
	n := testing.AllocsPerRun(1000, func() {
		ev := a.next()
		a.add(ev.at+500, evAnswer, ev.ref)
	})
	if n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}
