package calendar

import (
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/prefetch"
)

// Prepare has the memory fetched that LookAt and BookAt will read for r, if there
// is an incident. It is optional, and needs the head of r and its client's keys.
func (c *Calendar) Prepare(now time.Time, r *comporta.Request) {
	s := c.state
	if now.UnixMilli() > s.quiet.Load() {
		return
	}
	op := s.operation(r)
	prefetch.Line(&s.table.shards[op%tableShards])
	l := s.table.line(op)
	prefetch.Lines(l, dueLineBytes/64)
	for side, key := range [sides]uint64{believed: nonzero(r.Client.Key), others: nonzero(r.Client.Network)} {
		t := s.clients[side]
		prefetch.Line(&t.shards[key%tableShards])
		prefetch.Lines(t.line(key), 2) // its keys; which record it is, they will tell
	}
}

// LookAt writes r.Slot: how the request stands to the instant that its operation
// was given, by its ticket or by what this node remembers. It reads the head of r
// and r.Client, and returns what the ticket proves. A request that comes at its
// instant uses the slot up, even if it is refused: BookAt then gives it another.
// It does not allocate, and without an incident it returns at once.
func (c *Calendar) LookAt(now time.Time, r *comporta.Request) Ticket {
	s := c.state
	r.Slot = comporta.Slot{}
	ms := now.UnixMilli()
	var t Ticket
	if r.Ticket != "" {
		t = c.verify(now, r)
	}
	if !t.Authentic && ms > s.quiet.Load() {
		return t
	}
	r.Slot.Operation = s.operation(r)
	found, state := s.present(r.Slot.Operation, &t, ms)
	r.Slot.State = state
	if state != comporta.SlotNone {
		r.Slot.Due = time.UnixMilli(found.due)
	}
	switch state {
	case comporta.SlotRedeemed, comporta.SlotAged:
		s.counters.redeemed.Add(1)
		if state == comporta.SlotAged {
			s.counters.aged.Add(1)
		}
		s.arrived[found.side()].Add(1)
		s.giveBack(&r.Client, found)
	case comporta.SlotEarly:
		s.counters.early.Add(1)
	case comporta.SlotNone, comporta.SlotPlain:
	}
	s.judge(r, ms/1000, state == comporta.SlotRedeemed || state == comporta.SlotAged)
	return t
}

// skew is how far the clocks of two gateways may differ before a client that
// comes at the instant of the one is early for the other, in milliseconds.
const skew = 100

// present shows an operation, with or without a ticket, to the table of instants.
// A ticket that was used or replaced here counts as absent.
func (s *State) present(op uint64, t *Ticket, now int64) (slot, comporta.SlotState) {
	m := s.table.lock(op)
	defer m.Unlock()
	own, ok := s.table.find(op, now)
	if t.Authentic {
		own = s.reconcile(op, own, ok, t, now)
	} else if !ok {
		return slot{}, comporta.SlotNone
	}
	switch {
	case own.has(slotSpent):
		// What comes after the slot was used is judged by what became of that
		// request: after a success it is a poll, ticket or not.
		return slot{}, comporta.SlotNone
	case now < own.due:
		return own, comporta.SlotEarly
	}
	own.flags |= slotSpent
	s.file(op, own, now)
	switch {
	case own.has(slotPlain):
		return own, comporta.SlotPlain
	case own.has(slotAged):
		return own, comporta.SlotAged
	}
	return own, comporta.SlotRedeemed
}

// reconcile says which slot holds when an authentic ticket comes: the one of the
// ticket, or the node's own. Under the table's lock.
func (s *State) reconcile(op uint64, own slot, ok bool, t *Ticket, now int64) slot {
	switch {
	case !ok:
		// Given by another node, before a restart, or lost to a full table: the
		// ticket is the memory.
		own = t.slot
		if wait := own.due - now; wait > 0 && wait <= skew {
			own.due = now
		}
	case own.has(slotSpent), own.has(slotAged) && t.slot.due != own.due:
		s.counters.old.Add(1)
		*t = Ticket{}
		return own
	case t.slot.due >= own.due:
		return own // its own, or a later promise than the node's
	default:
		// A node that did not know the ticket's instant gave another one since:
		// the earlier promise holds.
		s.due.add(own.due, own.lane(), -1)
		end := own.ends()
		own = t.slot
		// Remembered until both tickets have ended: two promises are one slot.
		own.window = min(max(own.window, (end-own.due+999)/1000), maxWindow)
	}
	s.file(op, own, now)
	return own
}

// file puts a slot into the table, under its lock.
func (s *State) file(op uint64, v slot, now int64) {
	if s.table.put(op, v, now) {
		s.counters.evicted.Add(1)
	}
	s.disturb(v.ends())
}

// giveBack frees the place of a booking in its holder's share.
func (s *State) giveBack(c *comporta.Client, v slot) {
	if v.has(slotPlain) {
		return
	}
	sd := v.side()
	key := holder(c, sd)
	t := s.clients[sd]
	m := t.lock(key)
	defer m.Unlock()
	if rec := t.find(key); rec != nil {
		rec.redeem(v.ends() / 1000)
	}
}

// judge writes what the client's conduct means for this request. Networks, and
// identities that many share, are never judged.
func (s *State) judge(r *comporta.Request, sec int64, redeemed bool) {
	if r.Client.Shared {
		return
	}
	t, key := s.clients[sideOf(&r.Client, false)], nonzero(r.Client.Key)
	m := t.lock(key)
	defer m.Unlock()
	rec := t.find(key)
	if rec == nil {
		return
	}
	if redeemed {
		rec.strikes = 0
	}
	r.Slot.Disobedient = rec.disobedient(sec)
	r.Slot.Crowding = r.Client.Class.Believed() && rec.crowding(sec)
}

// strike holds an early arrival against a client.
func (s *State) strike(c *comporta.Client, sec int64) {
	if c.Shared {
		return
	}
	t, key := s.clients[sideOf(c, false)], nonzero(c.Key)
	m := t.lock(key)
	defer m.Unlock()
	t.open(key, sec+strikeMemory).strike(sec)
	s.counters.struck.Add(1)
	s.disturb((sec + strikeMemory) * 1000)
}

// enteredEarly ends the slot of a request that entered before its instant: the
// place is free again, and the ticket used.
func (c *Calendar) enteredEarly(now time.Time, r *comporta.Request) {
	s, ms := c.state, now.UnixMilli()
	m := s.table.lock(r.Slot.Operation)
	v, ok := s.table.find(r.Slot.Operation, ms)
	fresh := ok && !v.has(slotSpent)
	if fresh {
		v.flags |= slotSpent
		s.file(r.Slot.Operation, v, ms)
	}
	m.Unlock()
	if fresh {
		s.due.add(v.due, v.lane(), -1)
		s.giveBack(&r.Client, v)
	}
}
