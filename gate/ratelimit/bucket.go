package ratelimit

import (
	"errors"
	"fmt"
	"time"
)

// BucketConfig describes a Bucket. The zero value denies everything.
type BucketConfig struct {
	Limit Limit
	// Unseen bounds all keys together that are not held: the sum of what
	// invented keys can get. Zero: no bound.
	Unseen Limit
	// Keys is how many keys may be less than full at the same time; 0 means DefaultKeys.
	Keys int
	// MaxWait bounds how far ahead units are reserved; 0 means DefaultMaxWait.
	MaxWait time.Duration
	// MaxWaiters bounds the callers that stand in Wait; 0 means DefaultMaxWaiters.
	MaxWaiters int
}

// Defaults of a BucketConfig.
const (
	DefaultMaxWait    = time.Minute
	DefaultMaxWaiters = 10_000
)

// Bucket is one limit for many keys, in fixed memory: the limiter as a library.
// Most callers want Take; those with a clock of their own want TakeAt. Methods
// may be called from many goroutines.
type Bucket struct {
	table   *Table
	policy  *Policy
	maxWait time.Duration
	start   time.Time
	queue   queue
}

// ErrEmptyKey is returned for the key "": all who have no name would share it.
var ErrEmptyKey = errors.New("ratelimit: the key is empty: name the caller, or its network")

// NewBucket makes a bucket. The error joins every problem of the configuration.
func NewBucket(c BucketConfig) (*Bucket, error) {
	var problems []error
	if c.MaxWait < 0 || c.MaxWait > day {
		problems = append(problems, fmt.Errorf("ratelimit: MaxWait %v: set up to 24h, or leave it out to mean %v", c.MaxWait, DefaultMaxWait))
	}
	if c.MaxWaiters < 0 {
		problems = append(problems, fmt.Errorf("ratelimit: MaxWaiters %d is negative: leave it out to mean %d", c.MaxWaiters, DefaultMaxWaiters))
	}
	table, err := NewTable(c.Keys)
	problems = append(problems, err)
	policy, err := NewPolicy(Policy{Name: "bucket", Limit: c.Limit, Unseen: c.Unseen})
	problems = append(problems, err)
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	b := &Bucket{table: table, policy: policy, maxWait: c.MaxWait, start: time.Now()}
	if b.maxWait == 0 {
		b.maxWait = DefaultMaxWait
	}
	if b.queue.room = c.MaxWaiters; b.queue.room == 0 {
		b.queue.room = DefaultMaxWaiters
	}
	g := &policy.gcra
	g.horizon = max(g.horizon, g.window+stamp(b.maxWait.Microseconds()+1)<<fracBits)
	if err := table.Prepare(b.start, policy); err != nil {
		return nil, err
	}
	return b, nil
}

// now reads the monotonic clock only: it cannot step, and costs half.
func (b *Bucket) now() time.Time { return b.start.Add(time.Since(b.start)) }

// Take is TakeAt now.
func (b *Bucket) Take(key string, n int64) (Result, error) { return b.TakeAt(b.now(), key, n) }

// TakeAt takes n units from the bucket of key, or none. n 0 peeks. The only
// errors are ErrNegativeCost and ErrEmptyKey; nothing is taken then.
func (b *Bucket) TakeAt(now time.Time, key string, n int64) (Result, error) {
	if err := checkCall(key, n); err != nil {
		return Result{}, err
	}
	r, _ := b.table.takeOne(stampOf(now), b.policy, b.policy.nameOfString(key), n, b.known())
	return r, nil
}

// known reports whether keys may use all of the table: not when strangers are
// counted together, which says that they may be invented.
func (b *Bucket) known() bool { return b.policy.Unseen.none() }

func checkCall(key string, n int64) error {
	if n < 0 {
		return ErrNegativeCost
	}
	if key == "" {
		return ErrEmptyKey
	}
	return nil
}

// RefundAt gives n units back to key, up to a full bucket. Refunds of one id to
// one key count once within RefundMemory; an empty id is not remembered.
func (b *Bucket) RefundAt(now time.Time, id, key string, n int64) error {
	if err := checkCall(key, n); err != nil {
		return err
	}
	at, name := stampOf(now), b.policy.nameOfString(key)
	if n > 0 && b.table.firstRefund(at, id, name) {
		b.table.giveBack(at, b.policy, name, n)
	}
	return nil
}

// ChargeAt takes n units that were used already, whether key has them or not: a
// cost that is known only afterwards. A key owes at most one burst; what is
// above is not remembered.
func (b *Bucket) ChargeAt(now time.Time, key string, n int64) error {
	if err := checkCall(key, n); err != nil {
		return err
	}
	if n > 0 && b.policy.Units() > 0 {
		b.table.chargeOne(stampOf(now), b.policy, b.policy.nameOfString(key), n, b.known())
	}
	return nil
}

// Bytes is the memory that the bucket holds, whatever it is asked to remember.
func (b *Bucket) Bytes() int { return b.table.Bytes() }

// Crowded counts the calls whose keys found no room in the table.
func (b *Bucket) Crowded() uint64 { return b.table.Crowded() }
