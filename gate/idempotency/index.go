package idempotency

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/comporta/comporta/store"
)

// index says which keys are finished, in memory that does not grow: a hint that
// saves the store from being asked about every new key. What it forgets costs the
// repeat a permit, and what it holds in error costs one look-up; nothing is
// decided by it.
type index struct {
	start time.Time
	mu    [indexLocks]sync.Mutex
	sets  [][indexWays]entry // set i is guarded by mu[i%indexLocks]
	mask  uint64
}

// entry is a finished key. An entry of ends 0 is free.
type entry struct {
	tag  uint32
	ends uint32 // seconds since start, rounded up
}

const (
	indexWays  = 8
	indexLocks = 64
	maxEnds    = 1<<32 - 1
)

// newIndex returns an index of at least size entries of 8 bytes.
func newIndex(now time.Time, size int) *index {
	sets := 1
	for sets*indexWays < size {
		sets *= 2
	}
	return &index{start: now, sets: make([][indexWays]entry, sets), mask: uint64(sets - 1)}
}

// place finds a name's set. Names are keyed hashes, so any bits of them will do.
func (x *index) place(n *store.Name) (set uint64, tag uint32) {
	return binary.LittleEndian.Uint64(n[:]) & x.mask, binary.LittleEndian.Uint32(n[8:])
}

func (x *index) seconds(t time.Time) uint32 {
	d := t.Sub(x.start)
	if d <= 0 {
		return 0
	}
	return uint32(min(int64((d+time.Second-1)/time.Second), maxEnds))
}

// addAt adds a key that is finished until ends. In a full set it replaces the one
// that ends first.
func (x *index) addAt(now time.Time, n *store.Name, ends time.Time) {
	at, until := x.seconds(now), x.seconds(ends)
	if until == 0 {
		return
	}
	i, tag := x.place(n)
	mu := &x.mu[i%indexLocks]
	mu.Lock()
	defer mu.Unlock()
	set := &x.sets[i]
	victim := 0
	for j := range set {
		e := &set[j]
		if e.tag == tag && e.ends != 0 {
			e.ends = until
			return
		}
		if e.ends <= at {
			e.ends = 0 // over: as good as free
		}
		if e.ends < set[victim].ends {
			victim = j
		}
	}
	set[victim] = entry{tag, until}
}

// hasAt reports whether a key may be finished.
func (x *index) hasAt(now time.Time, n *store.Name) bool {
	at := x.seconds(now)
	i, tag := x.place(n)
	mu := &x.mu[i%indexLocks]
	mu.Lock()
	defer mu.Unlock()
	for j := range x.sets[i] {
		if e := &x.sets[i][j]; e.tag == tag && e.ends > at {
			return true
		}
	}
	return false
}

// remove forgets a key that was found not to be finished.
func (x *index) remove(n *store.Name) {
	i, tag := x.place(n)
	mu := &x.mu[i%indexLocks]
	mu.Lock()
	defer mu.Unlock()
	for j := range x.sets[i] {
		if e := &x.sets[i][j]; e.tag == tag {
			*e = entry{}
		}
	}
}
