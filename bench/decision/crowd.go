package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate"
)

var answered = comporta.Outcome{Status: 200, Result: comporta.ResultSuccess, Latency: time.Millisecond}

// crowd asks in a rhythm that keeps a number of fingerprints alive: every second
// operation is an original, the other one asks again for what succeeded a
// quarter of the crowd before. With an original each 80 us that was 20 s ago, so
// an operation is remembered for those 20 s and the window of a minute from
// there on, and 80 s / 80 us = 1,000,000 are alive at any time.
type crowd struct {
	*asker

	decide decider
	now    time.Time
	i      int           // the next original
	again  bool          // its turn is not now
	age    int           // of what is asked again, in originals
	step   time.Duration // from one original to the next
}

// decider makes one decision, with the release and the outcome.
type decider interface {
	decide(now time.Time, r *comporta.Request) error
	forgotten() uint64 // fingerprints that were alive
}

// whole is the gate with its default configuration.
type whole struct{ *gate.Gate }

func newWhole() (decider, error) {
	g, err := gate.New(gate.Config{}, nil)
	return whole{g}, err
}

func (w whole) decide(now time.Time, r *comporta.Request) error {
	d := w.Begin(now, r)
	if d.Action != comporta.ActionAdmit {
		return errRefused
	}
	d.FinishAt(now, answered)
	return nil
}

func (w whole) forgotten() uint64 { return w.StatsAt(time.Now()).SightingsEvicted }

// newCrowd brings the fingerprints of clients before a decider.
func newCrowd(live, clients int, d decider) (*crowd, error) {
	c := &crowd{
		asker: newPopulation(clients).asker(), decide: d, now: time.Now(),
		i: live / 4, age: live / 4, step: 80 * time.Second / time.Duration(live),
	}
	if err := c.run(2 * live); err != nil {
		return nil, err
	}
	// A table that forgets would make the decision cheaper than it is.
	if n := d.forgotten(); n > uint64(live/100) {
		return nil, fmt.Errorf("%d of %d fingerprints were forgotten", n, live)
	}
	return c, nil
}

var errRefused = errors.New("a request was refused that should have been admitted")

// next is the request whose turn it is.
func (c *crowd) next() *comporta.Request {
	i := c.i
	if c.again {
		i -= c.age
	} else {
		c.i++
		c.now = c.now.Add(c.step)
	}
	c.again = !c.again
	return c.ask(i)
}

// run makes n decisions.
func (c *crowd) run(n int) error {
	for range n {
		r := c.next()
		if err := c.decide.decide(c.now, r); err != nil {
			return err
		}
	}
	return nil
}
