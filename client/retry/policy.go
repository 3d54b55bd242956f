package retry

import (
	"errors"
	"fmt"
	"time"
)

// What the zero values of Policy mean.
const (
	DefaultMaxAttempts   = 4
	DefaultTotal         = 20 * time.Second
	DefaultMinAttempt    = 100 * time.Millisecond
	DefaultBase          = 500 * time.Millisecond
	DefaultCap           = 8 * time.Second
	DefaultRetryAfterMax = 60 * time.Second
)

// Bounds of what a policy may ask for. A client that makes more than maxAttempts
// attempts at one thing wants a queue.
const (
	maxAttempts = 100
	maxDuration = 24 * time.Hour
)

// Policy is the envelope of an operation. The zero value is the default policy;
// a field that is 0 takes its default.
type Policy struct {
	// MaxAttempts counts the first attempt too, 1 to 100; 0 means 4, 1 repeats
	// nothing.
	MaxAttempts int
	// Total is the time for all attempts and the waits between them, up to 24 h;
	// 0 means 20 s. A deadline of the caller's context that is earlier counts.
	Total time.Duration
	// MinAttempt is the shortest time in which an attempt can be of use; 0 means
	// 100 ms. Where less is left, none is made.
	MinAttempt time.Duration
	// Base is the ceiling of the first wait, which doubles with each; 0 means
	// 500 ms.
	Base time.Duration
	// Cap is the ceiling that is never exceeded; 0 means 8 s.
	Cap time.Duration
	// Floor is added to every random wait, and is the least of every wait that a
	// server names; 0 is no floor.
	Floor time.Duration
	// RetryAfterMax is the longest wait that a server may name and still be
	// obeyed; 0 means 60 s. A longer one ends the operation: to wait less than the
	// server asked would be to come too early.
	RetryAfterMax time.Duration
}

// WithDefaults returns p with its zero fields filled in.
func (p Policy) WithDefaults() Policy {
	orDefault(&p.MaxAttempts, DefaultMaxAttempts)
	orDefault(&p.Total, DefaultTotal)
	orDefault(&p.MinAttempt, DefaultMinAttempt)
	orDefault(&p.Base, DefaultBase)
	orDefault(&p.Cap, DefaultCap)
	orDefault(&p.RetryAfterMax, DefaultRetryAfterMax)
	return p
}

func orDefault[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// Check returns all problems of p, joined, each with its field and a remedy; nil
// when there are none.
func (p Policy) Check() error {
	p = p.WithDefaults()
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("retry: "+format, args...))
	}
	if p.MaxAttempts < 1 || p.MaxAttempts > maxAttempts {
		bad("MaxAttempts: %d is not within 1 and %d; 1 turns repeats off", p.MaxAttempts, maxAttempts)
	}
	for _, f := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"Total", p.Total, 1}, {"MinAttempt", p.MinAttempt, 1}, {"Base", p.Base, 1}, {"Cap", p.Cap, 1},
		{"Floor", p.Floor, 0}, {"RetryAfterMax", p.RetryAfterMax, 1},
	} {
		if f.value < f.least || f.value > maxDuration {
			bad("%s: %v is not within 0 and %v; leave it out for the default", f.name, f.value, maxDuration)
		}
	}
	if p.MinAttempt > p.Total {
		bad("MinAttempt: %v is more than Total (%v), so that no attempt could be made; lower it", p.MinAttempt, p.Total)
	}
	if p.Base > p.Cap {
		bad("Base: %v is above Cap (%v), so that waits could not grow; lower it", p.Base, p.Cap)
	}
	if p.MaxAttempts > 1 && p.Floor > 0 && p.Floor+p.MinAttempt > p.Total {
		bad("Floor: %v leaves no time for a second attempt within Total (%v); lower it, or set MaxAttempts to 1", p.Floor, p.Total)
	}
	return errors.Join(problems...)
}

// Limits tighten a Policy from outside, in an incident. A zero field changes
// nothing.
type Limits struct {
	MaxAttempts int           // at most so many attempts; 1 turns repeats off
	Total       time.Duration // at most this long
	Floor       time.Duration // waits of at least this
	Cap         time.Duration // waits may grow up to this
}

// Tighten returns p within l. It never loosens: fewer attempts, less time and
// longer waits pass, the contrary changes nothing.
func (p Policy) Tighten(l Limits) Policy {
	p = p.WithDefaults()
	if l.MaxAttempts > 0 {
		p.MaxAttempts = min(p.MaxAttempts, l.MaxAttempts)
	}
	if l.Total > 0 {
		p.Total = min(p.Total, l.Total)
	}
	p.Floor = max(p.Floor, min(l.Floor, maxDuration))
	p.Cap = max(p.Cap, min(l.Cap, maxDuration))
	return p
}
