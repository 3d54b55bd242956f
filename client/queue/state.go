package queue

import (
	"slices"
	"time"
)

// itemOverhead is what an item costs beside its key and payload, in bytes: its
// frame and its body's fixed part, and some of what memory adds.
const itemOverhead = 64

// entry is an item as the queue keeps it.
type entry struct {
	id       uint64
	at       int64 // enqueued
	attempts uint32
	key      string
	ticket   string
	payload  []byte

	deadAt int64 // of dead letters
	reason string
}

func (e *entry) cost() int64 { return int64(itemOverhead + len(e.key) + len(e.payload)) }

// state is what the records add up to. It changes by apply alone, while the
// queue works as while a file is read, so that both end in the same state.
type state struct {
	waiting  []*entry // in the order of sending
	dead     []*entry // the oldest first
	keys     map[string]*entry
	bytes    int64  // of all items
	buried   int64  // of the dead letters among them
	newest   uint64 // the highest id so far
	pause    pause
	failures uint32 // in a row
}

// apply lets a record happen. Records that make no sense (the one before them
// was lost) change nothing.
func (s *state) apply(r *record) {
	switch r.kind {
	case kindPut:
		s.put(r)
	case kindStart:
		if i := find(s.waiting, r.id); i >= 0 {
			s.waiting[i].attempts = r.number
		}
	case kindHold, kindBack:
		if i := find(s.waiting, r.id); i >= 0 {
			e := s.waiting[i]
			e.attempts, e.ticket = r.number, r.text
			if r.kind == kindBack {
				s.waiting = append(remove(s.waiting, i), e)
			}
		}
	case kindDone:
		if i := find(s.waiting, r.id); i >= 0 {
			s.forget(s.waiting[i])
			s.waiting = remove(s.waiting, i)
			s.pause, s.failures = pause{}, 0
		}
	case kindDead:
		if i := find(s.waiting, r.id); i >= 0 {
			e := s.waiting[i]
			e.attempts, e.deadAt, e.reason, e.ticket = r.number, r.at, r.text, ""
			s.waiting, s.dead = remove(s.waiting, i), append(s.dead, e)
			s.buried += e.cost()
		}
	case kindRevive:
		if i := find(s.dead, r.id); i >= 0 {
			e := s.dead[i]
			e.attempts, e.deadAt, e.reason = 0, 0, ""
			s.dead, s.waiting = remove(s.dead, i), append(s.waiting, e)
			s.buried -= e.cost()
		}
	case kindDrop:
		if i := find(s.dead, r.id); i >= 0 {
			s.forget(s.dead[i])
			s.buried -= s.dead[i].cost()
			s.dead = remove(s.dead, i)
		}
	case kindPause:
		s.pause = pause{at: r.at, wait: min(max(r.wait, 0), LargestWait), cause: cause(min(r.id, uint64(causeServer)))}
		s.failures = r.number
	}
}

func (s *state) put(r *record) {
	if s.keys[r.text] != nil {
		return // two items of one key would be one operation to the server
	}
	if s.keys == nil {
		s.keys = make(map[string]*entry)
	}
	e := &entry{id: r.id, at: r.at, attempts: r.number, key: r.text, payload: slices.Clone(r.payload)}
	s.waiting = append(s.waiting, e)
	s.keys[e.key] = e
	s.bytes += e.cost()
	s.newest = max(s.newest, r.id)
}

func (s *state) forget(e *entry) {
	delete(s.keys, e.key)
	s.bytes -= e.cost()
}

// records returns the shortest log that adds up to the state.
func (s *state) records() []record {
	records := make([]record, 0, 2*(len(s.waiting)+len(s.dead))+1)
	entries := slices.Concat(s.waiting, s.dead)
	for _, e := range entries {
		records = append(records, record{kind: kindPut, id: e.id, at: e.at, number: e.attempts, text: e.key, payload: e.payload})
	}
	for _, e := range s.waiting {
		if e.ticket != "" {
			records = append(records, record{kind: kindHold, id: e.id, number: e.attempts, text: e.ticket})
		}
	}
	for _, e := range s.dead {
		records = append(records, record{kind: kindDead, id: e.id, at: e.deadAt, number: e.attempts, text: e.reason})
	}
	if s.pause.cause != causeNone {
		records = append(records, s.pause.record(s.failures))
	}
	return records
}

// find returns the place of an id; it is nearly always the first.
func find(entries []*entry, id uint64) int {
	return slices.IndexFunc(entries, func(e *entry) bool { return e.id == id })
}

// remove takes out the entry at i; taking the first moves nothing.
func remove(entries []*entry, i int) []*entry {
	if i == 0 {
		entries[0] = nil // let go of the payload
		return entries[1:]
	}
	return slices.Delete(entries, i, i+1)
}

func instant(unix int64) time.Time { return time.Unix(0, unix) }
