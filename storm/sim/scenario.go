package sim

import (
	"errors"
	"fmt"
	"time"
)

// Scenario is one storm in virtual time: a service, what breaks, and who asks.
// Begin with Builtin. A Scenario is a value, but copies share Classes.
type Scenario struct {
	Name string
	// Demand is how many operations begin in a second at the daily peak: 1x.
	Demand float64
	// Warmup is how long the house runs before the outage begins (at 14:00), Outage
	// how long the dependency is away (0: never), Length the whole time observed.
	Warmup, Outage, Length time.Duration
	// Decline is the share of the demand that is lost in an hour after the outage.
	Decline float64

	Service Service
	Classes []Class
	Parking Parking
	Layers  Layers
	// Twins is the share of equal requests that are operations of their own: two
	// equal queries of one client within seconds. TwinsNAT is that share behind a
	// shared network, where the clients cannot be told apart. They are what a
	// fingerprint takes for repeats.
	Twins, TwinsNAT float64
	// Networks is how many networks the clients of Class.NAT share.
	Networks int
	// Obey overrides the share of clients that obey Retry-After; below 0 it is that
	// of each class.
	Obey float64
	// Estimate is the capacity that defences are told, as a multiple of the slots.
	Estimate float64
	// RejectCost is what a refusal costs the service, as a share of a request.
	RejectCost float64
	// Fixes are what the owners of the clients do about it.
	Fixes Fixes
	// Expect lists what must hold, for use in a user's own checks.
	Expect []Expectation
}

// Parking is the offline queue: what becomes of operations that begin while the
// dependency is away, and of those of persistent classes that fail.
type Parking struct {
	Share  float64 // of the operations of the outage that are kept for later
	Unsent float64 // of those, the share that was never sent before the wake
	// Period is how often what is parked is sent again; the first time when the
	// dependency is back. Spread is over how long the clients then scatter.
	Period, Spread time.Duration
}

// Layers are the gaps between the attempts of a stack of layers that repeat
// without knowing of each other.
type Layers struct {
	Quick  time.Duration // between the attempts of the innermost layer, a proxy
	Gap    time.Duration // the first gap of the others
	Growth float64       // each gap is so many times the one before
	Cap    time.Duration
	Jitter float64 // ± this share
}

// Fixes are corrections at the source. The zero value is none.
type Fixes struct {
	// CeilingSDK and CeilingAll bound the attempts of an operation in one go, of
	// the classes that run our SDK (Class.SDK), or of all; 0 is no ceiling.
	CeilingSDK, CeilingAll int
	// Spread scatters what is parked over so long, instead of Parking.Spread.
	Spread time.Duration
	// BudgetSDK gives each client of the SDK classes a budget of repeats, by the
	// core of client/budget.
	BudgetSDK bool
	// SwitchAfter is how long after the beginning of the outage a remote policy that
	// turns repeats off reaches the SDK classes; 0 is never.
	SwitchAfter time.Duration
}

// Manner is how a class of clients repeats what failed.
type Manner uint8

// The manners.
const (
	Reload  Manner = iota // a person who reloads the page, or does not
	SDK                   // the envelope of client/retry
	Layered               // several layers, one around the other
	numManners
)

var mannerNames = [numManners]string{"reload", "sdk", "layered"}

func (m Manner) String() string {
	if m < numManners {
		return mannerNames[m]
	}
	return "unknown"
}

// Class is a kind of client.
type Class struct {
	Name   string
	Share  float64 // of the demand; shares are weighed against each other
	Users  float64 // credentials for each operation a second of demand; Keys, if set, is the number itself
	Keys   int
	Manner Manner
	// Attempts is the product of the layers in one go, and Innermost that of the
	// innermost one.
	Attempts, Innermost int
	Timeout             time.Duration // of an attempt, half to one and a half times for each client
	Patience            time.Duration // mean of an exponential: how long an operation is worth asking for
	// Persistent operations that fail are parked again until the next wake.
	Persistent bool
	SDK        bool    // runs code of ours, that can be corrected
	Shared     bool    // its credentials stand for many users, and the gate is told so
	Obey       float64 // share of the clients that obey Retry-After
	Reload     float64 // probability that a person asks again after a failure
	NewKey     float64 // share of repeats that look like a new operation
	NAT        float64 // share behind shared networks, without a credential of their own
	Lookup     float64 // share of requests that read, and carry no key
}

