package calendar

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/keys"
)

var start = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

const ringText = "the first key of these tests, which signs\nthe second key of these tests, which was first\n"

// house is a calendar with what surrounds it in a test.
type house struct {
	*Calendar
	t    testing.TB
	now  time.Time
	load Load
}

func newHouse(t testing.TB, cfg Config) *house {
	t.Helper()
	return newHouseOf(t, cfg, MinStateBytes)
}

func newHouseOf(t testing.TB, cfg Config, bytes int) *house {
	t.Helper()
	state, err := NewState(bytes)
	if err != nil {
		t.Fatal(err)
	}
	return newHouseOver(t, cfg, state, ringOf(t, ringText))
}

func newHouseOver(t testing.TB, cfg Config, state *State, ring *keys.Ring) *house {
	t.Helper()
	c, err := New(cfg, state, ring)
	if err != nil {
		t.Fatal(err)
	}
	return &house{Calendar: c, t: t, now: start, load: Load{Inflight: 100, Limit: 100}}
}

func ringOf(t testing.TB, text string) *keys.Ring {
	t.Helper()
	ring, err := keys.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func (h *house) later(d time.Duration) { h.now = h.now.Add(d) }

// look shows a request as the gate does: what it was and what it is now differ.
func (h *house) look(r *comporta.Request) comporta.Slot {
	h.LookAt(h.now, r)
	return r.Slot
}

// refuse looks, books and writes the ticket.
func (h *house) refuse(r *comporta.Request) (Booking, string) {
	h.LookAt(h.now, r)
	b := h.BookAt(h.now, r, comporta.CapacityExhausted, h.load)
	return b, string(h.AppendTicket(nil, r, b))
}

// dueBefore counts the instants given out, from now until end.
func (h *house) dueBefore(end time.Time) int64 {
	n := h.state.due.between(h.now.UnixMilli(), end.UnixMilli())
	return n[believed] + n[others]
}

// want checks the state of a request's slot.
func (h *house) want(r *comporta.Request, want comporta.SlotState) {
	h.t.Helper()
	if got := h.look(r).State; got != want {
		h.t.Errorf("slot %v after %v, want %v", got, h.now.Sub(start), want)
	}
}

func client(id int, class comporta.Class) comporta.Client {
	return comporta.Client{Key: mix(uint64(id) + 1), Network: mix(uint64(id) + 1<<40), Class: class}
}

func ask(c comporta.Client, op int) *comporta.Request {
	return &comporta.Request{Method: "POST", Host: "api.example", Path: fmt.Sprint("/orders/", op), Client: c}
}

func TestNew_Problems(t *testing.T) {
	_, err := New(Config{Mode: "cron", Base: 2 * time.Hour, Horizon: 2 * time.Hour, Grace: -1}, nil, nil)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`Mode "cron"`, "Base 2h0m0s", "Horizon 2h0m0s", "Grace -1ns", "no State", "no key"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func TestNew_Defaults(t *testing.T) {
	for _, tt := range []struct {
		mode Mode
		base time.Duration
	}{{"", time.Second}, {ModeCalendar, time.Second}, {ModeSpread, time.Second}, {ModeHash, 10 * time.Second}} {
		c := newHouse(t, Config{Mode: tt.mode}).Calendar
		if c.base != tt.base || c.horizon != 15*time.Minute || c.grace != 5*time.Second {
			t.Errorf("mode %q: base %v, horizon %v, grace %v", tt.mode, c.base, c.horizon, c.grace)
		}
	}
}

// The life of one slot, step by step.
func TestSlot_Life(t *testing.T) {
	for _, class := range []comporta.Class{comporta.ClassAnonymous, comporta.ClassProven} {
		for _, ticketed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, ticket %v", class, ticketed), func(t *testing.T) {
				h := newHouse(t, Config{})
				r := ask(client(1, class), 1)
				h.want(r, comporta.SlotNone)
				b, ticket := h.refuse(r)
				if wait := b.Due.Sub(h.now); wait < time.Second || wait > 2*time.Second {
					t.Fatalf("first wait %v", wait)
				}
				if ticketed {
					r.Ticket = ticket
				}
				h.later(b.Due.Sub(h.now) - time.Millisecond)
				h.want(r, comporta.SlotEarly)
				if again, _ := h.refuse(r); !again.Due.Equal(b.Due) || again.Fresh {
					t.Errorf("early: %v, was %v", again.Due, b.Due)
				}
				h.later(time.Millisecond)
				h.want(r, comporta.SlotRedeemed)
				if !r.Slot.Due.Equal(b.Due) {
					t.Errorf("slot due %v, want %v", r.Slot.Due, b.Due)
				}
				// Refused all the same: another instant, and a better rank there.
				aged := h.BookAt(h.now, r, comporta.CapacityExhausted, h.load)
				if !aged.Fresh || aged.Due.Sub(h.now) < time.Second {
					t.Errorf("after the slot: %+v", aged)
				}
				h.want(r, comporta.SlotEarly) // with the old ticket, too
				h.now = aged.Due
				if ticketed {
					r.Ticket = string(h.AppendTicket(nil, r, aged))
				}
				h.want(r, comporta.SlotAged)
				h.AdmittedAt(h.now, r)
				h.want(r, comporta.SlotNone) // used: whatever comes now asks anew
			})
		}
	}
}

