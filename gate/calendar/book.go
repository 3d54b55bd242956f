package calendar

import (
	"time"

	"github.com/comporta/comporta"
)

// Booking is the instant that a refusal tells its client.
type Booking struct {
	// Due is the instant, in whole milliseconds.
	Due time.Time
	// Fresh says that the instant was given now, not before.
	Fresh bool
	// Plain says that the client held its share already: the instant takes no
	// place, and the return will be a plain repeat.
	Plain bool

	slot slot
}

// BookAt gives the refused request r its instant: the one that its operation was
// given before, if that is still to come; else a new one, at least Base and at
// most Horizon away. It must follow LookAt, and says by itself that r was
// refused, for which reason and how full the house was. It does not allocate.
func (c *Calendar) BookAt(now time.Time, r *comporta.Request, reason comporta.Reason, load Load) Booking {
	return c.BookAfterAt(now, r, reason, load, 0)
}

// BookAfterAt is BookAt for a service that says itself how long a client should
// stay away at least: a new instant is not earlier than that, and those who are
// refused together still return one after the other. An instant that was given
// before stays.
func (c *Calendar) BookAfterAt(now time.Time, r *comporta.Request, reason comporta.Reason, load Load, atLeast time.Duration) Booking {
	c.state.refused(r, reason, load)
	return c.bookAt(now, r, atLeast)
}

// BookAnsweredAt is BookAfterAt for a request that had been admitted, and that the
// service then refused itself. It was counted as a newcomer when it entered, and
// is not again; the slot that it redeemed counts as refused and no more as served.
func (c *Calendar) BookAnsweredAt(now time.Time, r *comporta.Request, load Load, atLeast time.Duration) Booking {
	s := c.state
	s.note(load)
	if st := r.Slot.State; st == comporta.SlotRedeemed || st == comporta.SlotAged {
		s.redeemedIn.Add(-1)
		s.redeemedOut.Add(1)
	}
	return c.bookAt(now, r, atLeast)
}

func (c *Calendar) bookAt(now time.Time, r *comporta.Request, atLeast time.Duration) Booking {
	s := c.state
	s.rollAt(now)
	if r.Slot.Operation == 0 {
		r.Slot.Operation = s.operation(r)
	}
	op, ms := r.Slot.Operation, now.UnixMilli()
	m := s.table.lock(op)
	defer m.Unlock()
	old, ok := s.table.find(op, ms)
	if ok && !old.has(slotSpent) && old.due > ms {
		return c.keep(ms, r, old)
	}
	v := slot{attempt: attemptOf(r, 0)}
	if r.Slot.State == comporta.SlotRedeemed || r.Slot.State == comporta.SlotAged {
		v.flags |= slotAged
		v.attempt = attemptOf(r, old.attempt)
	}
	c.book(now, r, &v, min(atLeast, MaxHorizon))
	s.due.add(v.due, v.lane(), 1)
	s.taken.Add(1)
	s.file(op, v, ms)
	if v.has(slotPlain) {
		s.counters.plain.Add(1)
	} else {
		s.counters.booked.Add(1)
	}
	return Booking{Due: time.UnixMilli(v.due), Fresh: true, Plain: v.has(slotPlain), slot: v}
}

// refused counts a refusal.
func (s *State) refused(r *comporta.Request, reason comporta.Reason, load Load) {
	s.note(load)
	switch reason {
	case comporta.UpstreamUnavailable:
		s.unreachable.Add(1)
	case comporta.ShedByOperator:
		return // somebody's choice says nothing of the rate
	default:
	}
	switch r.Slot.State {
	case comporta.SlotNone:
		// Originals of the unbelieved do not count: a flood would make every
		// returning client wait for the end of the flood.
		if r.Client.Class.Believed() && !r.Sighting.Kind.Repeat() && !r.Slot.Crowding {
			s.arrivals.Add(1)
		}
	case comporta.SlotRedeemed, comporta.SlotAged:
		s.redeemedOut.Add(1)
	case comporta.SlotEarly, comporta.SlotPlain:
	}
}

// keep answers with the instant that the operation has, under the table's lock.
func (c *Calendar) keep(now int64, r *comporta.Request, v slot) Booking {
	s := c.state
	s.counters.kept.Add(1)
	switch r.Slot.State {
	case comporta.SlotEarly:
		s.strike(&r.Client, now/1000)
	case comporta.SlotRedeemed, comporta.SlotAged:
		v.flags |= slotAged // its twin was refused, and booked, first
	case comporta.SlotNone, comporta.SlotPlain:
	}
	v.attempt = attemptOf(r, v.attempt-1)
	s.file(r.Slot.Operation, v, now)
	return Booking{Due: time.UnixMilli(v.due), Plain: v.has(slotPlain), slot: v}
}

// attemptOf says which attempt was refused: the highest that the caller declared,
// the detector counted or the slot remembers.
func attemptOf(r *comporta.Request, before int) int {
	return min(max(r.Sighting.Attempts, r.Attempt+1, before+1), maxAttempt)
}

