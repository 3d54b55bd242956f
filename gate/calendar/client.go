package calendar

import (
	"math/bits"
	"sync"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/hugepage"
)

// maxBookings is how many unredeemed bookings a believed identity may hold, and
// how many all the rest of a network may hold together.
const maxBookings = 16

// maxStrikes early arrivals make a client disobedient; a strike is forgotten
// strikeMemory seconds after the last one.
const (
	maxStrikes   = 3
	strikeMemory = 600
)

// record is what the calendar knows of a client, or of a network.
type record struct {
	next    int64               // Unix nanoseconds: where the client's next fair place begins
	struck  uint32              // Unix seconds of the last strike
	strikes uint32              // early arrivals since the last redeemed slot
	round   uint32              // the round in which it was last counted as asking
	kept    uint16              // of the last bookings, those whose operation came again
	lapsed  uint16              // and those that ended without it
	ends    [maxBookings]uint32 // Unix seconds at which each unredeemed booking ends; past = free
}

// bookings counts the unredeemed bookings, and gives a free place, -1 if none.
// There is no counter to leak: a booking that is never redeemed frees its place
// by its end.
func (r *record) bookings(sec int64) (n, free int) {
	free = -1
	for i, e := range r.ends {
		// An end beyond any horizon is of a clock that has stepped back since.
		if int64(e) >= sec && int64(e)-sec <= 2*farthest/1000 {
			n++
		} else {
			free = i
		}
	}
	return n, free
}

// redeem frees the place of a booking that ends at the given second.
func (r *record) redeem(end int64) {
	for i, e := range r.ends {
		if int64(e) == end {
			r.ends[i] = 0
			r.settle(&r.kept)
			return
		}
	}
}

// take puts a booking into a free place.
func (r *record) take(place int, end int64) {
	if r.ends[place] != 0 {
		r.settle(&r.lapsed)
	}
	r.ends[place] = seconds32(end)
}

// settle counts what became of a booking; the last ones weigh most.
func (r *record) settle(became *uint16) {
	if *became++; r.kept+r.lapsed == 4*maxBookings {
		r.kept, r.lapsed = r.kept/2, r.lapsed/2
	}
}

// crowding reports whether more originals of the client are likely to be repeats in
// disguise: it holds all the bookings that it may, and does not show most of them
// again. Whoever does has as many wishes as names, such as a partner who sells
// much.
func (r *record) crowding(sec int64) bool {
	n, _ := r.bookings(sec)
	return n >= maxBookings && r.kept <= r.lapsed
}

func (r *record) strike(sec int64) {
	if sec-int64(r.struck) > strikeMemory {
		r.strikes = 0
	}
	r.strikes = min(r.strikes+1, 1<<16)
	r.struck = seconds32(sec)
}

func (r *record) disobedient(sec int64) bool {
	return r.strikes >= maxStrikes && sec-int64(r.struck) <= strikeMemory
}

// seconds32 holds Unix seconds until 2106.
func seconds32(sec int64) uint32 { return uint32(min(max(sec, 0), 1<<32-1)) }

const lineRecords = 8

// clientLine keeps the keys together, and apart from the records, so that a
// look-up reads one or two cache lines, and then one record.
type clientLine struct {
	key    [lineRecords]uint64 // 0 = empty
	until  [lineRecords]uint32 // Unix seconds: after that the record says nothing
	_      [32]byte            // to the end of the cache line
	record [lineRecords]record
}

const clientLineBytes = 128 + lineRecords*(24+4*maxBookings)

// clientTable holds records in fixed memory, as dueTable does. A full
// line gives up the record that ends soonest.
type clientTable struct {
	shards [tableShards]struct {
		sync.Mutex
		_ [56]byte
	}
	lines   []clientLine
	perLock uint64
}

func newClientTable(bytes int) *clientTable {
	per := max(1, bytes/(tableShards*clientLineBytes))
	t := &clientTable{lines: make([]clientLine, per*tableShards), perLock: uint64(per)}
	hugepage.Advise(t.lines)
	return t
}

func (t *clientTable) lock(key uint64) *sync.Mutex {
	m := &t.shards[key%tableShards].Mutex
	m.Lock()
	return m
}

func (t *clientTable) line(key uint64) *clientLine {
	i, _ := bits.Mul64(key, t.perLock)
	return &t.lines[key%tableShards*t.perLock+i]
}

// find returns the record of a key, nil if there is none. Under lock.
func (t *clientTable) find(key uint64) *record {
	l := t.line(key)
	for i := range l.key {
		if l.key[i] == key {
			return &l.record[i]
		}
	}
	return nil
}

// open returns the record of a key, a fresh one if there is none, and keeps it at
// least until the given Unix second. Under lock.
func (t *clientTable) open(key uint64, until int64) *record {
	l := t.line(key)
	victim := 0
	for i := range l.key {
		if l.key[i] == key {
			l.until[i] = max(l.until[i], seconds32(until))
			return &l.record[i]
		}
		if l.until[i] < l.until[victim] { // empty places are of the year 1970
			victim = i
		}
	}
	l.key[victim], l.until[victim] = key, seconds32(until)
	l.record[victim] = record{}
	return &l.record[victim]
}

// side says in which of the two words, rings and tables something is counted.
type side int

const (
	believed side = iota // proven and verified identities
	others
	sides
)

func (s slot) side() side {
	if s.has(slotBelieved) {
		return believed
	}
	return others
}

// sideOf says where a client's new bookings go. Disobedience costs a class.
func sideOf(c *comporta.Client, disobedient bool) side {
	if c.Class.Believed() && !disobedient {
		return believed
	}
	return others
}

// holder is whose share a booking counts in: the identity itself if it is
// believed, else all that is claimed in its network.
func holder(c *comporta.Client, s side) uint64 {
	if s == believed || c.Network == 0 {
		return nonzero(c.Key)
	}
	return nonzero(c.Network)
}

func nonzero(key uint64) uint64 { return max(key, 1) }
