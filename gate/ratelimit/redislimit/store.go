package redislimit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/gate/ratelimit"
	"github.com/comporta/comporta/internal/hash"
)

// Store is a ratelimit.Store in Redis. Make one with New, and Close it. Its
// methods may be called from many goroutines.
type Store struct {
	config  Config
	client  redis.UniversalClient // nil in tests without Redis
	ask     asker
	seed    hash.Seed
	memory  *memory
	lanes   []lane
	clock   func() time.Time // of round trips; decisions get theirs from callers
	breaker *breaker.Breaker
	health  health
	nodes   atomic.Int64
	learn   atomic.Int64 // microsecond until which grants are halved
	refunds []byte       // begins what remembers refunds
	tally   tally

	prepare sync.Mutex // orders Prepare
	meters  atomic.Pointer[registry]

	flights sync.WaitGroup
	stop    chan struct{}
	stopped sync.WaitGroup
	closing sync.Once

	lastBeat heartbeat // written by New, then by keepHouse only
}

var _ ratelimit.Shared = (*Store)(nil)

// registry is the policies that are known. It is replaced as a whole.
type registry struct {
	byPolicy map[*ratelimit.Policy]*meter
	byName   map[string][]*meter // the newest first; the one before may still be in use
}

// asker runs the script of takes in one lane and returns what it says. The
// arguments are good until it returns.
type asker func(ctx context.Context, lane int, keys []string, numbers []byte) (string, error)

// clusterLanes is how many parts the key space has in a cluster. Each is a slot
// with a queue of its own: more would spread the load better and batch worse.
const clusterLanes = 32

var takes, beats = newScript(takeScript), newScript(beatScript)

// New makes a store and beats once, for as long as ctx and the timeout for
// connecting allow. A Redis that does not answer is no error: the failure modes
// of the rules hold until it does. The error joins every problem of c.
func New(ctx context.Context, c Config) (*Store, error) { return connect(ctx, c, time.Now) }

func connect(ctx context.Context, c Config, clock func() time.Time) (*Store, error) {
	c = c.withDefaults()
	lanes := 1
	if c.Redis.IsClusterMode {
		lanes = clusterLanes
	}
	s, err := newStore(c, lanes, clock)
	if err != nil {
		return nil, err
	}
	s.client = dial(&s.config)
	s.ask = s.askRedis
	first, cancel := context.WithTimeout(ctx, max(time.Second, c.Timeout))
	defer cancel()
	s.keepAlive(first)
	s.stopped.Go(s.keepHouse)
	return s, nil
}

// newStore makes a store without Redis and without goroutines.
func newStore(c Config, lanes int, clock func() time.Time) (*Store, error) {
	s := &Store{
		config: c, seed: hash.NewSeed(), lanes: make([]lane, lanes), clock: clock, stop: make(chan struct{}),
	}
	changed := c.Breaker.Trace.Changed
	c.Breaker.Trace.Changed = func(now time.Time, change breaker.Change) {
		if change.To == breaker.Closed {
			s.learnUntil(now)
		}
		s.health.changed(now, change)
		if changed != nil {
			changed(now, change)
		}
	}
	guard, err := breaker.New(c.Breaker)
	if problems := errors.Join(c.check(), err); problems != nil {
		return nil, problems
	}
	s.breaker, s.health.trace = guard, c.Trace
	if s.config.Node == "" {
		s.config.Node = rand.Text()
	}
	s.refunds = labelOf(c.Secret, "") // no policy has an empty name
	s.memory = newMemory(c.Keys, c.Period.Microseconds())
	s.nodes.Store(int64(c.Nodes))
	s.meters.Store(&registry{})
	for i := range s.lanes {
		s.lanes[i].number = i
	}
	return s, nil
}

// learnUntil begins a period of half grants: Redis was away, and may have
// forgotten.
func (s *Store) learnUntil(now time.Time) {
	s.learn.Store(now.Add(s.config.Period).UnixMicro())
	s.tally.learned.Add(1)
}

