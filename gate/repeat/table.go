package repeat

import (
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/comporta/comporta/internal/hash"
	"github.com/comporta/comporta/internal/hugepage"
	"github.com/comporta/comporta/internal/prefetch"
)

// DefaultBytes is the size of a table whose size was left open: four million
// sightings, of which one million from clients that proved nothing.
const DefaultBytes = 32 << 20

// The limits of a table's size. Below the lower one little would be left beside
// what the routes need; the upper one keeps a slot's number within a Ref.
const (
	MinBytes = 1 << 20
	MaxBytes = 1 << 30
)

const (
	lineSlots  = 8
	lineBytes  = lineSlots * 8
	routeBytes = routeCells * 8
)

// line is one cache line of slots. The lines of a table form one large
// allocation, which the runtime aligns to its pages.
type line [lineSlots]atomic.Uint64

// Table is the memory of sightings: fixed in size, shared by all detectors
// compiled over it, and meant to outlive reloads of the configuration.
//
// A fingerprint has two lines to live in and takes the emptier one (two-choice
// hashing: Azar, Broder, Karlin, Upfal, "Balanced Allocations", 1994), so that
// lines fill evenly and hardly anything is lost before nine slots in ten are
// taken. Age is in the slot: an old one is as good as free, and nothing sweeps.
//
// A quarter of the lines belongs to clients that proved nothing. They file
// there only, so that a flood of invented requests cannot push out what is known
// of the others; look-ups read both parts, because a client may prove itself
// between two tries.
//
// Methods may be called from many goroutines; none of them blocks.
type Table struct {
	seed      hash.Seed
	quarter   part // of clients that proved nothing
	rest      part // of the believed
	lines     []line
	routes    []route
	evictions atomic.Uint64
}

// part is a run of lines.
type part struct{ first, count uint32 }

// pair is the two lines of a fingerprint in a part.
type pair struct{ a, b uint32 }

// NewTable returns a table of the given size in bytes, routes included; 0 means
// DefaultBytes.
func NewTable(bytes int) (*Table, error) { return NewTableFrom(bytes, hash.NewSeed()) }

// NewTableFrom is NewTable with names made of a seed, for simulations that must
// repeat themselves.
func NewTableFrom(bytes int, seed hash.Seed) (*Table, error) {
	if bytes == 0 {
		bytes = DefaultBytes
	}
	if bytes < MinBytes || bytes > MaxBytes {
		return nil, fmt.Errorf("repeat: memory: %d bytes; set between %d and %d", bytes, MinBytes, MaxBytes)
	}
	return newTable((bytes-MaxRoutes*routeBytes)/lineBytes, seed), nil
}

func newTable(lines int, seed hash.Seed) *Table {
	n := uint32(lines)
	q := max(n/4, 1)
	t := &Table{
		seed:    seed,
		quarter: part{0, q},
		rest:    part{q, n - q},
		lines:   make([]line, lines),
		routes:  make([]route, MaxRoutes),
	}
	hugepage.Advise(t.lines)
	return t
}

// Bytes is the memory that the table holds, whatever it is asked to remember.
func (t *Table) Bytes() int { return len(t.lines)*lineBytes + len(t.routes)*routeBytes }

// Evictions counts sightings that were forgotten within their window because
// their lines were full. Each may hide one repeat.
func (t *Table) Evictions() uint64 { return t.evictions.Load() }

// pair finds the lines of a name: two numbers drawn from all its bits, of which
// the tag is but a few.
func (p part) pair(name uint64) pair {
	h := name * 0x9fb21c651e98df25
	a, _ := bits.Mul32(uint32(name>>32), p.count)
	b, _ := bits.Mul32(uint32(h>>32), p.count)
	return pair{p.first + a, p.first + b}
}

func tagOf(name uint64) uint64 {
	if tag := name & (1<<tagBits - 1); tag != 0 {
		return tag
	}
	return 1
}

// sight is what filing found and left: before is 0 when nothing was known.
type sight struct {
	before, after word
	ref           uint64
}

