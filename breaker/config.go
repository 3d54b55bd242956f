package breaker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// What the zero values of Config mean.
const (
	DefaultWindow       = 10 * time.Second
	DefaultMinimum      = 20
	DefaultFailures     = 0.5
	DefaultOpen         = 5 * time.Second
	DefaultJitter       = 0.5
	DefaultProbes       = 1
	DefaultProbeTimeout = 10 * time.Second
)

// Bounds of what a configuration may ask for. A window below minWindow would
// have buckets as narrow as the scheduling of goroutines; a Minimum above
// maxMinimum would not survive the halving of a full bucket.
const (
	minWindow  = 100 * time.Millisecond
	maxPeriod  = time.Hour
	maxMinimum = 10_000
	maxProbes  = 1000
)

// Config says when a Breaker opens and how it closes again. The zero value is
// the default policy.
type Config struct {
	// Window is how far back calls count, 100 ms to 1 h; 0 means 10 s. It slides
	// in tenths of itself.
	Window time.Duration
	// Minimum is the number of calls in the window below which the breaker does
	// not judge, up to 10,000; 0 means 20.
	Minimum int
	// Failures is the share of failed calls at which it opens, above 0 and up to
	// 1; 0 means 0.5.
	Failures float64
	// Open is the shortest time that it stays open, up to 1 h; 0 means 5 s.
	Open time.Duration
	// Jitter is the largest part of Open that is added at random, up to 1; 0
	// means 0.5, so that by default it stays open for 5 to 7.5 s.
	Jitter float64
	// Probes is how many calls pass while half open, in all, and how many
	// successes close it, up to 1000; 0 means 1.
	Probes int
	// ProbeTimeout is after how long a probe without an answer counts as failed,
	// up to 1 h; 0 means 10 s. It keeps a lost Permit from holding the breaker
	// half open for ever.
	ProbeTimeout time.Duration

	// Rand returns numbers within [0, 1) for the jitter, from many goroutines;
	// nil means the standard generator.
	Rand func() float64
	// Trace is told what happens.
	Trace Trace
}

// Trace is a set of hooks; nil ones are not called. They are called from the
// goroutine that asked, outside all locks, and must not block.
type Trace struct {
	// Changed is called once for every change of state.
	Changed func(now time.Time, c Change)
	// Refused is called for every call that did not pass.
	Refused func(now time.Time)
}

// Change is one change of state.
type Change struct {
	From, To State
	// Calls and Failures are those of the window for which it opened; 0 for
	// other changes.
	Calls, Failures int
	// Open is how long it will stay open; 0 for other changes.
	Open time.Duration
}

// New makes a closed Breaker. The error joins all problems of c.
func New(c Config) (*Breaker, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	b := &Breaker{
		config: c,
		width:  int64(c.Window) / buckets,
		// Longer than any open period, so that only a clock that stepped back
		// leaves more than this to wait.
		longest: 2 * int64(float64(c.Open)*(1+c.Jitter)),
	}
	b.era.Store(&era{state: Closed})
	return b, nil
}

func (c Config) withDefaults() Config {
	orDefault(&c.Window, DefaultWindow)
	orDefault(&c.Minimum, DefaultMinimum)
	orDefault(&c.Failures, DefaultFailures)
	orDefault(&c.Open, DefaultOpen)
	orDefault(&c.Jitter, DefaultJitter)
	orDefault(&c.Probes, DefaultProbes)
	orDefault(&c.ProbeTimeout, DefaultProbeTimeout)
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	return c
}

func orDefault[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

func (c Config) check() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("breaker: "+format, args...))
	}
	if c.Window < minWindow || c.Window > maxPeriod {
		bad("Window: %v is not within %v and %v; 10s judges by the last ten seconds", c.Window, minWindow, maxPeriod)
	}
	if c.Minimum < 1 || c.Minimum > maxMinimum {
		bad("Minimum: %d is not within 1 and %d; 20 waits for twenty calls before it judges", c.Minimum, maxMinimum)
	}
	if !(c.Failures > 0 && c.Failures <= 1) { // so written, it catches NaN too
		bad("Failures: %v is not a share above 0 and up to 1; 0.5 opens when half of the calls fail", c.Failures)
	}
	if c.Open < 0 || c.Open > maxPeriod {
		bad("Open: %v is not within 0 and %v; 5s asks the dependency again after five seconds", c.Open, maxPeriod)
	}
	if !(c.Jitter > 0 && c.Jitter <= 1) {
		bad("Jitter: %v is not a share above 0 and up to 1; 0.5 adds up to half of Open", c.Jitter)
	}
	if c.Probes < 1 || c.Probes > maxProbes {
		bad("Probes: %d is not within 1 and %d; 1 lets a single call try", c.Probes, maxProbes)
	}
	if c.ProbeTimeout < 0 || c.ProbeTimeout > maxPeriod {
		bad("ProbeTimeout: %v is not within 0 and %v; give the longest that a call may take", c.ProbeTimeout, maxPeriod)
	}
	return errors.Join(problems...)
}
