package sim

import (
	"fmt"
	"time"

	"github.com/comporta/comporta/gate"
)

// seeder is a constructor of gate states whose names hang on a seed.
type seeder = func(seed uint64, start time.Time) (*gate.State, error)

// seeded is what makes runs of the gate repeat themselves; nil leaves its names to
// chance, which moves a few instants by seconds from run to run.
var seeded seeder

func newGateState(seed uint64) (*gate.State, error) {
	if seeded != nil {
		return seeded(seed, epoch)
	}
	s, err := gate.NewState()
	if err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	return s, nil
}

// booker is a decision that gives instants for failures of the service's own too.
type booker interface {
	TurnedAwayAt(now time.Time, atLeast time.Duration) (wait time.Duration, ticket []byte)
}

// advise tells a client whose request the service failed when to come back.
func (g *gateway) advise(e *engine, v *visit) {
	b, ok := any(&v.d).(booker)
	o := &e.ops[v.op]
	if !ok || g.mute || o.id != v.id || o.attempts != v.attempt || o.answer != failed {
		return // nobody is told, or its client is gone
	}
	wait, ticket := b.TurnedAwayAt(e.time(e.now), 0)
	o.due = e.now + instant(wait)
	o.set(told, true)
	if e.s.Classes[o.class].SDK {
		o.ticket = g.tickets.put(ticket)
	}
}
