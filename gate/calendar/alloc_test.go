package calendar

import (
	"testing"
	"time"

	"github.com/comporta/comporta"
)

// Nothing on the way of a request allocates.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool drops at random under the race detector")
	}
	h := newHouse(t, Config{})
	rs := requests(4000, comporta.ClassProven)
	back := rs[0]
	_, back.Ticket = h.refuse(&back)
	var buf [ticketLength]byte
	i := 0
	steps := map[string]func(){
		"a fresh refusal": func() {
			r := &rs[i%len(rs)]
			i++
			h.LookAt(h.now, r)
			b := h.BookAt(h.now, r, comporta.CapacityExhausted, h.load)
			h.AppendTicket(buf[:0], r, b)
		},
		"a look with a ticket": func() { h.LookAt(h.now, &back) },
		"an early refusal":     func() { h.LookAt(h.now, &back); h.BookAt(h.now, &back, comporta.RetryDeferred, h.load) },
		"an answer":            func() { h.AdmittedAt(h.now, &back); h.DoneAt(h.now, answered, h.load) },
		"a new second":         func() { h.later(time.Second); h.DoneAt(h.now, answered, h.load) },
	}
	for name, step := range steps {
		if n := testing.AllocsPerRun(200, step); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
