package sim

import (
	"errors"
	"fmt"
	"time"
)

// Scenario is one storm in virtual time: a service, what breaks, and who asks.
// Begin with Builtin. A Scenario is a value, but copies share Classes.
type Scenario struct {
	Name string `yaml:"name"`
	// Demand is how many operations begin in a second at the daily peak: 1x.
	Demand float64 `yaml:"demand"`
	// Operations ends the stream of new operations after so many; 0 is no end.
	Operations int `yaml:"operations"`
	// Warmup is how long the house runs before the outage begins (at 14:00), Outage
	// how long the dependency is away (0: never), Length the whole time observed.
	Warmup time.Duration `yaml:"warmup"`
	Outage time.Duration `yaml:"outage"`
	Length time.Duration `yaml:"length"`
	// Surge makes the outage one of the demand: the dependency stays, and so many
	// times as much is wanted; 0 is none.
	Surge float64 `yaml:"surge"`
	// Decline is the share of the demand that is lost in an hour after the outage.
	Decline float64 `yaml:"decline"`

	Service Service `yaml:"service"`
	Classes []Class `yaml:"classes"`
	Parking Parking `yaml:"parking"`
	Layers  Layers  `yaml:"layers"`
	// Twins is the share of equal requests that are operations of their own: two
	// equal queries of one client within seconds. TwinsNAT is that share behind a
	// shared network, where the clients cannot be told apart. They are what a
	// fingerprint takes for repeats.
	Twins    float64 `yaml:"twins"`
	TwinsNAT float64 `yaml:"twins_nat"`
	// Networks is how many networks the clients of Class.NAT share.
	Networks int `yaml:"networks"`
	// Obey overrides the share of clients that obey Retry-After; below 0 it is that
	// of each class.
	Obey float64 `yaml:"obey"`
	// Estimate is the capacity that defences are told, as a multiple of the slots.
	Estimate float64 `yaml:"estimate"`
	// RejectCost is what a refusal costs the service, as a share of a request.
	RejectCost float64 `yaml:"reject_cost"`
	// Fixes are what the owners of the clients do about it.
	Fixes Fixes `yaml:"fixes"`
}

// Parking is the offline queue: what becomes of operations that begin while the
// dependency is away, and of those of persistent classes that fail.
type Parking struct {
	Share  float64 `yaml:"share"`  // of the operations of the outage that are kept for later
	Unsent float64 `yaml:"unsent"` // of those, the share that was never sent before the wake
	// Period is how often what is parked is sent again; the first time when the
	// dependency is back. Spread is over how long the clients then scatter.
	Period time.Duration `yaml:"period"`
	Spread time.Duration `yaml:"spread"`
}

// Layers are the gaps between the attempts of a stack of layers that repeat
// without knowing of each other.
type Layers struct {
	Quick  time.Duration `yaml:"quick"`  // between the attempts of the innermost layer, a proxy
	Gap    time.Duration `yaml:"gap"`    // the first gap of the others
	Growth float64       `yaml:"growth"` // each gap is so many times the one before
	Cap    time.Duration `yaml:"cap"`
	Jitter float64       `yaml:"jitter"` // ± this share
}

// Fixes are corrections at the source. The zero value is none.
type Fixes struct {
	// CeilingSDK and CeilingAll bound the attempts of an operation in one go, of
	// the classes that run our SDK (Class.SDK), or of all; 0 is no ceiling.
	CeilingSDK int `yaml:"ceiling_sdk"`
	CeilingAll int `yaml:"ceiling_all"`
	// Spread scatters what is parked over so long, instead of Parking.Spread.
	Spread time.Duration `yaml:"spread"`
	// BudgetSDK gives each client of the SDK classes a budget of repeats, by the
	// core of client/budget.
	BudgetSDK bool `yaml:"budget_sdk"`
	// SwitchAfter is how long after the beginning of the outage a remote policy that
	// turns repeats off reaches the SDK classes; 0 is never.
	SwitchAfter time.Duration `yaml:"switch_after"`
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
	Name  string  `yaml:"name"`
	Share float64 `yaml:"share"` // of the demand; shares are weighed against each other
	// Users is how many credentials there are for each operation a second of demand;
	// Keys, if set, is their number itself.
	Users  float64 `yaml:"users"`
	Keys   int     `yaml:"keys"`
	Manner Manner  `yaml:"manner"`
	// Attempts is the product of the layers in one go, Innermost that of the innermost
	// one. Only for Layered.
	Attempts  int `yaml:"attempts"`
	Innermost int `yaml:"innermost"`
	// Timeout is that of an attempt, half to one and a half times for each client.
	Timeout time.Duration `yaml:"timeout"`
	// Patience is how long an operation is worth asking for, the mean of an exponential.
	Patience time.Duration `yaml:"patience"`
	// Persistent operations that fail are parked again until the next wake.
	Persistent bool    `yaml:"persistent"`
	SDK        bool    `yaml:"sdk"`     // runs code of ours, that can be corrected
	Obey       float64 `yaml:"obey"`    // share of the clients that obey Retry-After
	Reload     float64 `yaml:"reload"`  // probability that a person asks again after a failure
	NewKey     float64 `yaml:"new_key"` // share of a person's repeats that look like a new operation
	NAT        float64 `yaml:"nat"`     // share behind shared networks, without a credential of their own
	Lookup     float64 `yaml:"lookup"`  // share of operations that read, and carry no key
}

// UnmarshalText reads the name of a manner.
func (m *Manner) UnmarshalText(text []byte) error {
	for i, name := range mannerNames {
		if name == string(text) {
			*m = Manner(i)
			return nil
		}
	}
	return fmt.Errorf("sim: manner %q is none; use reload, sdk or layered", text)
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
	if s.Warmup < 0 || s.Outage < 0 || s.Length < s.outageEnd()+10*time.Minute || s.Length > 24*time.Hour {
		bad("warmup: %v, length: %v; neither below 0, and at least 10 min after the outage (%v), up to 24 h", s.Warmup, s.Length, s.outageEnd())
	}
	if s.Operations < 0 {
		bad("operations: %d; 0 is no end", s.Operations)
	}
	if !(s.Decline >= 0 && s.Decline < 1) {
		bad("decline: %v is not a fraction", s.Decline)
	}
	if !(s.Service.Slots > 0 && s.Service.Slots < 1000) || s.Service.Latency <= 0 || s.Service.Queue < 0 || s.Service.FailsIn <= 0 {
		bad("service: it does no work; give it slots, latency and fails_in")
	}
	if !(s.Service.Fails >= 0 && s.Service.Fails <= 1) || !(s.Surge >= 0 && s.Surge <= 1000) {
		bad("service.fails: %v is not a fraction, or surge: %v is not within 0 and 1000", s.Service.Fails, s.Surge)
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
