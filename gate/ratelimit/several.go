package ratelimit

import "slices"

// pending is a debit on its way through takeAll.
type pending struct {
	policy    *Policy
	name      uint64
	cost      int64
	believed  bool
	aggregate bool // was charged to the policy's aggregate
	crowded   bool // no room for the key: nothing of it is written
	was       uint64
	judgement judgement
}

// lock locks the shards of some names, each once and in order, so that two
// requests never wait for each other. It returns them in room.
func (t *Table) lock(room []uint32, todo []pending) []uint32 {
	for i := range todo {
		n := t.shardOf(todo[i].name)
		if at, found := slices.BinarySearch(room, n); !found {
			room = slices.Insert(room, at, n)
		}
	}
	for _, n := range room {
		t.shards[n].mu.Lock()
	}
	return room
}

func (t *Table) unlock(locked []uint32) {
	for _, n := range locked {
		t.shards[n].mu.Unlock()
	}
}

// takeAll judges every debit, and only then charges them: what another debit
// denies costs nothing, not even for a moment.
func (t *Table) takeAll(now stamp, todo []pending, results []Result) bool {
	var few [8]uint32
	locked := t.lock(few[:0], todo)
	defer t.unlock(locked)
	granted := true
	for i := range todo {
		p := &todo[i]
		results[i] = t.look(now, p)
		if !results[i].Allowed {
			granted = p.policy.deny(p.cost) && granted
		}
	}
	if granted {
		granted = t.takeAggregates(now, todo, results)
	}
	for i := range todo {
		t.settle(now, &todo[i], &results[i], granted)
	}
	return granted
}

// look judges one debit and changes nothing that anybody could tell.
func (t *Table) look(now stamp, p *pending) Result {
	lines := t.shards[t.shardOf(p.name)].lines[p.policy.family]
	where := pairOf(lines, p.name)
	c := where.find(p.name)
	if c != nil {
		p.was = c.word
	}
	if units := p.policy.Units(); p.cost > units || units == 0 {
		p.judgement = judgement{kept: p.was}
		return Result{Never: true}
	}
	p.judgement = p.policy.judge(now, p.was, p.cost)
	if floor := dead(p.policy.family, now); p.cost > 0 && p.was < floor {
		p.crowded = c == nil && where.room(lines, p.believed, floor) == nil
		p.aggregate = p.crowded || !p.believed && !p.policy.Unseen.none()
	}
	return Result{Allowed: p.judgement.wait == 0, Wait: p.judgement.wait}
}

// takeAggregates charges the buckets that unseen keys share, or none of them.
func (t *Table) takeAggregates(now stamp, todo []pending, results []Result) bool {
	for i := range todo {
		p := &todo[i]
		if !p.aggregate || !results[i].Allowed {
			continue
		}
		if p.crowded {
			t.crowded.Add(1)
			p.policy.slot.crowded.Add(1)
		}
		wait, ok := p.policy.takeAggregate(now, p.cost)
		if ok {
			continue
		}
		p.aggregate = false
		results[i].Allowed, results[i].Wait = false, wait
		if p.policy.deny(p.cost) {
			continue // a shadow denies nobody
		}
		for j := range i {
			if q := &todo[j]; q.aggregate && results[j].Allowed {
				q.policy.returnAggregate(now, q.cost)
			}
		}
		return false
	}
	return true
}

// settle writes what became of one debit.
func (t *Table) settle(now stamp, p *pending, r *Result, granted bool) {
	state := p.judgement.kept
	switch {
	case r.Never:
	case granted && r.Allowed:
		state = p.judgement.after
	case p.policy.Penalty && !r.Allowed:
		state = p.policy.charge(now, p.was, p.cost)
	}
	if p.cost > 0 && state != p.was && !p.crowded {
		t.put(now, p, state)
	}
	r.Remaining, r.Next = p.policy.report(now, state)
	if !r.Allowed && p.judgement.wait == 0 && !r.Never { // an aggregate denied
		r.Remaining, r.Next = 0, r.Wait
	}
}

// put writes a state. The cell is looked up again: an earlier debit of the same
// request may have moved it, or taken the last room (then this one is
// forgotten, as any key is that finds none).
func (t *Table) put(now stamp, p *pending, state uint64) {
	lines := t.shards[t.shardOf(p.name)].lines[p.policy.family]
	where := pairOf(lines, p.name)
	c := where.find(p.name)
	if c == nil {
		c = where.room(lines, p.believed, dead(p.policy.family, now))
	}
	if c == nil {
		t.crowded.Add(1)
		return
	}
	c.name, c.word = p.name, state
}
