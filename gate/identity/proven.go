package identity

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta/internal/hugepage"
	"github.com/comporta/comporta/internal/prefetch"
)

// Proven remembers for a day which keys the service has honoured, in fixed
// memory. It outlives every reload: old and new Identifier share it.
//
// It is a table of lines of one cache line each; a key may stand in two of them
// (two-choice hashing). Age is in the slot, so nothing sweeps; where both lines
// are full, the oldest key makes room, which can only cost a client its rank
// until the service answers it again. Reads and writes are lock-free.
//
// A nil *Proven is valid and holds nothing. All methods may be called from many
// goroutines.
type Proven struct {
	lines   []line
	evicted atomic.Uint64
}

// line is one cache line of slots. A slot is the low 40 bits of the key above 24
// bits of the minute in which it was last proven; 0 is empty. The key's other
// bits choose the line, so that a false match takes some 2^36 tries with keys
// that nobody outside can choose.
type line [8]atomic.Uint64

const (
	lineBytes     = 64
	minuteBits    = 24
	minuteMask    = 1<<minuteBits - 1 // wraps after 31 years
	provenMinutes = 24 * 60
	provenDefault = 2 << 20
)

// NewProven returns a table of at most the given bytes, eight of them a key. 0
// means 2 MiB, a quarter of a million keys; less than 4 KiB is taken as 4 KiB.
func NewProven(bytes int) *Proven {
	if bytes == 0 {
		bytes = provenDefault
	}
	p := &Proven{lines: make([]line, max(bytes, 4096)/lineBytes)}
	hugepage.Advise(p.lines)
	return p
}

// Bytes returns the memory of the table, which never changes.
func (p *Proven) Bytes() int {
	if p == nil {
		return 0
	}
	return len(p.lines) * lineBytes
}

// Evicted returns how many keys made room for others before their day was over.
func (p *Proven) Evicted() uint64 {
	if p == nil {
		return 0
	}
	return p.evicted.Load()
}

// ProveAt remembers key until a day after now, to the minute.
func (p *Proven) ProveAt(now time.Time, key uint64) {
	if p == nil {
		return
	}
	tag, minute := slotOf(now, key)
	a, b := p.places(key)
	if a.holds(tag|minute) || b.holds(tag|minute) {
		return // the usual case: proven this minute, nothing to write
	}
	// A lost race means that another goroutine has just written here; four tries
	// are enough, and giving up costs one proof of many.
	for range 4 {
		slot, was := victim(a, b, tag, minute)
		if was == tag|minute {
			return // another goroutine was faster
		}
		if !slot.CompareAndSwap(was, tag|minute) {
			continue
		}
		if was != 0 && was&^minuteMask != tag && fresh(was, minute) {
			p.evicted.Add(1)
		}
		return
	}
}

// prepare has the two lines of key fetched.
func (p *Proven) prepare(key uint64) {
	if p == nil {
		return
	}
	a, b := p.places(key)
	prefetch.Line(a)
	prefetch.Line(b)
}

func (l *line) holds(slot uint64) bool {
	for i := range l {
		if l[i].Load() == slot {
			return true
		}
	}
	return false
}

// ProvenAt reports whether key was proven within a day before now. After a
// clock has stepped back, a key of the future counts as proven just now.
func (p *Proven) ProvenAt(now time.Time, key uint64) bool {
	if p == nil {
		return false
	}
	tag, minute := slotOf(now, key)
	a, b := p.places(key)
	for i := range a {
		if s := a[i].Load(); s&^minuteMask == tag && fresh(s, minute) {
			return true
		}
	}
	for i := range b {
		if s := b[i].Load(); s&^minuteMask == tag && fresh(s, minute) {
			return true
		}
	}
	return false
}

// Forget takes the proof of key away, such as after its credential was revoked.
func (p *Proven) Forget(key uint64) {
	if p == nil {
		return
	}
	tag, _ := slotOf(time.Time{}, key)
	a, b := p.places(key)
	for _, l := range [2]*line{a, b} {
		for i := range l {
			if s := l[i].Load(); s != 0 && s&^minuteMask == tag {
				l[i].CompareAndSwap(s, 0) // lost: proven again at this moment
			}
		}
	}
}

// places returns the two lines of a key; they may be one.
func (p *Proven) places(key uint64) (a, b *line) {
	n := uint64(len(p.lines))
	i, _ := bits.Mul64(key, n)
	j, _ := bits.Mul64(bits.RotateLeft64(key, 32)*0x9e3779b97f4a7c15, n)
	return &p.lines[i], &p.lines[j]
}

// slotOf returns both halves of the slot that says that key was proven now.
func slotOf(now time.Time, key uint64) (tag, minute uint64) {
	if tag = key << minuteBits; tag == 0 {
		tag = 1 << minuteBits // 0 is the empty slot
	}
	return tag, uint64(now.Unix()/60) & minuteMask
}

// age returns the minutes from slot to minute; slots of the future have none.
func age(slot, minute uint64) uint64 {
	if a := (minute - slot) & minuteMask; a <= minuteMask/2 {
		return a
	}
	return 0
}

func fresh(slot, minute uint64) bool { return age(slot, minute) <= provenMinutes }

// victim returns the slot into which a key goes: its own, else a free one of the
// emptier line, else the oldest of both.
func victim(a, b *line, tag, minute uint64) (slot *atomic.Uint64, was uint64) {
	x, y := a.scan(tag, minute), b.scan(tag, minute)
	if y.own && !x.own || y.own == x.own && (y.free > x.free || y.free == x.free && y.rank > x.rank) {
		x = y
	}
	return x.slot, x.was
}

// place is where in one line a key would go.
type place struct {
	slot *atomic.Uint64
	was  uint64 // what stands there
	rank uint64 // the minutes of its age and one more, and above them all for an empty slot
	free int    // slots of the line that hold no fresh key
	own  bool   // the key stands there already
}

func (l *line) scan(tag, minute uint64) (p place) {
	for i := range l {
		s := l[i].Load()
		if s != 0 && s&^minuteMask == tag {
			return place{slot: &l[i], was: s, own: true}
		}
		rank := age(s, minute) + 1
		if s == 0 {
			rank = minuteMask + 1
		}
		if rank > provenMinutes+1 {
			p.free++
		}
		if rank > p.rank {
			p.slot, p.was, p.rank = &l[i], s, rank
		}
	}
	return p
}
