package calendar

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

func TestTicket_Form(t *testing.T) {
	h := newHouse(t, Config{})
	r := ask(client(1, comporta.ClassVerified), 1)
	r.Attempt = 2
	_, ticket := h.refuse(r)
	if len(ticket) != ticketLength || len(ticket) > 200 || !strings.HasPrefix(ticket, "v1.") {
		t.Fatalf("ticket %q of %d bytes", ticket, len(ticket))
	}
	r.Ticket = ticket
	got := h.LookAt(h.now, r)
	if !got.Authentic || got.Attempt != 3 || got.Class != comporta.ClassVerified {
		t.Errorf("read back %+v", got)
	}
}

// Two gateways with one key file honour each other's tickets; so does one gateway
// after its restart, and during a rotation.
func TestTicket_OtherGateway(t *testing.T) {
	turned := "a new key that signs from now on, for tests\n" + ringText
	for _, tt := range []struct {
		name, ring string
		want       comporta.SlotState
	}{
		{"same file", ringText, comporta.SlotRedeemed},
		{"new key first, ours verifies", turned, comporta.SlotRedeemed},
		{"ours gone", "a new key that signs from now on, for tests\n", comporta.SlotNone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newHouse(t, Config{})
			r := ask(client(1, comporta.ClassProven), 1)
			due, ticket := a.refuse(r)
			state, err := NewState(MinStateBytes)
			if err != nil {
				t.Fatal(err)
			}
			b := newHouseOver(t, Config{}, state, ringOf(t, tt.ring))
			r.Ticket = ticket
			b.now = due.Due
			b.want(r, tt.want)
			if tt.want == comporta.SlotNone {
				if state.Stats().TicketsForeign != 1 {
					t.Errorf("%+v", state.Stats())
				}
				return
			}
			// Once per node: the second time it is nothing, with and without admission between.
			b.want(r, comporta.SlotNone)
			if state.Stats().TicketsUsed != 1 {
				t.Errorf("%+v", state.Stats())
			}
		})
	}
}

// Early at the other gateway keeps the instant of the first one.
func TestTicket_OtherGatewayEarly(t *testing.T) {
	a := newHouse(t, Config{})
	for i := range 1000 {
		a.refuse(ask(client(i+10, comporta.ClassProven), 1))
	}
	r := ask(client(1, comporta.ClassProven), 1)
	first, ticket := a.refuse(r)
	b := newHouse(t, Config{})
	b.later(time.Second)
	r.Ticket = ticket
	b.want(r, comporta.SlotEarly)
	if again, _ := b.refuse(r); !again.Due.Equal(first.Due) {
		t.Errorf("%v, want %v", again.Due, first.Due)
	}
	r.Ticket = "" // remembered now
	if again, _ := b.refuse(r); !again.Due.Equal(first.Due) {
		t.Errorf("without ticket %v, want %v", again.Due, first.Due)
	}
	// Clocks differ a little: at the first gateway's instant nobody is early.
	c := newHouse(t, Config{})
	c.now = first.Due.Add(-skew * time.Millisecond)
	r.Ticket = ticket
	c.want(r, comporta.SlotRedeemed)
}

// The node gave an instant of its own before the ticket of another came: the
// earlier of the two promises holds, and only one.
func TestTicket_TwoPromises(t *testing.T) {
	a, b := newHouse(t, Config{}), newHouse(t, Config{})
	r := ask(client(1, comporta.ClassProven), 1)
	first, ticket := a.refuse(r)
	for i := range 1000 {
		b.refuse(ask(client(i+10, comporta.ClassProven), 1))
	}
	second, ticket2 := b.refuse(r)
	if !second.Due.After(first.Due) {
		t.Fatal("the test wants a later second promise")
	}
	r.Ticket, b.now = ticket, first.Due
	b.want(r, comporta.SlotRedeemed)
	r.Ticket, b.now = ticket2, second.Due
	b.want(r, comporta.SlotNone)
}

