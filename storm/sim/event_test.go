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
