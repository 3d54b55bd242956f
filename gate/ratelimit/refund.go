package ratelimit

import (
	"context"
	"time"
)

// Refund implements Store. The ids of refunds live in the table like keys do; a
// refund whose id finds no room is not given, since it could be asked for again.
func (t *Table) Refund(_ context.Context, now time.Time, id string, debits []Debit) error {
	if err := t.checkAltered(debits); err != nil {
		return err
	}
	at := stampOf(now)
	for i := range debits {
		d := &debits[i]
		name := d.Policy.nameOf(d.Key)
		if d.Cost > 0 && t.firstRefund(at, id, name) {
			t.giveBack(at, d.Policy, name, d.Cost)
		}
	}
	return nil
}

// Charge implements Store.
func (t *Table) Charge(_ context.Context, now time.Time, debits []Debit) error {
	if err := t.checkAltered(debits); err != nil {
		return err
	}
	at := stampOf(now)
	for i := range debits {
		d := &debits[i]
		if d.Cost > 0 && d.Policy.Units() > 0 {
			t.chargeOne(at, d.Policy, d.Policy.nameOf(d.Key), d.Cost, d.Believed)
		}
	}
	return nil
}

func (t *Table) checkAltered(debits []Debit) error {
	for i := range debits {
		if debits[i].Cost < 0 {
			return ErrNegativeCost
		}
		if p := debits[i].Policy; p == nil || p.table != t {
			return ErrUnprepared
		}
	}
	return nil
}

// firstRefund reports whether no refund of that id was given to that key within
// RefundMemory, and remembers this one.
func (t *Table) firstRefund(now stamp, id string, key uint64) bool {
	if id == "" {
		return true
	}
	name := t.seed.Start().Str("refund").Str(id).Uint(key).Name()&^slotMask | refundSlot
	s := &t.shards[t.shardOf(name)]
	s.mu.Lock()
	defer s.mu.Unlock()
	where := pairOf(s.lines[rates], name)
	floor := dead(rates, now)
	c := where.find(name)
	if c != nil && c.word >= floor {
		return false
	}
	if c == nil {
		if c = where.room(s.lines[rates], true, floor); c == nil {
			t.crowded.Add(1)
			return false
		}
	}
	c.name, c.word = name, uint64(now+stamp(RefundMemory.Microseconds())<<fracBits)
	return true
}

// giveBack returns units to a key; one that is not held is full already.
func (t *Table) giveBack(now stamp, p *Policy, name uint64, n int64) {
	s := &t.shards[t.shardOf(name)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := pairOf(s.lines[p.family], name).find(name); c != nil {
		c.word = p.refund(now, c.word, n)
	}
}

// chargeOne takes units whether the key has them or not.
func (t *Table) chargeOne(now stamp, p *Policy, name uint64, n int64, believed bool) {
	s := &t.shards[t.shardOf(name)]
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.lines[p.family]
	where := pairOf(lines, name)
	c := where.find(name)
	var was uint64
	if c != nil {
		was = c.word
	} else if c = where.room(lines, believed, dead(p.family, now)); c == nil {
		t.crowded.Add(1)
		return
	}
	c.name, c.word = name, p.charge(now, was, n)
}