func TestTicket_NetworkMoves(t *testing.T) {
	h := newHouse(t, Config{})
	c := client(1, comporta.ClassAnonymous)
	c.Shared = true
	r := ask(c, 1)
	b, ticket := h.refuse(r)
	r.Client.Key, r.Client.Network, r.Ticket = 42, 43, ticket // the phone left the house
	h.now = b.Due
	h.want(r, comporta.SlotRedeemed)
	// A credential does not change by walking.
	r = ask(client(2, comporta.ClassAnonymous), 1)
	b, r.Ticket = h.refuse(r)
	r.Client.Key = 44
	h.now = b.Due
	h.want(r, comporta.SlotNone)
}

// Whatever is changed in a ticket, it counts as absent.
func TestTicket_Tampered(t *testing.T) {
	h := newHouse(t, Config{})
	r := ask(client(1, comporta.ClassProven), 1)
	_, ticket := h.refuse(r)
	raw, err := base64.RawURLEncoding.DecodeString(ticket[3:])
	if err != nil {
		t.Fatal(err)
	}
	other := newHouse(t, Config{}) // a node that remembers nothing
	for bit := range len(raw) * 8 {
		bad := bytes.Clone(raw)
		bad[bit/8] ^= 1 << (bit % 8)
		r.Ticket = "v1." + base64.RawURLEncoding.EncodeToString(bad)
		if got := other.LookAt(h.now, r); got.Authentic || r.Slot.State != comporta.SlotNone {
			t.Errorf("bit %d changed: %+v, %v", bit, got, r.Slot.State)
		}
	}
	for _, bad := range []string{"v1", "v1.", "v2." + ticket[3:], ticket + "A", ticket[:len(ticket)-1], ticket + "=", "V1." + ticket[3:], " " + ticket} {
		r.Ticket = bad
		if got := other.LookAt(h.now, r); got.Authentic {
			t.Errorf("%q is honoured", bad)
		}
	}
}

// Operations of any length have tickets, and all of their bytes count.
func TestTicket_LongOperation(t *testing.T) {
	h := newHouse(t, Config{})
	r := ask(client(1, comporta.ClassProven), 1)
	for n := 480; n < 1100; n++ {
		r.Query, r.Ticket = strings.Repeat("q", n), ""
		_, r.Ticket = h.refuse(r)
		if got := h.LookAt(h.now, r); !got.Authentic {
			t.Fatalf("query of %d bytes: not honoured", n)
		}
		r.Query = r.Query[:n-1] + "x"
		if got := h.LookAt(h.now, r); got.Authentic {
			t.Fatalf("query of %d bytes: its last byte does not count", n)
		}
	}
}

// The MAC is plain HMAC-SHA256 over the documented bytes: other programs with the
// key can check a ticket.
func TestTicket_MAC(t *testing.T) {
	h := newHouse(t, Config{})
	r := ask(client(1, comporta.ClassProven), 1)
	r.Query, r.IdempotencyKey = strings.Repeat("a=1&", 300), "key"
	_, ticket := h.refuse(r)
	raw, ok := decodeTicket(ticket)
	if !ok {
		t.Fatal("unreadable")
	}
	want := macByHand(ringOf(t, ringText).Derive("ticket").Keys[0].Secret[:], raw[:ticketHead], r)
	if !bytes.Equal(raw[ticketHead:], want[:ticketMAC]) {
		t.Error("the MAC is not the documented one")
	}
}

func FuzzTicket(f *testing.F) {
	h := newHouse(f, Config{})
	r := ask(client(1, comporta.ClassProven), 1)
	_, ticket := h.refuse(r)
	f.Add(ticket)
	f.Add("v1.")
	f.Add("")
	other := newHouse(f, Config{})
	f.Fuzz(func(t *testing.T, text string) {
		r := ask(client(1, comporta.ClassProven), 1)
		r.Ticket = text
		got := other.LookAt(start, r)
		if got.Authentic && text != ticket {
			t.Fatalf("%q is honoured", text)
		}
		if raw, ok := decodeTicket(text); ok {
			again := "v1." + base64.RawURLEncoding.EncodeToString(raw[:])
			if again != text {
				t.Fatalf("%q is also %q", text, again)
			}
			_ = readHead((*[ticketHead]byte)(raw[:])).slot.live(start.UnixMilli()) // must not panic
		}
	})
}
