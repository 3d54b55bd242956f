package calendar

import (
	"sync/atomic"
	"time"
)

// word is the virtual schedule of one side: next is where its next place begins,
// in Unix nanoseconds. Taking a place moves it by the cost of a place, which is
// the whole of virtual scheduling.
//
// A client that is ahead of its share takes its place further on, leaving the
// nearer ones to others (start-time fair queueing, Goyal, Vin and Cheng 1996).
// Such places are counted by the second in ahead, and next pays for them when it
// gets there, so that no second is sold twice.
type word struct {
	next  atomic.Int64
	ahead [aheadSeconds]atomic.Uint64 // second in the upper half, places taken in the lower
}

const (
	aheadSeconds = 1 << 12 // above MaxHorizon in seconds
	aheadTries   = 64      // seconds tried for a client ahead of its share
)

// take takes the next place, if it begins by latest.
func (w *word) take(floor, latest, cost int64) (due int64, ok bool) {
	for {
		old := w.next.Load()
		due = max(old, floor)
		if due > latest {
			if due-floor <= int64(2*MaxHorizon) {
				return 0, false
			}
			due = floor // no booking leads so far: the clock has stepped back since
		}
		if w.next.CompareAndSwap(old, due+cost) {
			break
		}
	}
	if n := w.settle(due / 1e9); n > 0 {
		w.next.Add(n * cost)
	}
	return due, true
}

// peek says where the next place begins.
func (w *word) peek(floor int64) int64 {
	next := w.next.Load()
	if next-floor > int64(2*MaxHorizon) {
		return floor
	}
	return max(next, floor)
}

// takeAhead takes a place at or after start, in the first second that has room.
func (w *word) takeAhead(start, latest, cost int64) (due int64, ok bool) {
	room := uint64(max(int64(time.Second)/cost, 1))
	for range aheadTries {
		if start > latest {
			return 0, false
		}
		sec := start / 1e9
		if n, ok := w.reserve(sec, room); ok {
			// Places pushed to the beginning of a second are spread over it.
			if at := sec*1e9 + n*cost; at > start && at < (sec+1)*1e9 {
				start = min(at, latest)
			}
			return start, true
		}
		start = (sec + 1) * 1e9
	}
	return 0, false
}

func (w *word) reserve(sec int64, room uint64) (nth int64, ok bool) {
	place := &w.ahead[sec%aheadSeconds]
	for {
		old := place.Load()
		n := old & (1<<32 - 1)
		if old>>32 != uint64(sec) {
			n = 0
		}
		if n >= room {
			return 0, false
		}
		if place.CompareAndSwap(old, uint64(sec)<<32|(n+1)) {
			return int64(n), true
		}
	}
}

// settle returns the places taken ahead in a second, and forgets them. Nothing
// is taken ahead in a second that next has reached; what slips in between is
// paid by the take that follows.
func (w *word) settle(sec int64) int64 {
	place := &w.ahead[sec%aheadSeconds]
	for {
		old := place.Load()
		if old>>32 != uint64(sec) || old&(1<<32-1) == 0 {
			return 0
		}
		if place.CompareAndSwap(old, 0) {
			return int64(old & (1<<32 - 1))
		}
	}
}