func TestSlot_Window(t *testing.T) {
	h := newHouse(t, Config{})
	r := ask(client(1, comporta.ClassProven), 1)
	b, ticket := h.refuse(r)
	r.Ticket = ticket
	h.now = b.Due.Add(5*time.Second + time.Millisecond) // grace, the wait was short
	h.want(r, comporta.SlotNone)
	if n := h.state.Stats().TicketsExpired; n != 1 {
		t.Errorf("%d tickets expired, want 1", n)
	}

	h.rate(10)
	for i := range 3000 { // a backlog: longer waits have longer windows
		b, _ = h.refuse(ask(client(i+10, comporta.ClassProven), 1))
	}
	wait := b.Due.Sub(h.now)
	if wait < 100*time.Second {
		t.Fatalf("the backlog lasts only %v", wait)
	}
	h.now = b.Due.Add(wait / 10)
	h.want(ask(client(3009, comporta.ClassProven), 1), comporta.SlotRedeemed)
}

// An instant is the operation's: another operation of the same client has its own.
func TestSlot_OperationsDiffer(t *testing.T) {
	h := newHouse(t, Config{})
	base := *ask(client(1, comporta.ClassProven), 1)
	first, ticket := h.refuse(&base)
	for name, change := range map[string]func(*comporta.Request){
		"client": func(r *comporta.Request) { r.Client.Key++ },
		"method": func(r *comporta.Request) { r.Method = "PUT" },
		"host":   func(r *comporta.Request) { r.Host = "www.example" },
		"path":   func(r *comporta.Request) { r.Path = "/orders/2" },
		"query":  func(r *comporta.Request) { r.Query = "page=2" },
		"key":    func(r *comporta.Request) { r.IdempotencyKey = "k" },
		// The parts do not run into each other.
		"border": func(r *comporta.Request) { r.Host, r.Path = "api.example/", "orders/1" },
	} {
		r := base
		r.Ticket = ticket
		change(&r)
		forged := h.state.Stats().TicketsForged
		if got := h.look(&r).State; got != comporta.SlotNone {
			t.Errorf("other %s: slot %v", name, got)
		}
		if h.state.Stats().TicketsForged != forged+1 {
			t.Errorf("other %s: the ticket was honoured", name)
		}
		r.Ticket = ""
		if b, _ := h.refuse(&r); b.Due.Equal(first.Due) {
			t.Errorf("other %s: the same instant", name)
		}
	}
}

// An early arrival that entered has used its slot.
func TestSlot_EnteredEarly(t *testing.T) {
	h := newHouse(t, Config{})
	r := ask(client(1, comporta.ClassProven), 1)
	b, ticket := h.refuse(r)
	if n := h.dueBefore(b.Due.Add(time.Second)); n != 1 {
		t.Errorf("%d slots due, want 1", n)
	}
	r.Ticket = ticket
	h.want(r, comporta.SlotEarly)
	h.AdmittedAt(h.now, r)
	if n := h.dueBefore(b.Due.Add(time.Second)); n != 0 {
		t.Errorf("%d slots due after it entered, want 0", n)
	}
	h.now = b.Due
	h.want(r, comporta.SlotNone)
}

