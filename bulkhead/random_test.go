package bulkhead

import (
	"context"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// caller is one call of a random sequence.
type caller struct {
	cancel context.CancelFunc
	result chan Permit // one permit, the zero one if it was refused
}

// TestRandomSequences arrives, leaves and releases at random, and compares with
// a queue written plainly.
func TestRandomSequences(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(0, 4).Draw(rt, "limit")
		places := rapid.IntRange(0, 5).Draw(rt, "queue")
		steps := rapid.SliceOfN(rapid.IntRange(0, 99), 1, 60).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) { play(t, limit, places, steps) })
		if t.Failed() {
			rt.FailNow()
		}
	})
}

func play(t *testing.T, limit, places int, steps []int) {
	b := newBulkhead(t, Config{Limit: limit, Queue: places})
	var held []Permit
	var waiting []caller
	defer func() {
		for _, c := range waiting {
			c.cancel()
		}
	}()
	for _, step := range steps {
		switch n := step / 3; step % 3 {
		case 0: // arrive
			ctx, cancel := context.WithCancel(t.Context())
			c := caller{cancel, make(chan Permit, 1)}
			go func() {
				p, _ := b.Acquire(ctx)
				c.result <- p
			}()
			synctest.Wait()
			switch {
			case len(held) < limit:
				held = append(held, answer(t, c, true))
			case limit > 0 && len(waiting) < places:
				waiting = append(waiting, c)
			default:
				answer(t, c, false)
			}
		case 1: // release
			if len(held) == 0 {
				continue
			}
			i := n % len(held)
			held[i].Release()
			held = append(held[:i], held[i+1:]...)
			synctest.Wait()
			if len(waiting) > 0 {
				held = append(held, answer(t, waiting[0], true))
				waiting = waiting[1:]
			}
		case 2: // leave the queue
			if len(waiting) == 0 {
				continue
			}
			i := n % len(waiting)
			waiting[i].cancel()
			synctest.Wait()
			answer(t, waiting[i], false)
			waiting = append(waiting[:i], waiting[i+1:]...)
		}
		if s := b.Stats(); s.InFlight != len(held) || s.Waiting != len(waiting) {
			t.Fatalf("%+v, want %d in flight and %d waiting", s, len(held), len(waiting))
		}
	}
}

// answer returns what a caller got, which must be there by now.
func answer(t *testing.T, c caller, admitted bool) Permit {
	select {
	case p := <-c.result:
		if p.Held() != admitted {
			t.Fatalf("admitted is %v, want %v", p.Held(), admitted)
		}
		if !admitted {
			c.cancel()
		}
		return p
	default:
		t.Fatalf("still waits; want admitted to be %v", admitted)
		return Permit{}
	}
}