// book chooses the instant of v. Under the table's lock, so that one operation
// never gets two.
func (c *Calendar) book(now time.Time, r *comporta.Request, v *slot, atLeast time.Duration) {
	s := c.state
	sd := sideOf(&r.Client, r.Slot.Disobedient)
	if sd == believed {
		v.flags |= slotBelieved
	}
	sec, ns := now.Unix(), now.UnixNano()
	s.asked[sd].Store(sec)

	key := holder(&r.Client, sd)
	t := s.clients[sd]
	m := t.lock(key)
	defer m.Unlock()
	// No booking ends later than that; what it says of shares ends with them.
	horizon := max(c.horizon, atLeast)
	rec := t.open(key, sec+int64((horizon+max(c.grace, horizon/10))/time.Second)+1)
	n, free := rec.bookings(sec)
	// The unbelieved have no class to lose, so what they lose is their place.
	outcast := r.Slot.Disobedient && !r.Client.Class.Believed()
	if n >= maxBookings || outcast {
		free = -1
	}
	if free < 0 {
		v.flags |= slotPlain
	}
	due := c.instant(now, r, rec, sd, atLeast, free >= 0)
	v.due = due / 1e6
	v.window = c.windowOf(time.Duration(due - ns))
	if free >= 0 {
		rec.take(free, v.ends()/1000)
	}
}

// instant chooses by the mode, in Unix nanoseconds. Cutting the result to whole
// milliseconds never makes it early.
func (c *Calendar) instant(now time.Time, r *comporta.Request, rec *record, sd side, atLeast time.Duration, inShare bool) (due int64) {
	floor := (now.Add(max(c.base, atLeast)).UnixNano() + 999_999) / 1e6 * 1e6
	switch {
	case c.mode == ModeHash:
		h := c.state.seed.Start().Uint(r.Client.Key).Name()
		return c.within(floor, now, pick(h, spreadWidth))
	case c.mode == ModeSpread || !inShare:
		return c.within(floor, now, pick(r.Slot.Operation, c.spreadOf()))
	}
	return c.place(floor, now, r.Slot.Operation, rec, sd, atLeast > c.base)
}

// within returns the instant d after floor, or less if the horizon is nearer.
func (c *Calendar) within(floor int64, now time.Time, d time.Duration) int64 {
	return min(floor+int64(d), max(floor, now.Add(c.horizon).UnixNano()))
}

// pick chooses a duration below width by a hash, in whole milliseconds.
func pick(h uint64, width time.Duration) time.Duration {
	ms := uint64(width / time.Millisecond)
	return time.Duration(mix(h)%max(ms, 1)) * time.Millisecond
}

// mix spreads a name afresh, so that instants do not follow the table's places.
func mix(h uint64) uint64 {
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return h ^ h>>32
}

// spreadOf is over how long the waiting must be spread for the service to follow.
func (c *Calendar) spreadOf() time.Duration {
	s := c.state
	waiting := float64(s.waiting.Load()+s.taken.Load()) + 1
	width := time.Duration(min(waiting/s.spare.load(), float64(c.horizon/time.Second)) * 1e9)
	return min(max(width, spreadWidth), c.horizon-c.base)
}

// place takes a place in the schedule of a side, as near as the client's share
// allows. A place that lies ahead for another reason is taken ahead too: moving
// the schedule there would make everybody wait for what one client was told.
func (c *Calendar) place(floor int64, now time.Time, op uint64, rec *record, sd side, ahead bool) (due int64) {
	s := c.state
	w, cost, round := &s.words[sd], s.costOf(sd, now.Unix()), s.countClient(rec, sd)
	latest, horizon := c.latest(floor, now)
	// Anywhere in the last quarter of what there is: on its very edge, all that
	// do not fit would come at once.
	edge := max(floor, latest-int64(pick(op, time.Duration((latest-now.UnixNano())/4))))

	share := rec.next
	if share-floor > int64(2*MaxHorizon) {
		share = floor // the clock stepped back
	}
	var ok bool
	begin := share
	if ahead {
		begin = max(begin, floor)
	}
	if begin > latest {
		begin = edge
	}
	if begin/1e9 > w.peek(floor)/1e9 {
		due, ok = w.takeAhead(begin, latest, cost)
	} else {
		due, ok = w.take(floor, latest, cost)
	}
	rec.next = min(max(share, due)+min(cost*round, int64(MaxHorizon)), horizon)
	if ok {
		return due
	}
	// The schedule is full up to there, and stays where it is.
	s.counters.beyond.Add(1)
	return edge
}

// costOf is the cost of a place: while both sides ask, the believed have 80 % of
// what is spare, the others 20 %; alone each has all of it.
func (s *State) costOf(sd side, sec int64) int64 {
	cost := s.cost[sd].Load()
	if sec-s.asked[1-sd].Load() > 2 {
		return cost
	}
	if sd == believed {
		return cost * 5 / 4
	}
	return cost * 5
}

// countClient counts a client as one that asks in this round, and says how many do.
func (s *State) countClient(rec *record, sd side) int64 {
	if round := seconds32(s.second.Load() / roundSeconds); rec.round != round {
		rec.round = round
		s.clientsRound[sd].Add(1)
	}
	return min(max(s.clientsRound[sd].Load(), s.clientsLast[sd].Load(), 1), 1e6)
}

// latest is the last instant that a booking may get: twice what the backlog
// takes, since no backlog needs more, and never beyond the horizon.
func (c *Calendar) latest(floor int64, now time.Time) (latest, horizon int64) {
	s := c.state
	horizon = max(floor, now.Add(c.horizon).UnixNano())
	backlog := float64(s.waiting.Load()+s.taken.Load()) + 1
	bound := min(2*backlog/s.spare.load(), MaxHorizon.Seconds())
	return min(horizon, floor+int64(bound*1e9)), horizon
}
