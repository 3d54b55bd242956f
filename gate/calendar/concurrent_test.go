package calendar

import (
	"sync"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

// Many goroutines refuse the same operations at once: each operation has one
// instant, and no second is sold twice.
func TestConcurrentBookings(t *testing.T) {
	const workers, operations = 8, 300
	h := newHouse(t, Config{})
	h.rate(50)
	var due [workers][operations]time.Time
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range operations {
				r := ask(client(i, comporta.ClassProven), 1)
				now := h.now.Add(time.Duration(i) * time.Millisecond)
				h.LookAt(now, r)
				b := h.BookAt(now, r, comporta.CapacityExhausted, h.load)
				h.AppendTicket(nil, r, b)
				h.DoneAt(now, answered, h.load)
				due[w][i] = b.Due
			}
		})
	}
	wg.Wait()
	histogram := perSecond{}
	for i := range operations {
		for w := range workers {
			if !due[w][i].Equal(due[0][i]) {
				t.Fatalf("operation %d: %v and %v", i, due[0][i], due[w][i])
			}
		}
		histogram.add(due[0][i])
	}
	if n := h.state.Stats().Booked; n != operations {
		t.Errorf("%d bookings of %d operations", n, operations)
	}
	if most, rate := histogram.most(), h.state.spare.load()*overbookMin; float64(most) > rate+1 {
		t.Errorf("%d in one second at %.1f/s", most, rate)
	}
}

// One slot is redeemed once, whoever shows it.
func TestConcurrentRedemption(t *testing.T) {
	h := newHouse(t, Config{})
	for op := range 50 {
		r := ask(client(op, comporta.ClassProven), op)
		b, ticket := h.refuse(r)
		var wg sync.WaitGroup
		var mu sync.Mutex
		redeemed := 0
		for w := range 8 {
			twin := *r
			if w%2 == 0 {
				twin.Ticket = ticket
			}
			wg.Go(func() {
				h.LookAt(b.Due, &twin)
				h.AdmittedAt(b.Due, &twin)
				mu.Lock()
				defer mu.Unlock()
				if twin.Slot.State == comporta.SlotRedeemed {
					redeemed++
				}
			})
		}
		wg.Wait()
		if redeemed != 1 {
			t.Fatalf("redeemed %d times", redeemed)
		}
	}
}
