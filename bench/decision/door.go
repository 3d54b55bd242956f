package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/admission"
	"github.com/comporta/comporta/gate/calendar"
	"github.com/comporta/comporta/gate/keys"
)

// door is what the target refuse_ns names: the decision of admission to refuse,
// with the look at the operation's slot, the booking and the signed ticket. The
// whole refusal adds what comes before in the gate: signals, identity, sighting.
type door struct {
	*asker

	admission *admission.Controller
	slots     *calendar.Calendar
	now       time.Time
	i         int
	ticket    [64]byte
}

func newDoor(clients int) (*door, error) {
	c, err := admission.New(admission.Config{Capacity: houseCapacity}, new(admission.State))
	if err != nil {
		return nil, err
	}
	state, err := calendar.NewState(calendarBytes)
	if err != nil {
		return nil, err
	}
	slots, err := calendar.New(calendar.Config{}, state, keys.Random())
	if err != nil {
		return nil, err
	}
	d := &door{asker: newPopulation(clients).asker(), admission: c, slots: slots, now: time.Now(), i: clients + refusalAge}
	for i := range houseCapacity {
		if g := c.AdmitAt(d.now, d.ask(i), admission.View{}); !g.Admitted() {
			return nil, fmt.Errorf("a house of %d was full after %d", houseCapacity, i)
		}
	}
	for range 50 { // some seconds, from which the calendar learns the rate
		if err := errors.Join(d.tend(), d.run(refusalChunk)); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// run makes n refusals: every other one of an operation that comes early again,
// as in fullHouse.
func (d *door) run(n int) error {
	load := calendar.Load{Inflight: houseCapacity, Limit: houseCapacity}
	for k := range n {
		i := d.i
		if k&1 == 0 {
			d.i++
		} else {
			i -= refusalAge
		}
		d.now = d.now.Add(refusalInterval)
		r := d.ask(i)
		r.Client = comporta.Client{Key: spread(i % d.clients), Network: spread(i % d.clients >> 4), Class: comporta.ClassProven}
		d.slots.LookAt(d.now, r)
		g := d.admission.AdmitAt(d.now, r, admission.View{})
		if g.Admitted() {
			return errAdmitted
		}
		b := d.slots.BookAt(d.now, r, g.Reason, load)
		if len(d.slots.AppendTicket(d.ticket[:0], r, b)) == 0 {
			return errAdmitted
		}
	}
	return nil
}

// tend tells the calendar of the answers of a service that is busy and well.
func (d *door) tend() error {
	for range houseCapacity {
		d.slots.DoneAt(d.now, answered, calendar.Load{Inflight: houseCapacity, Limit: houseCapacity})
	}
	return nil
}
