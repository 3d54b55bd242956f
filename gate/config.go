package gate

import (
	"errors"
	"fmt"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/admission"
	"github.com/comporta/comporta/gate/admission/seek"
	"github.com/comporta/comporta/gate/calendar"
	"github.com/comporta/comporta/gate/identity"
	"github.com/comporta/comporta/gate/keys"
	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/gate/repeat"
)

// Config is what a Gate is compiled from. The zero value protects: it learns the
// capacity, keys clients by X-Api-Key, Authorization or network, and books
// instants with a random key.
type Config struct {
	Routes    []Route
	Signals   comporta.Signals
	Clients   identity.Config // HashKey is derived from Keys when it is zero
	Repeats   Repeats
	Admission Admission
	// RateLimits bounds what each key may do; the zero value limits nothing.
	RateLimits RateLimits
	Slots      calendar.Config
	// Idempotency keeps the answers of idempotency keys on the routes that have a
	// policy for it; the zero value keeps none.
	Idempotency Idempotency
	Keys        *keys.Ring // nil: random, tickets end with the process
	Contract    overload.Config
	// BufferedBodies bounds the bytes of request bodies that are read ahead, all
	// requests together; 0 means 64 MiB.
	BufferedBodies int64
	Limits         Limits
	// NameRequests writes X-Request-Id on requests that come without one, so that
	// the service logs the same name. Without it such requests have a name in
	// refusals and logs only.
	NameRequests bool
	// Challenge is asked about strangers on pages from LevelOverload on; nil asks
	// nobody for anything.
	Challenge Challenge
	Trace     Trace
}

// Challenge reports whether a request brings the proof that its sender was asked
// for. It is called after the rate rules and before anything of the body is read,
// for routes of class RoutePage and clients that are neither verified nor proven;
// a request without the proof is refused with comporta.ChallengeRequired. It is
// called from many goroutines, on the request's way, and must not keep r.
type Challenge func(now time.Time, l Level, route *Route, r *comporta.Request) (proved bool)

// Limits bound what one request may cost the face for net/http. The zero value
// sets none.
type Limits struct {
	URI      int           // bytes of the request target
	Body     int64         // bytes of the body
	BodyIdle time.Duration // longest silence within a body
}

// Repeats configures the detection of repeats.
type Repeats struct {
	repeat.Config // Answers is set by the gate

	Memory int // bytes of the table; 0 means 32 MiB
	// ShortCircuit answers hopeless repeats from memory.
	ShortCircuit bool
}

// DefaultQueueWait is how long an original may wait for a permit where answers take
// no longer than twice that; see admission.Config.QueueWait.
const DefaultQueueWait = 100 * time.Millisecond

// Admission configures who enters.
type Admission struct {
	// Capacity is the number of requests that the service sustains at once; 0
	// means that it is learned within Auto.
	Capacity int
	Auto     seek.Config
	Policy   admission.Policy
	Mode     admission.Mode
	Reserve  float64 // only for admission.PolicyReserve
	// QueueWait is how long an original may wait for a permit; 0 means
	// DefaultQueueWait, below 0 means no queue.
	QueueWait time.Duration
	Streams   int // 0 means as many as admission chooses
}

// Trace is told what happens. All fields may be nil; they are called from many
// goroutines, on the request's way, and must not keep what they are given.
type Trace struct {
	// Decided is called once for every request that passed all stages, when it
	// was admitted, refused or answered from memory; took is how long it took
	// since Begin, the queue included.
	Decided func(now time.Time, r *comporta.Request, d comporta.Decision, took time.Duration)
	// Done is called once for every request: when it was refused, or when its
	// outcome is known, before the last byte of the answer.
	Done func(now time.Time, r *comporta.Request, d comporta.Decision, o comporta.Outcome)
}

const (
	defaultBuffered = 64 << 20
	answersMemory   = 8 << 20
)

