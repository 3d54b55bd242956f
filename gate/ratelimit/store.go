package ratelimit

import (
	"context"
	"time"
)

// Store keeps buckets. Table keeps them in this process; package redislimit
// shares them. Package limittest holds what every store must do.
//
// Methods may be called from many goroutines. A store keeps none of the slices
// that it is given.
type Store interface {
	// Prepare makes policies known, before their first use. A policy of a name
	// that was prepared before takes over what that one's keys owe.
	Prepare(now time.Time, policies ...*Policy) error

	// Take charges all debits or none, and writes one result a debit; results is
	// at least as long. It reports whether the debits that are no shadows were
	// all affordable. A shadow that was not is not charged; neither is anything
	// when another denies, except a Penalty. Cost 0 peeks: nothing changes and no
	// key is created. A negative cost is ErrNegativeCost.
	//
	// Any other error says that nothing is known: the debits may have been
	// charged or not, and the rules' failure modes decide. A store that applies
	// them itself returns no such error but results, with Unavailable where a
	// rule is closed.
	Take(ctx context.Context, now time.Time, debits []Debit, results []Result) (bool, error)

	// Refund gives units back, up to full buckets. Refunds of one id count once
	// within RefundMemory; an empty id is not remembered.
	Refund(ctx context.Context, now time.Time, id string, debits []Debit) error

	// Charge takes units that were used already, whether the keys can pay or not,
	// down to one burst below empty.
	Charge(ctx context.Context, now time.Time, debits []Debit) error
}

// RefundMemory is how long the id of a refund is remembered.
const RefundMemory = 10 * time.Minute

// Debit is what one policy asks of one key. The debits of a call name distinct
// keys of their policies.
type Debit struct {
	Policy *Policy
	// Key is length-prefixed (see Key.AppendTo) and is the same on every node. It may
	// contain what a client sent, so a shared store keeps a keyed hash of it.
	Key      []byte
	Cost     int64 // units; 0 peeks
	Believed bool  // the client is known: it may use the reserved part of a table
}

// Result is what became of one debit.
type Result struct {
	Allowed bool // affordable as far as this debit goes
	// Never: no waiting makes the cost affordable; it is above the burst, or
	// nothing is ever regained.
	Never bool
	// Unavailable: the store cannot answer, and the rule is closed.
	Unavailable bool
	// Remaining is the units left after the call. It is 0 when an aggregate
	// denied, whatever the key itself still has.
	Remaining int64
	// Wait is the time until the cost is affordable if nobody else spends; 0
	// when it was, and when it never will be.
	Wait time.Duration
	// Next is the time until Remaining grows by one; 0 when the bucket is full.
	Next time.Duration
}
