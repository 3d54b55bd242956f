package sim

import (
	"math/rand/v2"
	"testing"
)

// plainStation is a first-in first-out service as one would write it first: it
// looks at every slot, and keeps everybody's times.
type plainStation struct {
	free   []instant
	starts []instant
	limit  int
}

func (p *plainStation) arrive(now, work instant) (start, done instant, ok bool) {
	waiting, first := 0, 0
	for _, s := range p.starts {
		if s > now {
			waiting++
		}
	}
	for i := range p.free {
		if p.free[i] < p.free[first] {
			first = i
		}
	}
	if p.free[first] > now && waiting >= p.limit {
		return 0, 0, false
	}
	start = max(now, p.free[first])
	p.free[first] = start + work
	p.starts = append(p.starts, start)
	return start, start + work, true
}

func TestStationIsFirstInFirstOut(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, size := range []struct{ slots, queue int }{{1, 0}, {1, 3}, {4, 0}, {7, 11}} {
		s, p := newStation(size.slots, size.queue), &plainStation{free: make([]instant, size.slots), limit: size.queue}
		now, last := instant(0), instant(0)
		for range 3000 {
			now += instant(rng.IntN(12))
			work := instant(1 + rng.IntN(20*size.slots))
			start, done, ok := p.arrive(now, work)
			if got := !s.full(now); got != ok {
				t.Fatalf("%+v at %d: room is %t, expected %t", size, now, got, ok)
			}
			if !ok {
				continue
			}
			if got := s.start(now); got != start || start < last {
				t.Fatalf("%+v at %d: begins at %d, expected %d and not before %d", size, now, got, start, last)
			}
			s.take(now, start, done)
			last = start
		}
	}
}
