package calendar

import (
	"math/bits"
	"sync"

	"github.com/comporta/comporta/internal/hugepage"
)

// slot is an instant that was given to an operation.
type slot struct {
	due     int64 // Unix milliseconds; 42 bits last until 2109
	window  int64 // seconds after due for which it is good; 14 bits
	attempt int   // the attempt that was refused, 1 = the first, saturating; 4 bits
	flags   uint64
}

const (
	slotBelieved = 1 << iota // booked among the believed
	slotAged                 // an earlier instant of the operation ended in a refusal
	slotPlain                // over the client's share: no place was taken
	slotSpent                // shown at its instant, or entered before it

	maxAttempt = 1<<4 - 1
	maxWindow  = 1<<14 - 1
	maxDue     = 1<<42 - 1
)

func (s slot) pack() uint64 {
	due := min(max(s.due, 0), maxDue)
	return uint64(due)<<22 | uint64(s.window)<<8 | uint64(s.attempt)<<4 | s.flags
}

func unpack(w uint64) slot {
	return slot{
		due:     int64(w >> 22),
		window:  int64(w>>8) & maxWindow,
		attempt: int(w>>4) & maxAttempt,
		flags:   w & 0xf,
	}
}

// farthest is how far ahead an instant can be, in milliseconds. What lies beyond
// was given before the clock stepped back, or by a gateway whose clock is wrong.
const farthest = int64(MaxHorizon/1e6) + 60_000

func (s slot) ends() int64 { return s.due + s.window*1000 }

// live says whether a slot is still to be honoured. now is in Unix milliseconds.
func (s slot) live(now int64) bool { return now <= s.ends() && s.due-now <= farthest }

func (s slot) has(flag uint64) bool { return s.flags&flag != 0 }

// rank orders what may push out what: a plain instant costs its owner little, an
// invented client must not push out a believed one, and a spent slot stays as
// long as its ticket could be shown again.
func (s slot) rank() int {
	switch {
	case s.has(slotSpent), s.has(slotBelieved) && !s.has(slotPlain):
		return 2
	case s.has(slotPlain):
		return 0
	}
	return 1
}

const (
	tableShards = 256 // fixed: a table that changes its locks would need a lock for that
	lineSlots   = 16
)

// dueTable finds the slot of an operation. It has fixed memory: each operation
// lies in one line of 16, and what does not fit is given up by rank and then by
// latest due. Ages are in the slots, so nothing sweeps.
//
// One wide line instead of the choice between two: it is one place in memory, and
// what a nearly full table gives up sooner is not lost, since its ticket holds.
type dueTable struct {
	shards [tableShards]struct {
		sync.Mutex
		_ [56]byte // a cache line each
	}
	lines   []dueLine
	perLock uint64 // lines of a shard
}

// dueLine keeps the names together, in two neighbouring cache lines. 0 is an empty
// place.
type dueLine struct {
	op   [lineSlots]uint64
	word [lineSlots]uint64
}

const dueLineBytes = 2 * lineSlots * 8

func newDueTable(bytes int) *dueTable {
	per := max(1, bytes/(tableShards*dueLineBytes))
	t := &dueTable{lines: make([]dueLine, per*tableShards), perLock: uint64(per)}
	hugepage.Advise(t.lines)
	return t
}

// lock locks the shard of an operation. The other methods are called under it.
func (t *dueTable) lock(op uint64) *sync.Mutex {
	m := &t.shards[op%tableShards].Mutex
	m.Lock()
	return m
}

func (t *dueTable) line(op uint64) *dueLine {
	// The shard is of the low bits, the line of the high ones.
	i, _ := bits.Mul64(op, t.perLock)
	return &t.lines[op%tableShards*t.perLock+i]
}

// find returns the live slot of an operation.
func (t *dueTable) find(op uint64, now int64) (slot, bool) {
	l := t.line(op)
	for i := range l.op {
		if l.op[i] == op {
			s := unpack(l.word[i])
			return s, s.live(now)
		}
	}
	return slot{}, false
}

// put files a slot, in the place of the operation's former one if there is one.
// evicted says that a live slot was lost to it, or that the new one found no place.
func (t *dueTable) put(op uint64, s slot, now int64) (evicted bool) {
	l := t.line(op)
	place := -1
	worst := victimRank{rank: s.rank(), due: -1} // it gives way to none of a higher rank
	for i := range l.op {
		if l.op[i] == op {
			l.word[i] = s.pack()
			return false
		}
		r := victimRank{rank: -1} // empty or dead
		if l.op[i] != 0 {
			if old := unpack(l.word[i]); old.live(now) {
				r = victimRank{old.rank(), old.due}
			}
		}
		if r.before(worst) {
			place, worst = i, r
		}
	}
	if place < 0 {
		return true
	}
	l.op[place], l.word[place] = op, s.pack()
	return worst.rank >= 0
}

type victimRank struct {
	rank int
	due  int64
}

// before orders victims: the lowest rank first, then the latest due.
func (v victimRank) before(o victimRank) bool {
	if v.rank != o.rank {
		return v.rank < o.rank
	}
	return v.due > o.due
}
