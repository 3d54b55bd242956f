package repeat

import (
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/comporta/comporta/internal/hash"
)

// DefaultBytes is the size of a table whose size was left open: four million
// sightings, of which one million from clients that proved nothing.
const DefaultBytes = 32 << 20

// The limits of a table's size. Below the lower one little would be left beside
// what the routes need; the upper one keeps a slot's number within a Ref.
const (
	MinBytes = 1 << 20
	MaxBytes = 4 << 30
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
func NewTable(bytes int) (*Table, error) {
	if bytes == 0 {
		bytes = DefaultBytes
	}
	if bytes < MinBytes || bytes > MaxBytes {
		return nil, fmt.Errorf("repeat: memory: %d bytes; set between %d and %d", bytes, MinBytes, MaxBytes)
	}
	return newTable((bytes - MaxRoutes*routeBytes) / lineBytes), nil
}

func newTable(lines int) *Table {
	n := uint32(lines) //nolint:gosec // NewTable bounds it far below 2^32
	q := max(n/4, 1)
	return &Table{
		seed:    hash.NewSeed(),
		quarter: part{0, q},
		rest:    part{q, n - q},
		lines:   make([]line, lines),
		routes:  make([]route, MaxRoutes),
	}
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
	b, _ := bits.Mul32(uint32(h>>32), p.count) //nolint:gosec // the upper half
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

// see files one sighting of name at a tick. Routes of an index that the table
// does not know have no say.
func (t *Table) see(name uint64, believed bool, routeIndex int, at, window uint64) sight {
	own, other := t.quarter, t.rest
	if believed {
		own, other = t.rest, t.quarter
	}
	mine, theirs, tag := own.pair(name), other.pair(name), tagOf(name)
	t.touch(mine, theirs)
	for {
		slot, was := t.find(mine, tag)
		foreign, fw := uint32(0), word(0)
		if was == 0 {
			if foreign, fw = t.find(theirs, tag); !fw.fresh(at, window) {
				fw = 0
			}
		}
		var s sight
		var done bool
		switch {
		case was != 0:
			s, done = t.renew(slot, was, routeIndex, at, window)
		case fw == 0:
			s, done = t.place(mine, newWord(tag, at), at, window)
		case believed:
			// The client has proved itself since: what is known of it moves out
			// of the reach of floods.
			if s, done = t.place(mine, t.next(fw, routeIndex, at), at, window); done {
				s.before = fw
				t.slot(foreign).CompareAndSwap(uint64(fw), 0)
			}
		default:
			// Proved once and no longer: it takes no second slot.
			s, done = t.renew(foreign, fw, routeIndex, at, window)
		}
		if done {
			return s
		}
	}
}

// touch loads the first slot of each line, so that the four cache misses of a
// look-up overlap instead of following one another.
func (t *Table) touch(p, q pair) {
	_ = t.lines[p.a][0].Load() // loads have no effect but the one wanted
	_ = t.lines[p.b][0].Load()
	_ = t.lines[q.a][0].Load()
	_ = t.lines[q.b][0].Load()
}

func (t *Table) slot(i uint32) *atomic.Uint64 { return &t.lines[i/lineSlots][i%lineSlots] }

// find returns the slot that holds tag, of whatever age, and its word; 0 if none does.
func (t *Table) find(p pair, tag uint64) (uint32, word) {
	for _, n := range [2]uint32{p.a, p.b} {
		l := &t.lines[n]
		for i := range l {
			if w := l[i].Load(); w>>tagShift == tag {
				return n*lineSlots + uint32(i), word(w)
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

// renew counts a further sighting in the slot that holds the earlier ones, or
// begins anew there if they are out of the window.
func (t *Table) renew(slot uint32, was word, routeIndex int, at, window uint64) (sight, bool) {
	before, after := word(0), newWord(was.tag(), at)
	if was.fresh(at, window) {
		before, after = was, t.next(was, routeIndex, at)
	}
	if !t.slot(slot).CompareAndSwap(uint64(was), uint64(after)) {
		return sight{}, false
	}
	return sight{before, after, refOf(slot, after)}, true
}

// place writes a word into the emptier of two lines, over its oldest slot.
func (t *Table) place(p pair, after word, at, window uint64) (sight, bool) {
	slot, was, lives := t.weakest(p.a, at, window)
	if slotB, wasB, livesB := t.weakest(p.b, at, window); livesB < lives ||
		livesB == lineSlots && lives == lineSlots && wasB.age(at, window) > was.age(at, window) {
		slot, was, lives = slotB, wasB, livesB
	}
	if !t.slot(slot).CompareAndSwap(uint64(was), uint64(after)) {
		return sight{}, false
	}
	if lives == lineSlots {
		t.evictions.Add(1)
	}
	return sight{0, after, refOf(slot, after)}, true
}

// weakest returns the slot of a line that is missed least, its word, and how
// many slots of the line are fresh. A free slot is missed least of all.
func (t *Table) weakest(n uint32, at, window uint64) (slot uint32, was word, lives int) {
	l := &t.lines[n]
	oldest, at8 := uint64(0), 0
	for i := range l {
		w := word(l[i].Load())
		age := uint64(tickMask + 1)
		if w != 0 {
			age = w.age(at, window)
		}
		if age < window {
			lives++
		}
		if age >= oldest {
			oldest, at8, was = age, i, w
		}
	}
	return n*lineSlots + uint32(at8), was, lives
}

// A Ref finds a sighting again: slot (29 bits), tag (27), attempt (8). It is
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
	if uint(routeIndex) < uint(len(t.routes)) { //nolint:gosec // a negative index becomes a large one
		t.routes[routeIndex].note(tag, at, failed)
	}
}

func (t *Table) healthy(routeIndex int, tag, since, at uint64) bool {
	return uint(routeIndex) < uint(len(t.routes)) && t.routes[routeIndex].healthy(tag, since, at) //nolint:gosec // as in note
}
