package redislimit

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// entry is what this node knows of one key. Instants are microseconds by the
// clock of the callers.
type entry struct {
	meter *meter
	wire  name  // in Redis
	full  int64 // when the bucket would be full by the last answer
	part  int64 // and ticks after that, less than a microsecond
	asked int64 // when that answer was asked for; 0: never
	warm  int64 // until then Redis judges, and no allowance is given
	since int64 // of the first unit of debt
	seen  int64
	debt  int64 // units granted here that Redis has not heard of
	lease int64 // units that Redis has counted and nobody has spent
	until int64 // end of the lease
	want  int64 // size of the last lease that was asked for
	// asking is how many questions are under way; the entry stays while it is not 0.
	asking int32
	listed bool // in shard.due
	once   bool // touched once, by a caller who is not believed
}

// ways is how many places a key has. Their names fill one cache line.
const ways = 8

// shard is a part of the memory under one lock.
type shard struct {
	mu      sync.Mutex
	names   []uint64 // 0: free
	entries []entry
	due     []uint32 // entries that owe Redis something: a lease, or a report
	_       [40]byte // keeps two locks off one cache line
}

// memory is the node's knowledge of keys, in fixed space.
type memory struct {
	shards    []shard
	period    int64         // T in microseconds
	forgotten atomic.Uint64 // units of debt that were never reported
	strangers strangers
}

const shards = 64

func newMemory(keys int, period int64) *memory {
	each := 1 << bits.Len(uint((keys-1)/shards)) // the next power of two
	m := &memory{shards: make([]shard, shards), period: period}
	for i := range m.shards {
		s := &m.shards[i]
		s.names, s.entries = make([]uint64, each), make([]entry, each)
		s.due = make([]uint32, 0, each)
	}
	return m
}

func (m *memory) shard(name uint64) *shard { return &m.shards[name>>58] }

// find returns the entry of a name, or nil. The shard is locked.
func (s *shard) find(name uint64) *entry {
	from := int(name) & (len(s.names) - 1) &^ (ways - 1)
	for i, held := range s.names[from : from+ways] {
		if held == name {
			return &s.entries[from+i]
		}
	}
	return nil
}

// admit makes an entry for a new name, in the place of the one whose loss matters
// least, or returns nil when all of them are needed.
//
// For a caller who is believed no unit is forgotten and no denial: Redis decides
// on its key each time, as long as there is no room. Strangers could invent keys
// that lean on Redis so; in a set that is full of others' debts theirs take the
// place of one.
func (m *memory) admit(s *shard, now int64, name uint64, believed bool) *entry {
	from := int(name) & (len(s.names) - 1) &^ (ways - 1)
	best, least, oldest := -1, pinned, int64(0)
	for i := from; i < from+ways; i++ {
		e := &s.entries[i]
		worth := free
		if s.names[i] != 0 {
			worth = e.worth(now, m.period)
		}
		if believed && (worth == cold || worth == denying) {
			continue
		}
		if worth < least || worth == least && worth != pinned && e.seen < oldest {
			best, least, oldest = i, worth, e.seen
		}
	}
	if best < 0 {
		return nil
	}
	e := &s.entries[best]
	if s.names[best] != 0 {
		m.forgotten.Add(uint64(e.owes(now, m.period)))
	}
	*e = entry{listed: e.listed} // a listed place stays listed, whoever is in it
	s.names[best] = name
	return e
}

// What an entry is worth, from least to most.
const (
	free    = iota
	idle    // equals absence
	single  // seen once, by whom nobody knows
	cold    // owes a report
	known   // spares a question
	denying // keeps a key out that has nothing left
	pinned  // holds a lease, or a question is under way
)

func (e *entry) worth(now, period int64) int {
	owes := e.owes(now, period)
	switch {
	case e.asking > 0 || e.lease > 0:
		return pinned
	case e.asked != 0 && e.meter.lacks(e.known(now), 1) > 0:
		return denying
	case now < e.warm:
		return known
	case owes == 0:
		return idle
	case e.once:
		return single
	}
	return cold
}

// known is the debt of the key by the last answer, in ticks.
func (e *entry) known(now int64) int64 {
	if e.full < now {
		return 0
	}
	// Bounded, so that a clock that stepped far back overflows nothing.
	return min(e.full-now, 4*e.meter.micros(e.meter.window))*e.meter.scale + e.part
}

// owes is the units to report. They are reported within a period or two; where
// that was not possible, what was regained since is not charged any more.
func (e *entry) owes(now, period int64) int64 {
	age := now - e.since
	switch {
	case e.debt == 0 || age <= 2*period && age >= -clockSlack:
		return e.debt
	case age < 0:
		return 0
	}
	return max(e.debt-int64(e.meter.rate*float64(age)), 0)
}

// age drops from the debt what was regained since.
func (m *memory) age(now, period int64, e *entry) {
	if owes := e.owes(now, period); owes != e.debt {
		m.forgotten.Add(uint64(e.debt - owes))
		e.debt = owes
	}
}

// clockSlack is how far back a clock may step before what was noted is held to
// be from another time, in microseconds.
const clockSlack = 10_000_000

// list puts the entry on the list of those that owe something.
func (s *shard) list(name uint64, e *entry) {
	if e.listed {
		return
	}
	from := int(name) & (len(s.names) - 1) &^ (ways - 1)
	for i := from; i < from+ways; i++ {
		if &s.entries[i] == e {
			e.listed = true
			s.due = append(s.due, uint32(i))
			return
		}
	}
}

// maxStrangers is how many keys a period may bring of which nothing is known and
// which are not believed. What they use once is reported like everything else;
// but when there are more, somebody invents them, and Redis hears of none that
// does not come back.
const maxStrangers = 1024

// strangers counts them.
type strangers struct {
	number atomic.Int64 // of the period
	count  atomic.Int64
	flood  atomic.Bool // the period before had too many
}

// admit counts one and reports whether what it uses is to be reported.
func (s *strangers) admit(now, period int64) bool {
	number := now / period
	was := s.number.Load()
	// Callers read their clocks a little before they come here: who is late by a
	// period does not begin the one before anew, which would end the flood.
	if since := number - was; (since > 0 || since < -2) && s.number.CompareAndSwap(was, number) {
		s.flood.Store(s.count.Swap(0) > maxStrangers && since > 0 && since <= 2)
	}
	return s.count.Add(1) <= maxStrangers && !s.flood.Load()
}