func TestDisobedience(t *testing.T) {
	h := newHouse(t, Config{})
	h.rate(10)
	c := client(1, comporta.ClassProven)
	for i := range 200 {
		h.refuse(ask(client(i+10, comporta.ClassProven), 1))
	}
	r := ask(c, 1)
	b, _ := h.refuse(r)
	for i := range 3 {
		if h.look(r); r.Slot.Disobedient {
			t.Fatalf("disobedient after %d early arrivals", i)
		}
		h.refuse(r)
	}
	if h.look(r); !r.Slot.Disobedient {
		t.Fatal("three early arrivals are forgiven")
	}
	// The given instant stands; a new booking is made among the others.
	if again, _ := h.refuse(r); !again.Due.Equal(b.Due) {
		t.Error("the instant moved")
	}
	if other, _ := h.refuse(ask(c, 2)); other.slot.has(slotBelieved) {
		t.Error("a new booking kept its class")
	}
	// One redeemed slot restores.
	h.now = b.Due
	h.want(r, comporta.SlotRedeemed)
	if h.look(ask(c, 3)).Disobedient {
		t.Error("disobedient after a redeemed slot")
	}

	// Networks, and what many share, are never judged.
	shared := c
	shared.Key, shared.Shared = 77, true
	many := ask(shared, 1)
	for range 5 {
		h.refuse(many)
	}
	if h.look(many); many.Slot.Disobedient {
		t.Error("a shared identity is held disobedient")
	}
}

// The first three early arrivals of an unbelieved client cost it its place.
func TestDisobedience_Unbelieved(t *testing.T) {
	h := newHouse(t, Config{})
	r := ask(client(1, comporta.ClassAnonymous), 1)
	for range 4 {
		h.refuse(r)
	}
	if b, _ := h.refuse(ask(r.Client, 2)); !b.Plain {
		t.Error("a disobedient claimed client still takes places")
	}
	h.later(strikeMemory*time.Second + time.Second)
	if b, _ := h.refuse(ask(r.Client, 3)); b.Plain {
		t.Error("strikes are never forgotten")
	}
}

// A believed client holds 16 bookings. The excess gets plain instants, moves no
// schedule, and its further originals rank as retries: a fresh Idempotency-Key on
// each attempt is no disguise.
func TestShare_Believed(t *testing.T) {
	h := newHouse(t, Config{})
	c := client(1, comporta.ClassProven)
	for i := range maxBookings {
		r := ask(c, i)
		if b, _ := h.refuse(r); b.Plain || r.Slot.Crowding {
			t.Fatalf("booking %d: plain %v, crowding %v", i, b.Plain, r.Slot.Crowding)
		}
	}
	next := h.state.words[believed].next.Load()
	r := ask(c, maxBookings)
	b, ticket := h.refuse(r)
	if !b.Plain || !r.Slot.Crowding {
		t.Errorf("booking 17: plain %v, crowding %v", b.Plain, r.Slot.Crowding)
	}
	if h.state.words[believed].next.Load() != next {
		t.Error("the excess moved the schedule")
	}
	r.Ticket = ticket
	h.want(r, comporta.SlotEarly)
	h.now = b.Due
	h.want(r, comporta.SlotPlain)
	h.later(time.Minute) // the others have ended: the share is free again
	if h.look(ask(c, 99)).Crowding {
		t.Error("crowding after every booking ended")
	}
}

// Whoever comes at its instants has as many wishes as names: its originals stay
// originals. One that only ever brings new names is a repeat in disguise, whatever
// it redeemed an hour ago.
func TestCrowding_ObedienceIsNoDisguise(t *testing.T) {
	h := newHouse(t, Config{})
	c := client(1, comporta.ClassProven)
	hold := func(from, n int) (bookings []Booking, tickets []string) {
		for i := range n {
			b, ticket := h.refuse(ask(c, from+i))
			bookings, tickets = append(bookings, b), append(tickets, ticket)
		}
		return bookings, tickets
	}
	bookings, tickets := hold(0, maxBookings)
	for i, b := range bookings {
		h.now = b.Due
		r := ask(c, i)
		r.Ticket = tickets[i]
		h.want(r, comporta.SlotRedeemed)
	}
	hold(100, maxBookings)
	if h.look(ask(c, 200)).Crowding {
		t.Error("crowding, although every instant was kept")
	}
	for names := 1000; names < 1000+4*maxBookings; names += maxBookings { // and none is ever shown again
		h.later(time.Minute)
		hold(names, maxBookings)
	}
	if !h.look(ask(c, 3000)).Crowding {
		t.Error("a client that only brings new names is believed to have as many wishes")
	}
}

