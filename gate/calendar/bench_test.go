package calendar

import (
	"testing"
	"time"

	"github.com/comporta/comporta"
)

// requests are fresh operations, made before they are measured.
func requests(n int, class comporta.Class) []comporta.Request {
	rs := make([]comporta.Request, n)
	for i := range rs {
		rs[i] = *ask(client(i, class), i%16)
		rs[i].Query = "page=2&sort=created"
		rs[i].IdempotencyKey = "0b8f8a9e-7a55-4b39-9e52-3f1f6f3a2a10"
	}
	return rs
}

// BenchmarkRefuse is the calendar's part of a refusal: a fresh operation is looked
// up, booked, and gets its ticket.
func BenchmarkRefuse(b *testing.B) {
	for _, class := range []comporta.Class{comporta.ClassAnonymous, comporta.ClassProven} {
		b.Run(class.String(), func(b *testing.B) {
			h := newHouseOf(b, Config{}, DefaultStateBytes)
			h.rate(1000)
			rs := requests(1<<18, class)
			var buf [ticketLength]byte
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				r := &rs[i&(len(rs)-1)]
				if i++; i&(len(rs)-1) == 0 {
					h.later(20 * time.Minute)
				}
				h.now = h.now.Add(50 * time.Microsecond)
				h.LookAt(h.now, r)
				booking := h.BookAt(h.now, r, comporta.CapacityExhausted, h.load)
				h.AppendTicket(buf[:0], r, booking)
			}
		})
	}
}

func BenchmarkBook(b *testing.B) {
	h := newHouseOf(b, Config{}, DefaultStateBytes)
	h.rate(1000)
	rs := requests(1<<18, comporta.ClassProven)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		r := &rs[i&(len(rs)-1)]
		r.Slot = comporta.Slot{}
		if i++; i&(len(rs)-1) == 0 {
			h.later(20 * time.Minute)
		}
		h.now = h.now.Add(50 * time.Microsecond)
		h.BookAt(h.now, r, comporta.CapacityExhausted, h.load)
	}
}

func BenchmarkAppendTicket(b *testing.B) {
	h := newHouseOf(b, Config{}, DefaultStateBytes)
	r := &requests(1, comporta.ClassProven)[0]
	booking, _ := h.refuse(r)
	var buf [ticketLength]byte
	b.ReportAllocs()
	for b.Loop() {
		h.AppendTicket(buf[:0], r, booking)
	}
}

func BenchmarkLook(b *testing.B) {
	for _, name := range []string{"calm", "unknown", "early", "ticket"} {
		b.Run(name, func(b *testing.B) {
			h := newHouseOf(b, Config{}, DefaultStateBytes)
			r := &requests(1, comporta.ClassProven)[0]
			if name != "calm" {
				h.refuse(ask(client(7, comporta.ClassProven), 1))
			}
			if name == "early" || name == "ticket" {
				_, ticket := h.refuse(r)
				if name == "ticket" {
					r.Ticket = ticket
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				h.LookAt(h.now, r)
			}
		})
	}
}

func BenchmarkDone(b *testing.B) {
	h := newHouseOf(b, Config{}, DefaultStateBytes)
	b.ReportAllocs()
	for b.Loop() {
		h.DoneAt(h.now, answered, h.load)
	}
}
