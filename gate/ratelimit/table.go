package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/comporta/comporta/internal/hash"
)

// The sizes of a table, in keys.
const (
	DefaultKeys = 1 << 18 // 11 MiB
	MinKeys     = 1 << 10
	MaxKeys     = 1 << 28
)

// bytesPerKey is two cells and three quarters. Strangers may not use the last
// cell of a line, so that a table with all its keys is then half full for them,
// and hardly any newcomer (a few in a million) finds no room.
const bytesPerKey = 44

const maxShards = 1 << 10

// MaxPolicies is how many policies one table tells apart. A rule makes up to five,
// and as many again to stand in for a store that is away.
const MaxPolicies = 1000

// Table is the memory of buckets: fixed in size, shared by all that is compiled
// over it, and meant to outlive reloads of the configuration. It implements
// Store, and is the store of every rule that names no other.
//
// A key whose bucket is full again equals a key that was never seen, so its cell
// is taken by the next that needs one, and nothing is lost. A key that is not
// full is never evicted. When the lines of a new key hold nothing but such keys,
// the key is not remembered: it shares one bucket with all others in that case,
// the policy's Unseen limit or else one bucket of the policy's own limit. So a
// flood of invented keys takes nothing from the keys that are known, and what of
// it finds no room gets together what one key may have.
//
// Keys are told apart by 54 bits of a hash with a random seed: among a million
// live keys of one policy, two share a bucket with a probability of 1 in 36,000.
//
// Memory: 44 bytes a key, once for limits and once more when there are quotas.
// Methods may be called from many goroutines.
type Table struct {
	seed    hash.Seed
	keys    int
	shards  []shard
	crowded atomic.Uint64

	prepare sync.Mutex // orders Prepare
	slots   map[string]*slot
}

// NewTable returns a table for a number of keys that are not full at the same
// time; 0 means DefaultKeys.
func NewTable(keys int) (*Table, error) {
	if keys == 0 {
		keys = DefaultKeys
	}
	if keys < MinKeys || keys > MaxKeys {
		return nil, fmt.Errorf("ratelimit: %d keys: set between %d and %d", keys, MinKeys, MaxKeys)
	}
	t := &Table{
		seed:   hash.NewSeed(),
		keys:   keys,
		shards: make([]shard, min(maxShards, 1<<(bits.Len(uint(keys))-7))),
		slots:  map[string]*slot{},
	}
	t.grow(rates)
	return t, nil
}

// grow gives every shard its lines of a family. All lines are one allocation.
func (t *Table) grow(family uint8) {
	if t.shards[0].lines[family] != nil {
		return
	}
	n := t.keys * bytesPerKey / lineBytes / len(t.shards)
	all := make([]line, n*len(t.shards))
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.lines[family] = all[i*n : (i+1)*n : (i+1)*n]
		s.mu.Unlock()
	}
}

// Bytes is the memory that the table holds, whatever it is asked to remember.
func (t *Table) Bytes() int {
	n := len(t.shards) * int(unsafe.Sizeof(shard{}))
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += (len(s.lines[rates]) + len(s.lines[quotas])) * lineBytes
		s.mu.Unlock()
	}
	return n
}

// Crowded counts requests whose keys found no room. While it grows, the table is
// too small for what it sees.
func (t *Table) Crowded() uint64 { return t.crowded.Load() }

// Faults of a call. A Store returns them as they are.
var (
	ErrNegativeCost = errors.New("ratelimit: cost is negative: give units back by a refund")
	ErrUnprepared   = errors.New("ratelimit: policy was not prepared by this store")
)

// shardOf uses bits that neither the slot nor the lines depend on much.
func (t *Table) shardOf(name uint64) uint32 { return uint32(name>>slotBits) & uint32(len(t.shards)-1) }

// name of a key under a policy.
func (p *Policy) nameOf(key []byte) uint64 {
	return p.start.Bytes(key).Name()&^slotMask | uint64(p.slot.number)
}

func (p *Policy) nameOfString(key string) uint64 {
	return p.start.Str(key).Name()&^slotMask | uint64(p.slot.number)
}

