package budget

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// What the zero values of Config mean.
const (
	DefaultBurst        = 10
	DefaultPerSuccess   = 0.1
	DefaultDestinations = 1024
)

// Bounds of what a configuration may ask for.
const (
	maxBurst        = 1_000_000
	maxDestinations = 1 << 20
)

// sweepEvery is after how many destinations without a bucket of their own the
// table is searched for full buckets again: a search costs as much as the table
// is long, and a caller who walks through a million hosts should not pay it for
// each.
const sweepEvery = 64

// Config says how much a client may insist. The zero value is the default.
type Config struct {
	// Burst is the number of tokens that a destination has at first and at most,
	// up to 1,000,000; 0 means 10.
	Burst int
	// PerSuccess is the part of a token that a call earns by succeeding at its
	// first try, up to 1; 0 means 0.1, so that repeats stay below a tenth of the
	// calls.
	PerSuccess float64
	// Destinations is how many destinations have a bucket of their own, up to
	// 1,048,576; 0 means 1024.
	Destinations int
}

// Budgets holds the buckets of all destinations. Its methods may be called from
// many goroutines.
type Budgets struct {
	config Config
	terms  atomic.Pointer[terms] // what applies now: config, or tighter

	mu      sync.RWMutex
	buckets map[string]*Bucket
	missed  int // destinations that found no room
	shared  *Bucket
}

// New makes the budgets of a client. The error joins all problems of c.
func New(c Config) (*Budgets, error) {
	if c.Burst == 0 {
		c.Burst = DefaultBurst
	}
	if c.PerSuccess == 0 {
		c.PerSuccess = DefaultPerSuccess
	}
	if c.Destinations == 0 {
		c.Destinations = DefaultDestinations
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	b := &Budgets{config: c, buckets: make(map[string]*Bucket)}
	b.Loosen()
	b.shared = b.bucket()
	return b, nil
}

func (c *Config) check() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("budget: "+format, args...))
	}
	if c.Burst < 1 || c.Burst > maxBurst {
		bad("Burst: %d is not within 1 and %d; to allow no repeats at all set the policy's MaxAttempts to 1", c.Burst, maxBurst)
	}
	if !(c.PerSuccess > 0 && c.PerSuccess <= 1) { // so written, it catches NaN too
		bad("PerSuccess: %v is not above 0 and up to 1; 0.1 earns one repeat in ten successes", c.PerSuccess)
	}
	if c.Destinations < 1 || c.Destinations > maxDestinations {
		bad("Destinations: %d is not within 1 and %d; count the hosts that the program calls", c.Destinations, maxDestinations)
	}
	return errors.Join(problems...)
}

// Tighten lowers burst and perSuccess for all destinations from now on, as a
// policy document may ask; 0 is a value, and leaves nothing. What is above the
// configuration, negative or NaN changes nothing in its place: a document can
// never loosen.
func (b *Budgets) Tighten(burst int, perSuccess float64) {
	t := terms{full: int64(b.config.Burst) * token, earned: int64(b.config.PerSuccess * token)}
	if burst >= 0 && burst < b.config.Burst {
		t.full = int64(burst) * token
	}
	if perSuccess >= 0 && perSuccess < b.config.PerSuccess {
		t.earned = int64(perSuccess * token)
	}
	b.terms.Store(&t)
}

// Loosen goes back to the configuration. The buckets keep their level.
func (b *Budgets) Loosen() { b.Tighten(b.config.Burst, b.config.PerSuccess) }

// Of returns the bucket of a destination. It does not allocate for one that it
// knows.
func (b *Budgets) Of(destination string) *Bucket {
	b.mu.RLock()
	bucket := b.buckets[destination]
	b.mu.RUnlock()
	if bucket != nil {
		return bucket
	}
	return b.add(destination)
}

func (b *Budgets) add(destination string) *Bucket {
	b.mu.Lock()
	defer b.mu.Unlock()
	if bucket := b.buckets[destination]; bucket != nil {
		return bucket
	}
	if len(b.buckets) >= b.config.Destinations {
		if b.missed%sweepEvery == 0 {
			b.sweep()
		}
		if len(b.buckets) >= b.config.Destinations {
			b.missed++
			return b.shared
		}
	}
	bucket := b.bucket()
	b.buckets[strings.Clone(destination)] = bucket // the caller's string may be part of a long URL
	return bucket
}

// sweep drops the buckets that are full. Whoever still holds one of them may
// take its tokens although a new bucket has taken its place: at most one burst.
func (b *Budgets) sweep() {
	for destination, bucket := range b.buckets {
		if bucket.full() {
			delete(b.buckets, destination)
		}
	}
	b.missed = 0
}

// Len returns the number of destinations that have a bucket of their own.
func (b *Budgets) Len() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.buckets)
}

func (b *Budgets) bucket() *Bucket {
	bucket := &Bucket{terms: &b.terms}
	bucket.level.Store(b.terms.Load().full)
	return bucket
}
