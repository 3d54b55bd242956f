package gate

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/admission"
	"github.com/comporta/comporta/gate/admission/seek"
	"github.com/comporta/comporta/gate/calendar"
	"github.com/comporta/comporta/gate/identity"
	"github.com/comporta/comporta/gate/keys"
	"github.com/comporta/comporta/gate/ratelimit"
	"github.com/comporta/comporta/gate/repeat"
	"github.com/comporta/comporta/internal/hash"
)

const (
	sightingsMemory = 32 << 20
	provenMemory    = 4 << 20
)

// State is what outlives a reload: counts, tables, bookings, what was learned,
// and what an operator has set. Gates compiled one after the other over the same
// State count in the same words. Methods may be called from many goroutines.
type State struct {
	admission admission.State
	proven    *identity.Proven
	slots     *calendar.State
	counters  counters
	watch     watch
	levers    levers
	degrade   degrade
	policy    policySwitch
	explained explainRing
	ids       requestIDs

	seed     hash.Seed // of all names
	bodySeed maphash.Seed
	buffered atomic.Int64 // bytes of bodies read ahead

	mu        sync.Mutex // guards what follows: made on demand, remade when a size changes
	random    *keys.Ring
	sightings *repeat.Table
	memory    int
	answers   *repeat.Answers
	learned   *seek.Limit
	rates     *ratelimit.Table
	rateKeys  int
}

// NewState returns an empty State.
func NewState() (*State, error) { return NewStateFrom(time.Now(), hash.NewSeed()) }

// NewStateFrom is NewState for simulations that must repeat themselves: its seconds
// are counted from start, and the names in its tables are made of a seed that only
// this module can give.
func NewStateFrom(start time.Time, seed hash.Seed) (*State, error) {
	slots, err := calendar.NewStateFrom(0, seed)
	if err != nil {
		return nil, fmt.Errorf("gate: %w", err)
	}
	return &State{
		proven: identity.NewProven(provenMemory), slots: slots,
		seed: seed, bodySeed: maphash.MakeSeed(),
		watch: watch{start: start}, ids: newRequestIDs(),
	}, nil
}

// ring is the random key of gates without a file; it outlives reloads, so that a
// reload does not end the tickets.
func (s *State) ring() *keys.Ring {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.random == nil {
		s.random = keys.Random()
	}
	return s.random
}

// sightingsOf returns the table, a new one only if its size changed.
func (s *State) sightingsOf(memory int) (*repeat.Table, error) {
	if memory == 0 {
		memory = sightingsMemory
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sightings == nil || s.memory != memory {
		t, err := repeat.NewTableFrom(memory, s.seed)
		if err != nil {
			return nil, fmt.Errorf("gate: %w", err)
		}
		s.sightings, s.memory = t, memory
	}
	return s.sightings, nil
}

func (s *State) answersOnce() (_ *repeat.Answers, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers == nil {
		s.answers, err = repeat.NewAnswers(answersMemory)
	}
	return s.answers, err
}

// learnedOf returns the learned limit under new bounds; what it learned stays.
func (s *State) learnedOf(c seek.Config) (_ *seek.Limit, ceiling int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.learned == nil {
		s.learned, err = seek.New(c)
	} else {
		err = s.learned.SetConfig(c)
	}
	return s.learned, c.Ceiling(), err
}

// ShedAt sets a lever. It returns the lever with its id, or why it was not set.
func (s *State) ShedAt(now time.Time, l Lever) (Lever, error) { return s.levers.addAt(now, l) }

// UnshedAt removes a lever; false if there is none of that id.
func (s *State) UnshedAt(now time.Time, id int) bool { return s.levers.removeAt(now, id) }

// LeversAt lists the levers that have not expired.
func (s *State) LeversAt(now time.Time) []Lever { return s.levers.listAt(now) }

// SetPolicyAt sets the policy that rides on refusals.
func (s *State) SetPolicyAt(now time.Time, p Policy) error { return s.policy.setAt(now, p) }

// ClearPolicy ends it.
func (s *State) ClearPolicy() { s.policy.clear() }

// PolicyAt returns it while it lives.
func (s *State) PolicyAt(now time.Time) (Policy, bool) { return s.policy.policyAt(now) }

// TrafficAt returns what passed within the last ten seconds.
func (s *State) TrafficAt(now time.Time) Traffic { return s.watch.trafficAt(now) }

// VerdictAt says whether it is an attack or accumulated demand.
func (s *State) VerdictAt(now time.Time) Verdict { return s.watch.verdictAt(now) }

// Explain returns the newest refusal of a request id.
func (s *State) Explain(requestID string) (Explanation, bool) {
	x, ok := s.explained.find(requestID, s.ids.text)
	if !ok {
		return Explanation{}, false
	}
	return x.words(), true
}

// EachRequestCount calls yield with every line of requests_total that is not 0.
func (s *State) EachRequestCount(yield func(RequestCount) bool) { s.counters.each(yield) }

// WouldReject returns how many requests of a kind observe mode would have refused.
func (s *State) WouldReject(kind comporta.Kind, reason comporta.Reason) uint64 {
	return s.counters.would[kind%kinds][reason%comporta.NumReasons].Load()
}
