package budget

import "sync/atomic"

// token is one token in the unit in which buckets count: millionths, so that
// tenths add up exactly.
const token = 1_000_000

// terms are what all buckets of a client go by.
type terms struct {
	full   int64 // the most that a bucket holds
	earned int64 // what a first-try success puts back
}

// Bucket is the budget of one destination. It comes from [Budgets.Of]; its
// methods may be called from many goroutines and do not allocate.
type Bucket struct {
	terms *atomic.Pointer[terms]
	level atomic.Int64 // within [0, full], but for the moment after full was lowered
}

// Withdraw takes the token of a repeat, before it waits. False means that there
// is none: the repeat must not be made.
func (b *Bucket) Withdraw() bool {
	full := b.terms.Load().full
	for {
		level := b.level.Load()
		usable := min(level, full)
		if usable < token {
			return false
		}
		if b.level.CompareAndSwap(level, usable-token) {
			return true
		}
	}
}

// Deposit puts back what a call earns by succeeding at its first try.
func (b *Bucket) Deposit() { b.put(b.terms.Load().earned) }

// Refund puts back the token of a repeat that succeeded, or never went out.
func (b *Bucket) Refund() { b.put(token) }

// Level returns the number of tokens.
func (b *Bucket) Level() float64 {
	return float64(min(b.level.Load(), b.terms.Load().full)) / token
}

func (b *Bucket) put(n int64) {
	full := b.terms.Load().full
	for {
		level := b.level.Load()
		if level == full { // the usual case costs a read and no write, which cores would share
			return
		}
		if b.level.CompareAndSwap(level, min(level+n, full)) {
			return
		}
	}
}

func (b *Bucket) full() bool { return b.level.Load() >= b.terms.Load().full }
