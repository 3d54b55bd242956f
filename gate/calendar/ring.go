package calendar

import "sync/atomic"

// A due ring counts the instants given out, by quarters of a second. Each word
// holds a tag, which says of which turn of the ring the counts are, and three
// counts of 16 bits: believed, others, and plain instants, which take no place.
// 16,384 quarters cover MaxHorizon; a count stays at 65,535 when it is full.
const (
	quarter      = 250 // milliseconds
	ringQuarters = 1 << 14
	countMask    = 1<<16 - 1
)

type lane uint

const lanePlain = lane(sides)

func (s slot) lane() lane {
	if s.has(slotPlain) {
		return lanePlain
	}
	return lane(s.side())
}

type dueRing struct {
	words [ringQuarters]atomic.Uint64
}

// tagOf never is 0 for a time after 1970, so an unused word is of no turn.
func tagOf(q int64) uint64 { return uint64(q/ringQuarters) & countMask << 48 }

// add counts one instant more (by = 1) or less (by = -1).
func (r *dueRing) add(due int64, l lane, by int) {
	q := max(due, 0) / quarter
	word, tag, shift := &r.words[q%ringQuarters], tagOf(q), uint(l)*16
	for {
		old := word.Load()
		now := old
		if now&^(1<<48-1) != tag {
			now = tag
		}
		n := int(now >> shift & countMask)
		m := min(max(n+by, 0), countMask)
		now = now&^(countMask<<shift) | uint64(m)<<shift
		if word.CompareAndSwap(old, now) {
			return
		}
	}
}

type dueCounts [sides + 1]int64

// between sums the instants of [from, to), in whole quarters that begin there.
func (r *dueRing) between(from, to int64) dueCounts {
	var sum dueCounts
	first, last := max(from, 0)/quarter, (max(to, 0)+quarter-1)/quarter
	for q := first; q < min(last, first+ringQuarters); q++ {
		w := r.words[q%ringQuarters].Load()
		if w&^(1<<48-1) != tagOf(q) {
			continue
		}
		for l := range sum {
			sum[l] += int64(w >> (16 * l) & countMask)
		}
	}
	return sum
}
