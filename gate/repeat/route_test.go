package repeat

import "testing"

// TestRouteHealth looks at one route through its cells: tags 1 to 31 fall on
// cells of their own.
func TestRouteHealth(t *testing.T) {
	const poison, noted, later = 31, 1000, 1001
	for _, c := range []struct {
		name          string
		first, last   uint64 // tags that succeeded
		failFirst     uint64
		failLast      uint64
		since, at     uint64
		healthy       bool
		alsoThePoison bool // succeeded as well
	}{
		{name: "ten others", first: 1, last: 10, since: noted - 1, at: later, healthy: true},
		{name: "nine others", first: 1, last: 9, since: noted - 1, at: later},
		{name: "nine others and itself", first: 1, last: 9, since: noted - 1, at: later, alsoThePoison: true},
		{name: "none since", first: 1, last: 10, since: noted, at: later},
		{name: "a minute ago", first: 1, last: 10, since: noted - 1, at: noted + othersWindow},
		{name: "just within the minute", first: 1, last: 10, since: noted - 1, at: noted + othersWindow - 1, healthy: true},
		{name: "a quarter failed", first: 1, last: 12, failFirst: 13, failLast: 15, since: noted - 1, at: later, healthy: true},
		{name: "more than a quarter failed", first: 1, last: 12, failFirst: 13, failLast: 16, since: noted - 1, at: later},
		{name: "ticks that turned over", first: 1, last: 10, since: noted - 1, at: later + tickMask + 1, healthy: true},
	} {
		var r route
		for tag := c.first; tag <= c.last; tag++ {
			r.note(tag, noted, false)
		}
		for tag := c.failFirst; tag != 0 && tag <= c.failLast; tag++ {
			r.note(tag, noted, true)
		}
		if c.alsoThePoison {
			r.note(poison, noted, false)
		}
		if got := r.healthy(poison, c.since, c.at); got != c.healthy {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestBusyCellsRest(t *testing.T) {
	var r route
	r.note(1, 1000, false)
	r.note(1+routeCells, 1000+cellRest-1, false) // the same cell, within a second
	if w := word(r[1].Load()); w.tag() != 1 {
		t.Error("a cell was written twice within a second")
	}
	r.note(1+routeCells, 1000+cellRest-1, true) // what changed is news
	if w := word(r[1].Load()); w.tag() != 1+routeCells || w&1 != 1 {
		t.Error("a failure was not noted")
	}
	r.note(1, 1000+2*cellRest, true)
	if w := word(r[1].Load()); w.tag() != 1 {
		t.Error("a cell never changes hands")
	}
}