// Take implements Store. It allocates nothing for up to eight debits, never
// blocks on anything but other decisions, and returns an error only for a fault
// of the caller.
func (t *Table) Take(_ context.Context, now time.Time, debits []Debit, results []Result) (bool, error) {
	if err := t.check(debits, results); err != nil {
		return false, err
	}
	at := stampOf(now)
	if len(debits) == 1 {
		d := &debits[0]
		r, ok := t.takeOne(at, d.Policy, d.Policy.nameOf(d.Key), d.Cost, d.Believed)
		results[0] = r
		return ok, nil
	}
	var few [8]pending
	todo := few[:0]
	if len(debits) > len(few) {
		todo = make([]pending, 0, len(debits))
	}
	for i := range debits {
		d := &debits[i]
		todo = append(todo, pending{policy: d.Policy, name: d.Policy.nameOf(d.Key), cost: d.Cost, believed: d.Believed})
	}
	return t.takeAll(at, todo, results), nil
}

func (t *Table) check(debits []Debit, results []Result) error {
	if len(results) < len(debits) {
		return fmt.Errorf("ratelimit: room for %d results of %d debits", len(results), len(debits))
	}
	for i := range debits {
		if debits[i].Cost < 0 {
			return ErrNegativeCost
		}
		if p := debits[i].Policy; p == nil || p.table != t {
			return ErrUnprepared
		}
	}
	return nil
}

// takeOne is the whole decision on one key.
func (t *Table) takeOne(now stamp, p *Policy, name uint64, n int64, believed bool) (Result, bool) {
	if n > p.Units() || p.Units() == 0 {
		return t.never(now, p, name, n)
	}
	s := &t.shards[t.shardOf(name)]
	s.mu.Lock()
	lines := s.lines[p.family]
	where := pairOf(lines, name)
	c := where.find(name)
	var was uint64
	if c != nil {
		was = c.word
	}
	j := p.judge(now, was, n)
	if floor := dead(p.family, now); n > 0 && was < floor {
		// A key that is not held: who stands behind it may have invented it.
		if c == nil {
			c = where.room(lines, believed, floor)
		}
		if c == nil || !believed && !p.Unseen.none() {
			if r, ok := t.takeUnseen(now, p, j, n, c == nil); !r.Allowed || c == nil {
				s.mu.Unlock()
				return r, ok
			}
		}
	}
	state := j.kept
	switch {
	case j.wait == 0:
		state = j.after
	case p.Penalty && n > 0:
		state = p.charge(now, was, n)
	}
	if c != nil && n > 0 {
		c.name, c.word = name, state
	}
	s.mu.Unlock()
	return p.result(now, state, j.wait), j.wait == 0 || p.deny(n)
}

// takeUnseen judges a key that is not held by the bucket of all such keys. With
// crowded its own state will be forgotten.
func (t *Table) takeUnseen(now stamp, p *Policy, j judgement, n int64, crowded bool) (Result, bool) {
	if crowded {
		t.crowded.Add(1)
		p.slot.crowded.Add(1)
	}
	wait, ok := p.takeAggregate(now, n)
	if !ok {
		return Result{Wait: wait, Next: wait}, p.deny(n)
	}
	return p.result(now, j.after, j.wait), true
}

// never answers a cost that no waiting makes affordable.
func (t *Table) never(now stamp, p *Policy, name uint64, n int64) (Result, bool) {
	s := &t.shards[t.shardOf(name)]
	s.mu.Lock()
	var was uint64
	if c := pairOf(s.lines[p.family], name).find(name); c != nil {
		was = c.word
	}
	s.mu.Unlock()
	r := Result{Never: true}
	r.Remaining, r.Next = p.report(now, was)
	return r, p.deny(n)
}

// deny counts a denial, unless somebody only peeked, and reports whether the
// request goes on all the same.
func (p *Policy) deny(n int64) bool {
	switch {
	case n == 0:
	case p.Shadow:
		p.slot.shadowed.Add(1)
	default:
		p.slot.denied.Add(1)
	}
	return p.Shadow
}

func (p *Policy) result(now stamp, state uint64, wait time.Duration) Result {
	r := Result{Allowed: wait == 0, Wait: wait}
	r.Remaining, r.Next = p.report(now, state)
	return r
}