// see files one sighting of name. Routes of an index that the table
// does not know have no say.
func (t *Table) see(name uint64, believed bool, routeIndex int, m moment) sight {
	mine, theirs := t.rest.pair(name), t.quarter.pair(name)
	if !believed {
		mine, theirs = theirs, mine
	}
	tag := tagOf(name)
	for {
		slot, was := t.find(mine, tag)
		known, elsewhere, evicts := was, noSlot, false
		// The client may have been believed less, or more, when it last asked. A
		// success settles the matter; before worse is said, both parts are read.
		if !m.fresh(was) || was.state() != stateSuccess {
			if other, w := t.find(theirs, tag); m.newer(w, was) {
				known, elsewhere = w, other
			}
		}
		if was == 0 {
			slot, was = t.weakest(mine, m)
			evicts = m.fresh(was)
		}
		filed := sight{after: newWord(tag, m.at)}
		if m.fresh(known) {
			filed = sight{before: known, after: t.next(known, routeIndex, m.at)}
		}
		if !t.slot(slot).CompareAndSwap(uint64(was), uint64(filed.after)) {
			continue // somebody else was here: look again
		}
		if evicts {
			t.evictions.Add(1)
		}
		if believed && elsewhere != noSlot {
			// It has proved itself since: one slot is enough. The other way round
			// the slot stays, for the unproven never write among the believed.
			t.slot(elsewhere).CompareAndSwap(uint64(known), 0)
		}
		filed.ref = refOf(slot, filed.after)
		return filed
	}
}

const noSlot = ^uint32(0)

// prepare has the four lines of name fetched, so that the misses overlap instead
// of following one another.
func (t *Table) prepare(name uint64) {
	p, q := t.rest.pair(name), t.quarter.pair(name)
	prefetch.Four(&t.lines[p.a], &t.lines[p.b], &t.lines[q.a], &t.lines[q.b])
}

func (t *Table) slot(i uint32) *atomic.Uint64 { return &t.lines[i/lineSlots][i%lineSlots] }

// find returns the slot that holds tag, of whatever age, and its word; 0 if none does.
func (t *Table) find(p pair, tag uint64) (uint32, word) {
	for _, n := range [2]uint32{p.a, p.b} {
		l := &t.lines[n]
		for i := range l {
			if w := word(l[i].Load()); w.tag() == tag {
				return n*lineSlots + uint32(i), w
			}
		}
	}
	return 0, 0
}

// next is the word of a fresh sighting's successor.
func (t *Table) next(was word, routeIndex int, at uint64) word {
	confirmed := was.state() == stateAnswered && was.code().fault() && t.healthy(routeIndex, was.tag(), was.tick(), at)
	return was.again(at, confirmed)
}

// weakest returns the slot in two lines that is missed least, and its word: the
// oldest of the emptier line.
func (t *Table) weakest(p pair, m moment) (uint32, word) {
	for {
		n := p.a
		oldest, fresh := t.lines[p.a].weakest(m)
		if o, f := t.lines[p.b].weakest(m); f < fresh || f == lineSlots && o > oldest {
			n, oldest = p.b, o
		}
		slot := n*lineSlots + uint32(oldest%lineSlots)
		if w := word(t.slot(slot).Load()); m.rank(w) == oldest/lineSlots {
			return slot, w
		} // else somebody took it meanwhile
	}
}

// weakest returns the highest rank among the line's slots, times eight, plus the
// slot's index; and the number of fresh slots. There are no branches in it,
// because nobody could predict them.
func (l *line) weakest(m moment) (oldest, fresh uint64) {
	for i := range l {
		rank := m.rank(word(l[i].Load()))
		oldest = max(oldest, rank*lineSlots+uint64(i))
		fresh += (rank - 2*m.window) >> 63
	}
	return oldest, fresh
}

// A Ref finds a sighting again: slot (27 bits), tag (27), attempt (8). It is
// never 0, because attempts count from 1.
const refSlotShift = tagBits + attemptBits

func refOf(slot uint32, w word) uint64 {
	return uint64(slot)<<refSlotShift | w.tag()<<attemptBits | w.attempts()
}

func refTag(ref uint64) uint64 { return ref >> attemptBits & (1<<tagBits - 1) }

// resolve writes an outcome into the slot of ref and returns its word; 0 when
// the slot holds another fingerprint by now.
func (t *Table) resolve(ref uint64, end ending, at uint64) word {
	slot, tag, attempt := ref>>refSlotShift, refTag(ref), ref&maxAttempts
	if slot >= uint64(len(t.lines))*lineSlots {
		return 0 // of another table: its size was changed meanwhile
	}
	cell := t.slot(uint32(slot))
	for {
		was := word(cell.Load())
		if was.tag() != tag {
			return 0
		}
		now := was.resolved(at, attempt, end)
		if now == was || cell.CompareAndSwap(uint64(was), uint64(now)) {
			return now
		}
	}
}

// note remembers an ending for the judgement of other requests of its route.
func (t *Table) note(routeIndex int, tag, at uint64, failed bool) {
	if uint(routeIndex) < uint(len(t.routes)) {
		t.routes[routeIndex].note(tag, at, failed)
	}
}

func (t *Table) healthy(routeIndex int, tag, since, at uint64) bool {
	return uint(routeIndex) < uint(len(t.routes)) && t.routes[routeIndex].healthy(tag, since, at)
}
