package ratelimit

import (
	"errors"
	"fmt"
	"time"
)

// refundSlot numbers the cells that remember the ids of refunds.
const refundSlot = slotMask

// Prepare implements Store. A policy whose name is known takes over the keys of
// the one before: what a key has used stays used in units, so that 10 of 10
// become 10 of 20 when a limit is raised, and a lowered limit is waited for at
// its new rate. Counters go on.
func (t *Table) Prepare(now time.Time, policies ...*Policy) error {
	t.prepare.Lock()
	defer t.prepare.Unlock()
	if err := t.checkPolicies(policies); err != nil {
		return err
	}
	at := stampOf(now)
	for _, p := range policies {
		if p.table == t {
			continue
		}
		if p.quota != nil {
			t.grow(quotas)
		}
		s := t.slots[p.Name]
		if s == nil {
			s = &slot{number: t.freeNumber(policies)}
			t.slots[p.Name] = s
		}
		t.succeed(at, s, p)
		p.slot, p.start = s, t.seed.Start().Str(p.Name)
		p.table, s.policy = t, p
	}
	return nil
}

// checkPolicies reports every policy that cannot be prepared; then none is.
func (t *Table) checkPolicies(policies []*Policy) error {
	var problems []error
	names := make(map[string]bool, len(policies))
	for _, p := range policies {
		switch {
		case p == nil || p.gcra.radix == 0:
			problems = append(problems, errors.New("ratelimit: a policy was not made by NewPolicy"))
			continue
		case p.table != nil && p.table != t:
			problems = append(problems, fmt.Errorf("ratelimit: policy %q belongs to another table: make one for each", p.Name))
		case names[p.Name]:
			problems = append(problems, fmt.Errorf("ratelimit: policy %q is there twice: give it another name", p.Name))
		}
		names[p.Name] = true
	}
	if len(names) > MaxPolicies {
		problems = append(problems, fmt.Errorf("ratelimit: %d policies are above the limit of %d", len(names), MaxPolicies))
	}
	return errors.Join(problems...)
}

// freeNumber returns a number that no policy has. When all are taken, the names
// that are not wanted any more are forgotten.
func (t *Table) freeNumber(wanted []*Policy) uint16 {
	if len(t.slots) >= MaxPolicies {
		keep := make(map[string]bool, len(wanted))
		for _, p := range wanted {
			keep[p.Name] = true
		}
		for name, s := range t.slots {
			if !keep[name] {
				t.sweep(s.number, s.policy.family, func(uint64) uint64 { return 0 })
				delete(t.slots, name)
			}
		}
	}
	var taken [slotMask + 1]bool
	for _, s := range t.slots {
		taken[s.number] = true
	}
	n := uint16(0)
	for taken[n] {
		n++ // there is one: MaxPolicies is below refundSlot
	}
	return n
}

// succeed hands the keys of the policy before over to p.
func (t *Table) succeed(now stamp, s *slot, p *Policy) {
	old := s.policy
	if old == nil {
		return
	}
	if p.aggregate != old.aggregate {
		p.aggregate.inherit(&old.aggregate)
		s.total.Store(p.aggregate.convert(&old.aggregate, now, s.total.Load()))
	}
	switch {
	case old.family != p.family:
		t.sweep(s.number, old.family, func(uint64) uint64 { return 0 })
	case p.quota != nil:
		if q := old.quota; q.Units != p.quota.Units || q.Period != p.quota.Period || q.Location.String() != p.quota.Location.String() {
			t.sweep(s.number, quotas, func(was uint64) uint64 { return p.quota.convert(q, now, was) })
		}
	case p.gcra.interval != old.gcra.interval || p.gcra.radix != old.gcra.radix || p.gcra.burst != old.gcra.burst:
		p.gcra.inherit(&old.gcra)
		t.sweep(s.number, rates, func(was uint64) uint64 { return p.gcra.convert(&old.gcra, now, was) })
	}
}

// sweep rewrites the states of one policy. It holds one shard at a time: a
// million keys take some milliseconds, and no decision waits for more than its
// own shard.
func (t *Table) sweep(number uint16, family uint8, f func(was uint64) uint64) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for j := range s.lines[family] {
			l := &s.lines[family][j]
			for k := range l {
				if c := &l[k]; c.name != 0 && c.name&slotMask == uint64(number) {
					c.word = f(c.word)
				}
			}
		}
		s.mu.Unlock()
	}
}
