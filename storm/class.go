package storm

import (
	"errors"
	"fmt"
	"time"
)

// Manner is how a client repeats what failed.
type Manner uint8

// The manners.
const (
	// Obedient clients do what an answer tells them: they wait as long as it
	// says, bring the ticket along, say which attempt this is, and stop when
	// they are told to. Untold, they wait with full jitter.
	Obedient Manner = iota
	// Naive clients have a ceiling and a backoff of their own and read nothing.
	Naive
	// Disobedient clients repeat at a fixed pace for as long as they are patient.
	Disobedient
	numManners
)

var mannerNames = [numManners]string{"obedient", "naive", "disobedient"}

func (m Manner) String() string {
	if m < numManners {
		return mannerNames[m]
	}
	return "unknown"
}

// Class is a kind of client.
type Class struct {
	Name  string
	Share float64 // of the demand; shares are weighed against each other
	Users int     // how many credentials the class has
	// Manner is how it repeats.
	Manner Manner
	// Attempts is how many calls one go makes of an operation: the product of
	// all layers that repeat without knowing of each other. Disobedient clients
	// have no ceiling and ignore it.
	Attempts int
	// Base is the first wait between attempts. It doubles up to Cap, but for
	// disobedient clients.
	Base, Cap time.Duration
	// Timeout is how long one attempt waits for its answer.
	Timeout time.Duration
	// Patience is how long an operation is worth asking for.
	Patience time.Duration
	// Parks says that the client, when its first attempt failed, keeps the
	// operation until the next wake, makes Attempts then, and keeps it again:
	// what an app does that synchronises when the network says that it is back.
	// Only naive clients park.
	Parks bool
	// Keyed clients send an Idempotency-Key with a POST; the others send a GET
	// that looks the same on each attempt.
	Keyed bool
	// Reworded is the share of repeats that look like a new operation: a person
	// who fills in the form again.
	Reworded float64
}

func (c *Class) check(wakes bool) error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("storm: Classes %q: "+format, append([]any{c.Name}, args...)...))
	}
	if !(c.Share > 0) {
		bad("Share: %v asks nothing; give a positive share or leave the class out", c.Share)
	}
	if c.Users < 1 {
		bad("Users: %d; give it at least one credential", c.Users)
	}
	if c.Manner >= numManners {
		bad("Manner: %d is none; use Obedient, Naive or Disobedient", c.Manner)
	}
	if c.Attempts < 1 && c.Manner != Disobedient {
		bad("Attempts: %d; give at least 1, which means no repeat", c.Attempts)
	}
	if c.Base <= 0 || c.Cap < c.Base && c.Manner != Disobedient {
		bad("Base: %v, Cap: %v; waits must be positive and grow", c.Base, c.Cap)
	}
	if c.Timeout <= 0 || c.Patience <= 0 {
		bad("Timeout: %v, Patience: %v; both must be positive", c.Timeout, c.Patience)
	}
	if c.Parks && (!wakes || c.Manner != Naive) {
		bad("Parks: give the scenario a Wake, or nothing parked is ever sent again, and the class the manner Naive")
	}
	if !(c.Reworded >= 0 && c.Reworded <= 1) {
		bad("Reworded: %v is not a fraction", c.Reworded)
	}
	return errors.Join(problems...)
}
