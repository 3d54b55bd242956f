package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
)

const (
	houseCapacity = 100
	// 10,000 refusals a second: every other one of an operation that was refused
	// half a second ago and comes before its instant, which is a second away at
	// least.
	refusalInterval = 100 * time.Microsecond
	refusalAge      = int(time.Second / 2 / (2 * refusalInterval))
	// After the refusals of 100 ms everybody inside has had an answer: 1,000 a second.
	refusalChunk = int(100 * time.Millisecond / refusalInterval)
)

// fullHouse refuses everything: its permits are taken, its queue is full.
type fullHouse struct {
	*asker

	gate   *gate.Gate
	now    time.Time
	i      int      // the next operation that is new
	guests int      // operations of those who stay, apart from the refused ones
	inside []*guest // they hold the permits
	queue  []*guest
	ticket [64]byte
}

// guest is a request that stays.
type guest struct {
	r comporta.Request
	d gate.Decision
}

func newFullHouse(clients int) (*fullHouse, error) {
	// The queue is as patient as it may be: each of its waiters would otherwise
	// leave it while the others of its second are being refused.
	g, err := gate.New(gate.Config{Admission: gate.Admission{Capacity: houseCapacity, QueueWait: time.Hour}}, nil)
	if err != nil {
		return nil, err
	}
	h := &fullHouse{asker: newPopulation(clients).asker(), gate: g, now: time.Now(), i: clients + refusalAge}
	// Everybody had an answer before, so nobody is believed more than those who
	// wait, and goes before them.
	for i := range clients {
		h.now = h.now.Add(refusalInterval)
		d := g.Begin(h.now, h.ask(i))
		d.FinishAt(h.now, answered)
	}
	for len(h.inside) < houseCapacity {
		x := h.arrive()
		if x.d.Action != comporta.ActionAdmit {
			return nil, fmt.Errorf("a house of %d was full after %d", houseCapacity, len(h.inside))
		}
		h.inside = append(h.inside, x)
	}
	for len(h.queue) < houseCapacity {
		x := h.arrive()
		if x.d.Action == comporta.ActionRefuse {
			break
		}
		h.queue = append(h.queue, x)
	}
	for range 50 { // some seconds, from which the calendar learns the rate
		if err := errors.Join(h.tend(), h.run(refusalChunk)); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// arrive lets an original in, or into the queue.
func (h *fullHouse) arrive() *guest {
	h.guests++
	x := &guest{r: *h.ask(h.clients*numPaths/2 + h.guests)}
	x.r.Header = header([]string{h.key[0]})
	x.d = h.gate.Begin(h.now, &x.r)
	return x
}

var errAdmitted = errors.New("a request was not refused although the house was full")

// run makes n refusals, each with identity, slot, sighting and admission, the
// booking of an instant and its signed ticket.
func (h *fullHouse) run(n int) error {
	for k := range n {
		i := h.i
		if k&1 == 0 {
			h.i++
		} else {
			i -= refusalAge
		}
		h.now = h.now.Add(refusalInterval)
		d := h.gate.Begin(h.now, h.ask(i))
		if d.Action != comporta.ActionRefuse || len(d.AppendTicket(h.ticket[:0])) == 0 {
			return errAdmitted
		}
	}
	return nil
}

// tend lets everybody inside have an answer, and the queue move up. A service
// that answers nobody is down, which would be another measurement.
func (h *fullHouse) tend() error {
	for i := range h.inside {
		h.inside[i].d.FinishAt(h.now, answered)
		next := h.called()
		if next == nil {
			return errors.New("a permit came back and nobody in the queue got it")
		}
		h.inside[i] = next
		x := h.arrive()
		if x.d.Action != comporta.ActionWait {
			return errors.New("the queue had a place and nobody could take it")
		}
		h.queue = append(h.queue, x)
	}
	return nil
}

// called removes the guest from the queue whose turn it is.
func (h *fullHouse) called() *guest {
	for i, x := range h.queue {
		if x.d.AnswerAt(h.now) && x.d.Action == comporta.ActionAdmit {
			h.queue = append(h.queue[:i], h.queue[i+1:]...)
			return x
		}
	}
	return nil
}