// New compiles a configuration over a State. A nil State means a new one; pass
// the State of the gate before to go on where it stands. All problems are
// reported at once.
func New(c Config, s *State) (*Gate, error) {
	var err error
	if s == nil {
		s, err = NewState()
		if err != nil {
			return nil, err
		}
	}
	g := &Gate{
		state: s, signals: c.Signals, challenge: c.Challenge, trace: c.Trace, slots: nil,
		bodyLimit: c.Repeats.BodyLimit, bufferedLimit: c.BufferedBodies, limits: c.Limits, nameRequests: c.NameRequests,
	}
	if g.bodyLimit == 0 {
		g.bodyLimit = repeat.DefaultBodyLimit
	}
	if g.bufferedLimit == 0 {
		g.bufferedLimit = defaultBuffered
	}
	ring := c.Keys
	if ring == nil {
		ring = s.ring()
	}
	err = errors.Join(
		g.compileRoutes(&c),
		g.compileIdentity(&c, ring),
		g.compileRepeats(&c),
		g.compileAdmission(&c),
		g.compileSlots(&c, ring),
		g.compileContract(&c),
		g.compileRates(&c),
		g.compileKeys(&c),
	)
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (g *Gate) compileRoutes(c *Config) (err error) {
	g.routes, err = newRoutes(c.Routes)
	return err
}

func (g *Gate) compileIdentity(c *Config, ring *keys.Ring) (err error) {
	ic := c.Clients
	if ic.HashKey != [16]byte{} {
		g.identifier, err = identity.New(ic, g.state.proven)
		return err
	}
	for i, k := range ring.Derive("identity").Keys {
		copy(ic.HashKey[:], k.Secret[:])
		id, err := identity.New(ic, g.state.proven)
		if err != nil {
			return err // the same for every key
		}
		if i == 0 {
			g.identifier = id
		} else {
			g.aliases = append(g.aliases, id)
		}
	}
	return nil
}

func (g *Gate) compileRepeats(c *Config) error {
	table, err := g.state.sightingsOf(c.Repeats.Memory)
	if err != nil {
		return err
	}
	rc := c.Repeats.Config
	if c.Repeats.ShortCircuit {
		if rc.Answers, err = g.state.answersOnce(); err != nil {
			return err
		}
		g.shortCircuit = true
	}
	g.table = table
	g.detector, err = repeat.New(rc, table)
	return err
}

func (g *Gate) compileAdmission(c *Config) error {
	a := &c.Admission
	ac := admission.Config{
		Mode: a.Mode, Policy: a.Policy, Capacity: a.Capacity, Reserve: a.Reserve,
		QueueWait: a.QueueWait, Streams: a.Streams,
	}
	switch {
	case a.QueueWait == 0:
		ac.QueueWait = DefaultQueueWait
	case a.QueueWait < 0:
		ac.QueueWait = 0
	}
	if g.routes != nil {
		for i := range g.routes.list {
			r := &g.routes.list[i]
			ac.Routes = append(ac.Routes, admission.Route{Name: r.Name, Weight: r.Weight, Share: r.Share, Sheddable: r.Sheddable})
		}
	}
	if a.Capacity == 0 {
		limit, ceiling, err := g.state.learnedOf(a.Auto)
		if err != nil {
			return err
		}
		g.learned, ac.Learner, ac.Ceiling = limit, limit, ceiling
	} else if a.Auto != (seek.Config{}) {
		return fmt.Errorf("gate: Admission: Capacity %d and Auto exclude each other: leave one empty", a.Capacity)
	}
	ctl, err := admission.New(ac, &g.state.admission)
	g.admission = ctl
	return err
}

func (g *Gate) compileSlots(c *Config, ring *keys.Ring) (err error) {
	sc := c.Slots
	if sc.Alias == nil && len(g.aliases) > 0 {
		sc.Alias = g.aliasAt
	}
	g.slots, err = calendar.New(sc, g.state.slots, ring)
	return err
}

func (g *Gate) compileContract(c *Config) (err error) {
	oc := c.Contract
	if oc.Policy == nil {
		oc.Policy = func() string { return g.state.policy.headerAt(time.Now()) }
	}
	g.contract, err = overload.New(oc)
	return err
}
