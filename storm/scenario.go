package storm

import (
	"errors"
	"fmt"
	"time"
)

// Scenario is one storm: what is asked, of what, and when it breaks. The zero
// value is not a storm; begin with Incident. A Scenario is a value: changing a
// copy leaves the original as it was, but for Classes, which copies share.
type Scenario struct {
	// Demand is how many new operations begin in a second, on average: 1x.
	// Repeats come on top.
	Demand float64
	// Length is how long the storm is observed.
	Length time.Duration
	// OutageAt is when the dependency fails, and Outage for how long.
	OutageAt, Outage time.Duration
	// Wake is the period at which parked operations are sent again, the first
	// time when the dependency is back, and Spread is over how long they then
	// scatter; the second time over twice as long, and so on. See Class.Parks.
	Wake, Spread time.Duration
	// FreshWithin is how soon an operation must have succeeded for its user to
	// call the service up.
	FreshWithin time.Duration
	// Window is the length of time over which the share of such users is judged.
	Window time.Duration

	Service Service
	Classes []Class
	// Seed draws every random number. With one seed the same operation has the
	// same class, user and jitter, whatever stands before the service.
	Seed uint64
}

// Service is what is asked: so many slots, a first-in first-out queue before
// them, and a dependency behind. Work that is queued is done, also when nobody
// waits for it any more: that is what keeps the bare service down.
type Service struct {
	Slots   int           // operations that are worked on at once
	Latency time.Duration // of one operation, a quarter more or less
	Queue   int           // operations that may wait for a slot; beyond them the answer is 503
	// HangsFor is how long an operation holds its slot while the dependency is
	// down, before it fails with 500.
	HangsFor time.Duration
}

// Capacity returns how many operations a second the service completes.
func (s Service) Capacity() float64 {
	if s.Latency <= 0 {
		return 0
	}
	return float64(s.Slots) / s.Latency.Seconds()
}

// OutageEnd is when the dependency is back.
func (s Scenario) OutageEnd() time.Duration { return s.OutageAt + s.Outage }

// Within returns the scenario for a length. In a shorter one the outage and the
// waves come sooner, in proportion; a longer one is observed for longer. What a
// single request costs is the same.
func (s Scenario) Within(length time.Duration) Scenario {
	factor := min(float64(length)/float64(s.Length), 1)
	s.OutageAt = scale(s.OutageAt, factor)
	s.Outage = scale(s.Outage, factor)
	s.Wake = scale(s.Wake, factor)
	s.Length = length
	return s
}

// WithDemand returns the scenario for another demand, with a service and classes
// of the same proportions.
func (s Scenario) WithDemand(demand float64) Scenario {
	factor := demand / s.Demand
	s.Demand = demand
	s.Service.Slots = max(int(float64(s.Service.Slots)*factor+0.5), 1)
	s.Service.Queue = max(int(float64(s.Service.Queue)*factor+0.5), 1)
	classes := make([]Class, len(s.Classes))
	for i, c := range s.Classes {
		c.Users = max(int(float64(c.Users)*factor+0.5), 1)
		classes[i] = c
	}
	s.Classes = classes
	return s
}

func scale(d time.Duration, factor float64) time.Duration {
	return time.Duration(float64(d) * factor).Round(time.Millisecond)
}

// Check reports every field that makes no storm, each with its remedy.
func (s Scenario) Check() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("storm: "+format, args...))
	}
	if !(s.Demand > 0) { // so written, it catches NaN too
		bad("Demand: %v operations a second are none; give a positive number", s.Demand)
	}
	if s.OutageAt <= 0 || s.Outage <= 0 || s.OutageEnd()+s.FreshWithin+s.Window >= s.Length {
		bad("Length: %v leaves no time before the outage at %v, or too little after it ends at %v; give at least %v",
			s.Length, s.OutageAt, s.OutageEnd(), s.OutageEnd()+s.FreshWithin+s.Window)
	}
	if s.FreshWithin <= 0 || s.Window <= 0 {
		bad("FreshWithin: %v and Window: %v must be positive; what is a success is measured by them", s.FreshWithin, s.Window)
	}
	if s.Service.Slots < 1 || s.Service.Latency <= 0 || s.Service.Queue < 0 || s.Service.HangsFor <= 0 {
		bad("Service: %+v does no work; give it Slots, Latency and HangsFor", s.Service)
	}
	if len(s.Classes) == 0 {
		bad("Classes: nobody asks; give at least one class")
	}
	for i := range s.Classes {
		problems = append(problems, s.Classes[i].check(s.Wake > 0))
	}
	return errors.Join(problems...)
}
