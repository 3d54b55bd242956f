package redislimit

import (
	"context"
	"time"

	"github.com/comporta/comporta/gate/ratelimit"
)

// report queues what Redis must hear of an entry: units granted here, or units
// of a lease that is over. What finds no room stays. The shard is locked.
func (s *Store) report(now int64, local uint64, e *entry) {
	period := s.memory.period
	if e.lease > 0 && !e.leased(now, period) {
		if s.settle(now, local, e, -e.lease) == nil {
			s.tally.returned.Add(uint64(e.lease))
			e.lease, e.want = 0, shrink(e.want)
		}
	}
	s.memory.age(now, period, e)
	if e.debt > 0 && s.settle(now, local, e, e.debt) == nil {
		s.tally.reported.Add(uint64(e.debt))
		// No second allowance before the answer to this one: from here on Redis judges.
		e.debt, e.warm = 0, max(e.warm, now+period)
	}
}

// settle queues a charge, or a refund, for whose answer nobody waits.
func (s *Store) settle(now int64, local uint64, e *entry, units int64) error {
	if s.down() {
		return s.refusal()
	}
	it := item{meter: e.meter, name: local, wire: e.wire, cost: units}
	return s.enqueue(&s.lanes[e.wire.lane(len(s.lanes))], &question{settle: true, now: now, items: []item{it}})
}

// giveBack queues a refund, for whose answer nobody waits. A refund that finds
// no room is lost: the units are regained in time.
func (s *Store) giveBack(it *item, units, now int64) {
	if units <= 0 || s.down() {
		return
	}
	back := item{meter: it.meter, name: it.name, wire: it.wire, cost: -units}
	q := &question{settle: true, now: now, items: []item{back}}
	if s.enqueue(&s.lanes[it.wire.lane(len(s.lanes))], q) == nil {
		s.tally.returned.Add(uint64(units))
	}
}

// unsettled notes a settlement that failed. Debt that was certainly not charged
// is owed again; what may have been is not sent twice.
func (s *Store) unsettled(q *question, flown bool) {
	it := &q.items[0]
	if it.cost <= 0 {
		return
	}
	sh := s.memory.shard(it.name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.find(it.name); !flown && e != nil && e.wire == it.wire {
		e.debt += it.cost
		sh.list(it.name, e)
		return
	}
	s.memory.forgotten.Add(uint64(it.cost))
}

// Refund implements ratelimit.Store. Without an id it does not wait for Redis.
func (s *Store) Refund(ctx context.Context, now time.Time, id string, debits []ratelimit.Debit) error {
	if id == "" {
		return s.refundHere(now.UnixMicro(), debits)
	}
	return s.settleAll(ctx, now.UnixMicro(), debits, -1, id)
}

// Charge implements ratelimit.Store.
func (s *Store) Charge(ctx context.Context, now time.Time, debits []ratelimit.Debit) error {
	return s.settleAll(ctx, now.UnixMicro(), debits, 1, "")
}

// refundHere adds to leases that are under way, and queues the rest.
func (s *Store) refundHere(now int64, debits []ratelimit.Debit) error {
	var few [8]claim
	claims, err := s.claims(few[:0], debits)
	if err != nil {
		return err
	}
	for i := range claims {
		c := &claims[i]
		if c.cost == 0 || c.meter.burst == 0 {
			continue
		}
		units := min(c.cost, c.meter.burst)
		sh := s.memory.shard(c.name)
		sh.mu.Lock()
		e := sh.find(c.name)
		switch {
		case e != nil && e.meter == c.meter && e.debt >= units:
			e.debt -= units
		case e != nil && e.leased(now, s.memory.period):
			e.lease = min(e.lease+units, c.meter.burst)
		default:
			s.giveBack(&item{meter: c.meter, name: c.name, wire: nameOf(c.meter.label, debits[i].Key)}, units, now)
		}
		sh.mu.Unlock()
	}
	return nil
}

// settleAll charges, or gives back when sign is -1, and waits for the answers.
func (s *Store) settleAll(ctx context.Context, now int64, debits []ratelimit.Debit, sign int64, id string) error {
	var few [8]claim
	claims, err := s.claims(few[:0], debits)
	if err != nil {
		return err
	}
	if s.down() {
		return s.refusal()
	}
	var sent []*question
	for i := range claims {
		c := &claims[i]
		if c.cost == 0 || c.meter.burst == 0 {
			continue
		}
		c.wire = nameOf(c.meter.label, debits[i].Key)
		sh := s.memory.shard(c.name)
		sh.mu.Lock()
		e := sh.find(c.name)
		if e == nil { // so that the next decision knows of it
			if e = s.memory.admit(sh, now, c.name, true); e != nil {
				e.meter, e.wire, e.seen = c.meter, c.wire, now
			}
		}
		if e != nil {
			s.report(now, c.name, e)
		}
		sh.mu.Unlock()
		units := min(c.cost, 2*c.meter.burst) * sign
		q := &question{settle: true, now: now, done: make(chan error, 1)}
		q.items = append(q.room[:0], item{meter: c.meter, name: c.name, wire: c.wire, cost: units})
		if id != "" {
			refund := nameOf(s.refunds, c.wire[:], []byte(id))
			q.refund = &refund
		}
		if err := s.enqueue(&s.lanes[c.wire.lane(len(s.lanes))], q); err != nil {
			return err
		}
		sent = append(sent, q)
	}
	for _, q := range sent {
		if err := s.wait(ctx, q); err != nil {
			return err
		}
	}
	return nil
}
