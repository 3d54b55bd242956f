package queue

import (
	"errors"
	"fmt"
	"time"
)

// The defaults of [Config].
const (
	DefaultMaxItems    = 10_000
	DefaultMaxBytes    = 16 << 20
	DefaultMaxPayload  = 1 << 20
	DefaultPerItem     = 200 * time.Millisecond
	DefaultMaxSpread   = 5 * time.Minute
	DefaultMaxAttempts = 16
	DefaultBaseWait    = time.Second
	DefaultMaxWait     = 5 * time.Minute
)

// The largest values that [Config] takes.
const (
	LargestPayload = 16 << 20 // bytes
	LargestWait    = 365 * 24 * time.Hour
)

// Config says where a queue lies and how patient it is. Every zero means the
// default, but for Path, which is required.
type Config struct {
	// Path names the file. Its directory must exist and be writable.
	Path string

	// MaxItems bounds the items in the file, dead letters included; 0 means
	// DefaultMaxItems.
	MaxItems int
	// MaxBytes bounds what the items take together: payload, key and 64 bytes
	// each; 0 means DefaultMaxBytes.
	MaxBytes int64
	// MaxPayload bounds one payload, in bytes, up to LargestPayload; 0 means
	// DefaultMaxPayload, or MaxBytes if that is less.
	MaxPayload int

	// PerItem is what each waiting item adds to the window in which the first
	// is sent after a reconnection; 0 means DefaultPerItem. Lower it only if few
	// devices share the server.
	PerItem time.Duration
	// MaxSpread bounds that window; 0 means DefaultMaxSpread.
	MaxSpread time.Duration

	// MaxAttempts is how many attempts the server may fail before an item is a
	// dead letter; 0 means DefaultMaxAttempts.
	MaxAttempts int
	// BaseWait is the ceiling of the random wait after the first failure in a
	// row; it doubles with each further one. 0 means DefaultBaseWait.
	BaseWait time.Duration
	// MaxWait bounds that ceiling; 0 means DefaultMaxWait. A longer wait that the
	// server names is kept all the same.
	MaxWait time.Duration
	// Ordered keeps an item whose sending failed at the head, so that nothing
	// overtakes it until it is sent or dead. By default it goes to the end, and
	// one bad item delays the others by one wait instead of MaxAttempts.
	Ordered bool

	// Budget, if set, is asked before each repeat; see [Budget].
	Budget Budget
	// Trace is told what happens.
	Trace Trace
}

// Budget bounds the repeats towards a destination, together with whoever else
// draws on it. Its methods are called from the goroutine that settles and must
// not call the queue.
//
// A queue that waited for successes that only it can bring would wait for ever:
// refused, it waits for MaxWait and then sends one item as a probe.
type Budget interface {
	// Withdraw takes the token of one repeat, if there is one.
	Withdraw() bool
	// Deposit is called when a first attempt succeeded.
	Deposit()
	// Refund is called when a repeat that took a token succeeded.
	Refund()
}

// Trace is a set of optional functions that are told what happens. They are
// called without a lock held, from the goroutine of the call that caused it.
type Trace struct {
	// Settled: an attempt ended.
	Settled func(Item, Result)
	// Dead: an item became a dead letter. Count it and alarm: a queue of dead
	// letters is no store.
	Dead func(Letter)
	// Dropped: a dead letter made room for a new item, and is lost.
	Dropped func(Letter)
}

func (t *Trace) dead(l Letter) {
	if t.Dead != nil {
		t.Dead(l)
	}
}

// prepare returns c with the defaults filled in, or all of its problems.
func prepare(c Config) (Config, error) {
	var problems []error
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("queue: "+format, args...))
	}
	if c.Path == "" {
		problem("Path is empty: name the file that holds the queue")
	}
	count := func(name string, v *int, otherwise int) {
		if *v < 0 {
			problem("%s is %d: use a positive number, or 0 for %d", name, *v, otherwise)
		}
		if *v == 0 {
			*v = otherwise
		}
	}
	wait := func(name string, v *time.Duration, otherwise time.Duration) {
		if *v < 0 || *v > LargestWait {
			problem("%s is %v: use 0 for %v, or up to %v", name, *v, otherwise, LargestWait)
		}
		if *v == 0 {
			*v = otherwise
		}
	}
	if c.MaxBytes < 0 {
		problem("MaxBytes is %d: use a positive number, or 0 for %d", c.MaxBytes, DefaultMaxBytes)
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	count("MaxItems", &c.MaxItems, DefaultMaxItems)
	count("MaxPayload", &c.MaxPayload, int(min(DefaultMaxPayload, max(c.MaxBytes, 1))))
	count("MaxAttempts", &c.MaxAttempts, DefaultMaxAttempts)
	if c.MaxPayload > LargestPayload {
		problem("MaxPayload is %d: the largest is %d; store large bodies elsewhere and enqueue their name", c.MaxPayload, LargestPayload)
	}
	wait("PerItem", &c.PerItem, DefaultPerItem)
	wait("MaxSpread", &c.MaxSpread, DefaultMaxSpread)
	wait("BaseWait", &c.BaseWait, DefaultBaseWait)
	wait("MaxWait", &c.MaxWait, max(DefaultMaxWait, c.BaseWait))
	if c.BaseWait > c.MaxWait {
		problem("BaseWait %v is above MaxWait %v: raise MaxWait or lower BaseWait", c.BaseWait, c.MaxWait)
	}
	return c, errors.Join(problems...)
}
