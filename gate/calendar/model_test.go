package calendar

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/comporta/comporta"
)

// model is what a client may rely on, kept beside the calendar.
type model struct {
	due    time.Time
	ticket string
	open   bool // given, and not used yet
}

// Whatever happens in whatever order, on two gateways that share a key file: an
// instant never moves while it is to come, is redeemed once on a node that gave it,
// and a look never calls an operation early, or late, that is not.
func TestModel(t *testing.T) {
	modes := []Mode{ModeCalendar, ModeSpread, ModeHash}
	classes := []comporta.Class{comporta.ClassAnonymous, comporta.ClassProven, comporta.ClassVerified}
	rapid.Check(t, func(rt *rapid.T) {
		h := newHouse(t, Config{Mode: rapid.SampledFrom(modes).Draw(rt, "mode")})
		h.rate(float64(rapid.IntRange(1, 100).Draw(rt, "rate")))
		known := map[[2]int]*model{}
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			if rapid.IntRange(0, 3).Draw(rt, "wait") == 0 {
				h.later(time.Duration(rapid.IntRange(0, 20_000).Draw(rt, "ms")) * time.Millisecond)
			}
			who := [2]int{rapid.IntRange(0, 5).Draw(rt, "client"), rapid.IntRange(0, 5).Draw(rt, "op")}
			m := known[who]
			if m == nil {
				m = &model{}
				known[who] = m
			}
			r := ask(client(who[0], classes[who[0]%3]), who[1])
			if rapid.Bool().Draw(rt, "ticket") {
				r.Ticket = m.ticket
			}
			h.step(rt, m, r, rapid.IntRange(0, 2).Draw(rt, "load"))
		}
	})
}

// step sends one request, checks what is said of it, and admits it or not.
func (h *house) step(rt *rapid.T, m *model, r *comporta.Request, load int) {
	h.LookAt(h.now, r)
	switch s := r.Slot; {
	case m.open && h.now.Before(m.due):
		if s.State != comporta.SlotEarly || !s.Due.Equal(m.due) {
			rt.Fatalf("%v before %v: %v, due %v", h.now, m.due, s.State, s.Due)
		}
	case m.open && !h.now.After(m.due.Add(DefaultGrace)):
		if s.State != comporta.SlotRedeemed && s.State != comporta.SlotAged && s.State != comporta.SlotPlain {
			rt.Fatalf("at its instant: %v", s.State)
		}
		m.open = false
	case !m.open && s.State != comporta.SlotNone:
		rt.Fatalf("without an instant: %v", s.State)
	default: // late; up to a tenth of the wait is still on time
		m.open = false
	}
	if load == 0 {
		h.AdmittedAt(h.now, r)
		h.DoneAt(h.now, answered, Load{Inflight: 10, Limit: 100})
		m.open = false
		return
	}
	b := h.BookAt(h.now, r, comporta.RetryDeferred, h.load)
	if b.Fresh == m.open {
		rt.Fatalf("fresh %v, open %v", b.Fresh, m.open)
	}
	if m.open && !b.Due.Equal(m.due) {
		rt.Fatalf("the instant moved from %v to %v", m.due, b.Due)
	}
	wait := b.Due.Sub(h.now)
	if wait <= 0 || b.Fresh && wait < h.base || wait > h.horizon {
		rt.Fatalf("wait %v", wait)
	}
	m.due, m.ticket, m.open = b.Due, string(h.AppendTicket(nil, r, b)), true
}