func (s *Store) learning() bool {
	left := s.learn.Load() - s.clock().UnixMicro()
	return left > 0 && left <= s.config.Period.Microseconds() // more: the clock stepped back
}

func (s *Store) fleet() fleet {
	return fleet{period: s.config.Period.Microseconds(), nodes: s.nodes.Load()}
}

// maxPolicies is how many names of policies are remembered over all reloads.
const maxPolicies = 250

// Prepare implements ratelimit.Store. Keys in Redis say under which limit they
// were written, so that units stay units when a limit changes, also while other
// nodes still have the old one. A quota is an error.
func (s *Store) Prepare(_ time.Time, policies ...*ratelimit.Policy) error {
	s.prepare.Lock()
	defer s.prepare.Unlock()
	if err := checkPolicies(policies); err != nil {
		return err
	}
	old := s.meters.Load()
	next := &registry{byPolicy: map[*ratelimit.Policy]*meter{}, byName: maps.Clone(old.byName)}
	if next.byName == nil || len(next.byName)+len(policies) > maxPolicies {
		next.byName = map[string][]*meter{}
		for _, p := range policies {
			if known := old.byName[p.Name]; known != nil {
				next.byName[p.Name] = known
			}
		}
	}
	for _, p := range policies {
		if old.byPolicy[p] != nil {
			continue
		}
		m := newMeter(p)
		m.start = s.seed.Start().Str(p.Name)
		m.label = labelOf(s.config.Secret, p.Name)
		known := next.byName[p.Name]
		if len(known) > 0 {
			m.counts = known[0].counts
			known = known[:1]
		}
		next.byName[p.Name] = append([]*meter{m}, known...)
	}
	for _, known := range next.byName {
		for _, m := range known {
			next.byPolicy[m.policy] = m
		}
	}
	s.meters.Store(next)
	return nil
}

func checkPolicies(policies []*ratelimit.Policy) error {
	var problems []error
	names := make(map[string]bool, len(policies))
	for _, p := range policies {
		switch {
		case p == nil || p.Name == "":
			problems = append(problems, errors.New("redislimit: a policy was not made by ratelimit.NewPolicy"))
			continue
		case p.Quota.Period != ratelimit.PeriodNone:
			problems = append(problems, fmt.Errorf("redislimit: policy %q is a quota: keep it in the table, or write it as a limit with a long time", p.Name))
		case names[p.Name]:
			problems = append(problems, fmt.Errorf("redislimit: policy %q is there twice: give it another name", p.Name))
		}
		names[p.Name] = true
	}
	if len(names) > maxPolicies {
		problems = append(problems, fmt.Errorf("redislimit: %d policies are above the limit of %d", len(names), maxPolicies))
	}
	return errors.Join(problems...)
}

// Counts is what a policy did here, across reloads; zero when it is unknown.
func (s *Store) Counts(p *ratelimit.Policy) ratelimit.Counts {
	m := s.meters.Load().byPolicy[p]
	if m == nil {
		return ratelimit.Counts{}
	}
	return ratelimit.Counts{Denied: m.counts.denied.Load(), WouldDeny: m.counts.shadowed.Load()}
}

// Close gives leases back, leaves the count of nodes, and closes the
// connections. It waits for what is under way, no longer than ctx. Calls after
// it end in ErrUnavailable. The second call does nothing.
func (s *Store) Close(ctx context.Context) error {
	var err error
	s.closing.Do(func() {
		close(s.stop)
		s.stopped.Wait()
		s.sweepAt(s.clock().UnixMicro(), everything)
		for i := range s.lanes {
			s.lanes[i].close()
		}
		landed := make(chan struct{})
		go func() { // ends with the flights, each of which has a timeout
			s.flights.Wait()
			close(landed)
		}()
		select {
		case <-landed:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if s.client != nil {
			err = errors.Join(err, s.beat(ctx, true), s.client.Close())
		}
	})
	return err
}
