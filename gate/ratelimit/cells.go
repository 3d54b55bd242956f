package ratelimit

import (
	"math/bits"
	"sync"
)

// cell is what is known of one key: 54 bits of its keyed hash with the number of
// its policy in the low bits, and the policy's state. A name of 0 is a free cell.
type cell struct{ name, word uint64 }

const (
	lineCells = 4
	lineBytes = lineCells * 16
	slotBits  = 10
	slotMask  = 1<<slotBits - 1
)

// line is one cache line.
type line [lineCells]cell

// The families of states: each has lines of its own, because a state tells
// whether it is dead only among its kind.
const (
	rates uint8 = iota
	quotas
	families
)

// shard is a part of the table under one lock. Both lines of a name are in one
// shard, so that looking, moving and placing need no second lock.
type shard struct {
	mu    sync.Mutex
	lines [families][]line
	_     [8]byte // one shard, one cache line
}

// pair is the two lines in which a name may live (two-choice hashing: Azar,
// Broder, Karlin, Upfal, "Balanced Allocations", 1994).
type pair struct{ a, b *line }

// pairOf finds them by different bits of the name, which is random but for its
// low bits.
func pairOf(lines []line, name uint64) pair {
	n := uint32(len(lines))
	i, _ := bits.Mul32(uint32(name>>32), n)
	j, _ := bits.Mul32(uint32(name*0x9fb21c651e98df25>>32), n)
	if i == j {
		if j++; j == n {
			j = 0
		}
	}
	return pair{&lines[i], &lines[j]}
}

// find returns the cell that holds name, or nil.
func (p pair) find(name uint64) *cell {
	for i := range p.a {
		if p.a[i].name == name {
			return &p.a[i]
		}
	}
	for i := range p.b {
		if p.b[i].name == name {
			return &p.b[i]
		}
	}
	return nil
}

// free returns a cell of the first n that holds nothing, or nothing that matters
// any more, and how many such cells there are.
func (l *line) free(n int, dead uint64) (c *cell, count int) {
	for i := range n {
		if l[i].name == 0 || l[i].word < dead {
			c, count = &l[i], count+1
		}
	}
	return c, count
}

// room makes room for a newcomer, or returns nil. Nothing alive is ever thrown
// out: at most it moves to its other line, which doubles what a table of this
// kind can hold before it turns anybody away.
//
// The last cell of each line is only for the believed: whatever number of keys
// strangers invent, a quarter of the table stays for who is known.
func (p pair) room(lines []line, believed bool, dead uint64) *cell {
	n := lineCells - 1
	if believed {
		n = lineCells
	}
	c, count := p.a.free(n, dead)
	if count > 1 {
		return c // the first line while it can be: most look-ups then read one
	}
	if c2, count2 := p.b.free(n, dead); count2 > count {
		return c2
	}
	if c != nil {
		return c
	}
	for _, l := range [2]*line{p.a, p.b} {
		for i := range n {
			c := &l[i]
			// Who holds a last cell is believed, and may hold the other line's too.
			within := max(lineCells-1, i+1)
			if other, _ := pairOf(lines, c.name).other(l).free(within, dead); other != nil {
				*other = *c
				*c = cell{}
				return c
			}
		}
	}
	return nil
}

func (p pair) other(l *line) *line {
	if p.a == l {
		return p.b
	}
	return p.a
}