const maxClasses = 16

func (s *Scenario) outageEnd() time.Duration { return s.Warmup + s.Outage }

// Check reports every field that makes no storm, each with its remedy.
func (s *Scenario) Check() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("sim: "+format, args...))
	}
	if !(s.Demand > 0 && s.Demand <= 100_000) { // so written, it catches NaN too
		bad("demand: %v operations a second; give a number above 0, up to 100,000", s.Demand)
	}
	if s.Warmup <= 0 || s.Outage < 0 || s.Length < s.outageEnd()+10*time.Minute || s.Length > 24*time.Hour {
		bad("length: %v; give at least 10 min after the outage (%v), up to 24 h", s.Length, s.outageEnd())
	}
	if !(s.Decline >= 0 && s.Decline < 1) {
		bad("decline: %v is not a fraction", s.Decline)
	}
	if !(s.Service.Slots > 0) || s.Service.Latency <= 0 || s.Service.Queue < 0 || s.Service.FailsIn <= 0 {
		bad("service: it does no work; give it slots, latency and fails_in")
	}
	if len(s.Classes) == 0 || len(s.Classes) > maxClasses {
		bad("classes: %d; give 1 to %d", len(s.Classes), maxClasses)
	}
	if s.Parking.Share > 0 && (s.Parking.Period < time.Minute || s.Parking.Spread <= 0) {
		bad("parking: what is parked is never sent again; give period (at least 1m) and spread")
	}
	if !(s.Twins >= 0 && s.Twins <= 1) || !(s.TwinsNAT >= 0 && s.TwinsNAT <= 1) || !(s.RejectCost >= 0 && s.RejectCost <= 1) {
		bad("twins: %v, twins_nat: %v, reject_cost: %v; all three are fractions", s.Twins, s.TwinsNAT, s.RejectCost)
	}
	if s.Networks < 0 || s.Networks > 4096 {
		bad("networks: %d; give up to 4096", s.Networks)
	}
	if !(s.Obey <= 1) {
		bad("obey: %v is not a fraction; leave it out for the share of each class", s.Obey)
	}
	if !(s.Estimate > 0) {
		bad("estimate: %v; 1 is the truth", s.Estimate)
	}
	for i := range s.Classes {
		problems = append(problems, s.Classes[i].check())
	}
	return errors.Join(problems...)
}

func (c *Class) check() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("sim: classes %q: "+format, append([]any{c.Name}, args...)...))
	}
	if !(c.Share > 0) {
		bad("share: %v asks nothing; give a positive share or leave the class out", c.Share)
	}
	if !(c.Users > 0) && c.Keys < 1 {
		bad("users: give at least one credential for each operation a second, or keys")
	}
	if c.Manner == Layered && (c.Attempts < 1 || c.Innermost < 1 || c.Attempts > 60_000) {
		bad("attempts: %d, innermost: %d; give the product of the layers, and that of the innermost", c.Attempts, c.Innermost)
	}
	if c.Timeout <= 0 || c.Patience <= 0 {
		bad("timeout: %v, patience: %v; both must be positive", c.Timeout, c.Patience)
	}
	for _, f := range []struct {
		name  string
		value float64
	}{{"obey", c.Obey}, {"reload", c.Reload}, {"new_key", c.NewKey}, {"nat", c.NAT}, {"lookup", c.Lookup}} {
		if !(f.value >= 0 && f.value <= 1) {
			bad("%s: %v is not a fraction", f.name, f.value)
		}
	}
	return errors.Join(problems...)
}