// What is claimed shares 16 places with its whole network; another network has its own.
func TestShare_Network(t *testing.T) {
	h := newHouse(t, Config{})
	plain := 0
	for i := range 100 {
		c := client(i, comporta.ClassAnonymous)
		c.Network = 7
		r := ask(c, 1)
		if b, _ := h.refuse(r); b.Plain {
			plain++
		}
		if r.Slot.Crowding {
			t.Error("a claimed client answers for its network")
		}
	}
	if plain != 100-maxBookings {
		t.Errorf("%d plain, want %d", plain, 100-maxBookings)
	}
	if b, _ := h.refuse(ask(client(1000, comporta.ClassAnonymous), 1)); b.Plain {
		t.Error("another network got no place")
	}
	c := client(1001, comporta.ClassProven)
	c.Network = 7
	if b, _ := h.refuse(ask(c, 1)); b.Plain {
		t.Error("a proven client pays for its network")
	}
}

// A partner with 50,000 queued calls cannot fill the hour for everybody: who asks
// after it gets a place among its first ones, not behind its last.
func TestShare_PartnerIsFair(t *testing.T) {
	h := newHouse(t, Config{})
	h.rate(1) // slots are 1/1.14 s apart
	partner := client(1, comporta.ClassVerified)
	for i := range 200 { // others are there, so that there is a share
		h.refuse(ask(client(i+100, comporta.ClassVerified), 1))
	}
	head := time.Duration(h.state.words[believed].next.Load() - h.now.UnixNano())
	for i := range 50_000 {
		h.refuse(ask(partner, i))
	}
	b, _ := h.refuse(ask(client(9999, comporta.ClassVerified), 1))
	if wait := b.Due.Sub(h.now); wait > head+5*time.Second {
		t.Errorf("behind the partner the wait is %v, before it %v", wait, head)
	}
}

func TestReload_KeepsEverything(t *testing.T) {
	h := newHouse(t, Config{})
	r := ask(client(1, comporta.ClassProven), 1)
	b, _ := h.refuse(r)
	h2 := newHouseOver(t, Config{Mode: ModeHash, Grace: time.Minute}, h.state, ringOf(t, ringText))
	if again, _ := h2.refuse(r); !again.Due.Equal(b.Due) {
		t.Errorf("after a reload %v, before %v", again.Due, b.Due)
	}
}

// A clock that steps back makes waits longer by the step, and no worse; one that
// steps back by hours begins anew.
func TestClockStepsBack(t *testing.T) {
	h := newHouse(t, Config{})
	r := ask(client(1, comporta.ClassProven), 1)
	b, _ := h.refuse(r)
	h.later(-30 * time.Second)
	if again, _ := h.refuse(r); !again.Due.Equal(b.Due) {
		t.Errorf("%v, was %v", again.Due, b.Due)
	}
	h.later(-5 * time.Hour)
	again, _ := h.refuse(r)
	if wait := again.Due.Sub(h.now); wait < time.Second || wait > DefaultHorizon {
		t.Errorf("wait %v after a step back by hours", wait)
	}
	if n := h.dueBefore(again.Due.Add(time.Second)); n != 1 {
		t.Errorf("%d slots due, want 1", n)
	}
}

// rate makes the calendar believe in a drain rate, with nothing else going on.
func (h *house) rate(perSecond float64) {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	h.state.limit.Store(int64(h.load.Limit))
	for i := range muWindow - 1 {
		h.state.mu.full[i] = work{answers: 100 * perSecond, held: 100, busy: 100 * perSecond, seconds: 100}
	}
	h.state.mu.next = muWindow - 1
	h.state.second.Store(h.now.Unix())
	h.state.publish(h.now)
}
