package admission

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Mode says whether decisions are carried out.
type Mode uint8

// The modes.
const (
	ModeEnforce Mode = iota
	ModeObserve      // decide, report what would have been refused, admit all the same
	numModes
)

// Policy says how permits are given when they run short.
type Policy uint8

// The policies.
const (
	// PolicyPriority leaves no permit idle: a repeat takes what no original wants.
	PolicyPriority Policy = iota
	// PolicyReserve is the literal rule of the article that the project started
	// from: below 1-Reserve everything enters, above it originals only, at the
	// limit nothing; nobody waits.
	PolicyReserve
	numPolicies
)

// Bounds of what a configuration may ask for. The in-flight half of the word has
// 48 bits; these keep it far from its end even in observe mode.
const (
	maxCapacity = 1 << 24
	maxWeight   = 1 << 16
	maxRoutes   = 1024
)

// Config says how a Controller decides. The zero value admits nothing.
type Config struct {
	Mode   Mode
	Policy Policy

	// Capacity is the weight that may be in flight at once when Learner is nil;
	// 0 admits nothing.
	Capacity int
	// Learner finds the limit instead; Capacity is ignored then.
	Learner Learner
	// Ceiling bounds what Learner says; 0 takes its word. It should be the
	// highest limit that the Learner can reach, so that New can tell which
	// weights never fit.
	Ceiling int

	// Reserve is the fraction of the limit kept for originals under
	// PolicyReserve, 0 to 1; 0 keeps none.
	Reserve float64
	// QueueWait is the longest that a request may stand in the queue under
	// PolicyPriority, or half as long as an answer takes if that is longer, up to
	// 500 ms; 0 means no queue. A caller with less patience waits less.
	QueueWait time.Duration
	// Streams is the most exchanges that may live on as streams after they left
	// the gate; 0 means ten times the limit, at least 1000.
	Streams int

	// Routes is indexed by comporta.Request.Route. Entry 0 stands for every
	// index beyond the list too; an empty list means one route of weight 1.
	Routes []Route
}

// Route is what admission knows of a route. The zero value weighs 1, may take
// the whole limit, and does not yield.
type Route struct {
	// Name finds the count of the route again after a reload. Entries of one
	// name are counted together and must have one Share. Empty: named by position.
	Name string
	// Weight is what one request takes of the limit; 0 means 1.
	Weight int
	// Share is the fraction of the limit, rounded up to a whole permit, that the
	// route may hold; 0 means 1, no bound of its own.
	Share float64
	// Sheddable requests yield first within their route: they never wait, and
	// leave the last 8 % of what the route may hold to the others.
	Sheddable bool
}

// New compiles c over the state that outlives it. It reports all problems of c
// at once. Several Controllers may share a State at the same time, as they do
// for the length of a reload.
func New(c Config, s *State) (*Controller, error) {
	if err := c.check(s); err != nil {
		return nil, err
	}
	ctl := &Controller{
		state:     s,
		observe:   c.Mode == ModeObserve,
		policy:    c.Policy,
		capacity:  c.Capacity,
		learner:   c.Learner,
		ceiling:   c.Ceiling,
		reserve:   c.Reserve,
		queueWait: c.QueueWait,
		streams:   c.Streams,
		heaviest:  1,
	}
	if ctl.learner != nil && ctl.ceiling == 0 {
		ctl.ceiling = maxCapacity
	}
	routes := c.Routes
	if len(routes) == 0 {
		routes = []Route{{}}
	}
	words, err := s.routeWords(routes)
	if err != nil {
		return nil, err
	}
	ctl.routes = make([]route, len(routes))
	for i, r := range routes {
		ctl.routes[i] = route{word: words[i], weight: max(r.Weight, 1), share: shareOf(r), sheddable: r.Sheddable}
		ctl.heaviest = max(ctl.heaviest, r.Weight)
	}
	return ctl, nil
}

func shareOf(r Route) float64 {
	if r.Share == 0 {
		return 1
	}
	return r.Share
}

func (c *Config) check(s *State) error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("admission: "+format, args...))
	}
	if s == nil {
		bad("state: nil; pass the State that outlives reloads")
	}
	if c.Mode >= numModes {
		bad("Mode: %d is none; use ModeEnforce or ModeObserve", c.Mode)
	}
	if c.Policy >= numPolicies {
		bad("Policy: %d is none; use PolicyPriority or PolicyReserve", c.Policy)
	}
	if c.Capacity < 0 || c.Capacity > maxCapacity {
		bad("Capacity: %d is not within 0 and %d; give the number of requests that the service handles at once", c.Capacity, maxCapacity)
	}
	if c.Ceiling < 0 || c.Ceiling > maxCapacity {
		bad("Ceiling: %d is not within 0 and %d; 0 takes the word of the Learner", c.Ceiling, maxCapacity)
	}
	if !(c.Reserve >= 0 && c.Reserve <= 1) { // so written, it catches NaN too
		bad("Reserve: %v is not a fraction; 0.3 keeps 30%% of the capacity for originals", c.Reserve)
	}
	if c.QueueWait < 0 {
		bad("QueueWait: %v is negative; 0 means no queue", c.QueueWait)
	}
	if c.Streams < 0 {
		bad("Streams: %d is negative; 0 means ten times the limit", c.Streams)
	}
	problems = append(problems, c.checkRoutes()...)
	return errors.Join(problems...)
}

func (c *Config) checkRoutes() []error {
	var problems []error
	if len(c.Routes) > maxRoutes {
		problems = append(problems, fmt.Errorf("admission: Routes: %d are too many; at most %d", len(c.Routes), maxRoutes))
	}
	shares := map[string]float64{}
	for i, r := range c.Routes {
		bad := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("admission: Routes[%d] %q: "+format, append([]any{i, r.Name}, args...)...))
		}
		if r.Weight < 0 || r.Weight > maxWeight {
			bad("Weight: %d is not within 0 and %d; 0 means 1", r.Weight, maxWeight)
		}
		if !(r.Share >= 0 && r.Share <= 1) {
			bad("Share: %v is not a fraction; 0.5 lets the route hold half of the limit", r.Share)
			continue
		}
		if was, seen := shares[r.Name]; seen && r.Name != "" && was != shareOf(r) {
			bad("Share: %v, but %v before; entries of one name are counted together, give them one share", shareOf(r), was)
		}
		shares[r.Name] = shareOf(r)
		if most := c.mostOf(r); most > 0 && r.Weight > most {
			bad("Weight: %d never fits, the route may hold %d; lower the weight, or raise the capacity or the share", r.Weight, most)
		}
	}
	return problems
}

// mostOf returns the most weight that a route can ever hold, 0 when unknown or none.
func (c *Config) mostOf(r Route) int {
	most := c.Capacity
	if c.Learner != nil {
		most = c.Ceiling
	}
	return portion(shareOf(r), most)
}

// portion returns ceil(share × limit). A product that misses a whole number by a
// rounding error counts as that number: 0.07 × 100 is 7, not 8.
func portion(share float64, limit int) int {
	if share == 1 {
		return limit
	}
	return int(math.Ceil(share*float64(limit) - 1e-9))
}
