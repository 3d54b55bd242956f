package calendar

import (
	"errors"
	"fmt"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/keys"
)

// MaxHorizon bounds Config.Horizon: the rings that count the slots of each
// moment are sized for it, so that a reload never has to rebuild them.
const MaxHorizon = time.Hour

// Defaults of Config.
const (
	DefaultBase     = time.Second
	DefaultHashBase = 10 * time.Second // of ModeHash
	DefaultHorizon  = 15 * time.Minute
	DefaultGrace    = 5 * time.Second
)

// spreadWidth is the width of ModeHash, and the least of ModeSpread.
const spreadWidth = 50 * time.Second

// Mode says how instants are chosen.
type Mode string

// The modes. The empty mode is ModeCalendar.
const (
	// ModeCalendar spaces the instants at the rate that the service can spare.
	ModeCalendar Mode = "calendar"
	// ModeSpread gives base + hash(operation) mod max(50 s, waiting/drain): it
	// needs to know only how many wait.
	ModeSpread Mode = "spread"
	// ModeHash gives base + hash(client) mod 50 s, the source article's rule.
	ModeHash Mode = "hash"
)

// Config says how a calendar books. The zero value is the default configuration.
type Config struct {
	// Mode says how instants are chosen; empty means ModeCalendar.
	Mode Mode
	// Base is the least wait of a new booking, from 1 ms to half of Horizon.
	// 0 means 1 s, and 10 s for ModeHash.
	Base time.Duration
	// Horizon is the longest wait of a new booking, up to MaxHorizon. 0 means 15 min.
	Horizon time.Duration
	// Grace is how long after its instant a client is still on time, up to
	// MaxHorizon, in whole seconds (rounded up). A tenth of the wait counts if it
	// is longer. 0 means 5 s.
	Grace time.Duration
	// Alias names the client of r as key i of the ring would have named it, i from
	// 1 on: where names hang on the ring's first key, a ticket of before a rotation
	// was written for the older name. nil: names do not hang on the ring.
	Alias func(now time.Time, i int, r *comporta.Request) comporta.Client
}

// Calendar books instants by one configuration. It is immutable but for its
// State, and may be used from many goroutines.
type Calendar struct {
	mode    Mode
	base    time.Duration
	horizon time.Duration
	grace   time.Duration
	state   *State
	signers []*signer
	alias   func(now time.Time, i int, r *comporta.Request) comporta.Client
}

// New compiles a calendar over a state, signing with the first key of the ring
// and honouring all of them. The error joins every problem found.
func New(cfg Config, state *State, ring *keys.Ring) (*Calendar, error) {
	c := &Calendar{mode: cfg.Mode, base: cfg.Base, horizon: cfg.Horizon, grace: cfg.Grace, alias: cfg.Alias, state: state}
	c.setDefaults()
	problems := c.problems()
	if state == nil {
		problems = append(problems, errors.New("calendar: no State; make one with NewState and keep it across reloads"))
	}
	if ring != nil {
		for _, key := range ring.Derive("ticket").Keys {
			c.signers = append(c.signers, newSigner(key))
		}
	}
	if len(c.signers) == 0 {
		problems = append(problems, errors.New("calendar: no key to sign tickets with; pass keys.Random() where there is no key file"))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return c, nil
}

func (c *Calendar) setDefaults() {
	if c.mode == "" {
		c.mode = ModeCalendar
	}
	if c.horizon == 0 {
		c.horizon = DefaultHorizon
	}
	if c.grace == 0 {
		c.grace = DefaultGrace
	}
	if c.base == 0 {
		c.base = DefaultBase
		if c.mode == ModeHash {
			c.base = DefaultHashBase
		}
	}
}

func (c *Calendar) problems() []error {
	var problems []error
	switch c.mode {
	case ModeCalendar, ModeSpread, ModeHash:
	default:
		problems = append(problems, fmt.Errorf("calendar: Mode %q is unknown; use calendar, spread or hash", string(c.mode)))
	}
	if c.horizon < time.Second || c.horizon > MaxHorizon {
		problems = append(problems, fmt.Errorf("calendar: Horizon %v is out of range; use 1s to %v", c.horizon, MaxHorizon))
	}
	if c.base < time.Millisecond || c.base > c.horizon/2 {
		problems = append(problems, fmt.Errorf("calendar: Base %v is out of range; use 1ms to half of Horizon (%v)", c.base, c.horizon/2))
	}
	if c.grace < 0 || c.grace > MaxHorizon {
		problems = append(problems, fmt.Errorf("calendar: Grace %v is out of range; use up to %v", c.grace, MaxHorizon))
	}
	return problems
}
