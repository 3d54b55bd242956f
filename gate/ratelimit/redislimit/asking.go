package redislimit

import (
	"context"

	"github.com/comporta/comporta/gate/ratelimit"
)

// group is the questions of one call, one a lane.
type group struct {
	few [4]*question
	all []*question
}

func (g *group) of(lanes, lane int, now int64) *question {
	if g.all == nil {
		g.all = g.few[:0]
	}
	for _, q := range g.all {
		if q.items[0].wire.lane(lanes) == lane {
			return q
		}
	}
	q := &question{now: now, done: make(chan error, 1)}
	q.items = q.room[:0]
	g.all = append(g.all, q)
	return q
}

// askFor has Redis decide on the claims that this node could not. Claims of one
// lane are decided together; when one lane denies what another granted, that is
// given back.
func (s *Store) askFor(ctx context.Context, now int64, claims []claim, results []ratelimit.Result) (bool, error) {
	if s.down() {
		return false, s.refusal()
	}
	var g group
	if err := s.put(&g, now, claims); err != nil {
		return false, err
	}
	granted, err := s.waitAll(ctx, &g)
	if err != nil {
		return false, err
	}
	if !granted && len(g.all) == 1 && len(g.all[0].items) == 1 {
		granted = s.payLate(now, &g.all[0].items[0])
	}
	for i := range claims {
		c := &claims[i]
		if c.paid == asking {
			results[i] = s.answer(now, c)
			if !results[i].Allowed {
				c.meter.deny()
			}
		}
	}
	return granted, nil
}

// waitAll reports whether all lanes granted. If not, or when one said nothing,
// what the others granted is given back.
func (s *Store) waitAll(ctx context.Context, g *group) (bool, error) {
	granted, answered := true, g.all[:0]
	var failed error
	for _, q := range g.all {
		if err := s.wait(ctx, q); err != nil {
			failed = err
			continue // the flight may still write to the question
		}
		granted = q.granted() && granted
		answered = append(answered, q)
	}
	if !granted || failed != nil {
		for _, q := range answered {
			s.revoke(q)
		}
	}
	return granted && failed == nil, failed
}

// granted reports whether the script charged the items.
func (q *question) granted() bool {
	for i := range q.items {
		if it := &q.items[i]; !it.ok && !it.meter.policy.Shadow {
			return false
		}
	}
	return true
}

// revoke gives back what one lane granted to a request that another denied. A
// lease that came with it stays.
func (s *Store) revoke(q *question) {
	if !q.granted() {
		return
	}
	for i := range q.items {
		if it := &q.items[i]; it.ok {
			s.giveBack(it, it.cost, q.now)
		}
	}
}

// payLate pays from a lease that arrived with the denial, or just before it: the
// bucket may be empty because this node holds what was in it.
func (s *Store) payLate(now int64, it *item) bool {
	sh := s.memory.shard(it.name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.find(it.name)
	if e == nil || !e.leased(now, s.memory.period) || e.lease < it.cost {
		return false
	}
	e.lease -= it.cost
	it.ok = true
	return true
}

// answer is the result of an item, with what this node now holds of the key.
func (s *Store) answer(now int64, c *claim) ratelimit.Result {
	it := c.item
	sh := s.memory.shard(c.name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var lease int64
	if e := sh.find(c.name); e != nil {
		_, lease = e.reading(now, s.memory.period)
	}
	return c.meter.result(it.debt, it.cost, lease, it.ok)
}

// put queues the questions of a call. What a key owes goes first, under the
// key's lock: whoever asks next for the key stands behind it. When one does not
// fit, none is asked.
func (s *Store) put(g *group, now int64, claims []claim) error {
	for i := range claims {
		c := &claims[i]
		if c.paid == asking {
			s.prepareItem(g, now, c)
		}
	}
	// Items move while their slice grows: they are pointed at now.
	for i := range claims {
		if c := &claims[i]; c.paid == asking {
			c.item = g.item(c)
		}
	}
	for i, q := range g.all {
		if err := s.enqueue(&s.lanes[q.items[0].wire.lane(len(s.lanes))], q); err != nil {
			s.withdraw(g.all, i)
			return err
		}
	}
	return nil
}

func (g *group) item(c *claim) *item {
	for _, q := range g.all {
		for j := range q.items {
			if it := &q.items[j]; it.wire == c.wire {
				return it
			}
		}
	}
	return nil // every claim has its item
}

// withdraw takes back the questions of a call of which only the first were
// queued. One that flies already is answered to nobody: its units are lost until
// they are regained.
func (s *Store) withdraw(all []*question, queued int) {
	for i, q := range all {
		if i >= queued || q.state.CompareAndSwap(waiting, abandoned) {
			s.release(q)
		}
	}
}

// prepareItem files the question about one key. It sees to it that Redis hears
// first what the key owes, and asks for a lease where the last was spent.
func (s *Store) prepareItem(g *group, now int64, c *claim) {
	q := g.of(len(s.lanes), c.wire.lane(len(s.lanes)), now)
	it := item{meter: c.meter, name: c.name, wire: c.wire, cost: c.cost}
	sh := s.memory.shard(c.name)
	sh.mu.Lock()
	if e := sh.find(c.name); e != nil && e.wire == c.wire {
		if e.lease > 0 && e.lease < c.cost {
			e.until = 0 // too little for this call, which may need it in Redis
		}
		s.report(now, c.name, e)
		if c.cost > 0 && e.asking == 0 {
			it.want = s.wish(now, e)
		}
		e.asking++
	}
	sh.mu.Unlock()
	q.items = append(q.items, it)
}

// wish is how many units to lease with the next question about a key; 0 unless
// the one before was asked within a period.
func (s *Store) wish(now int64, e *entry) int64 {
	f := s.fleet()
	if e.lease > 0 || e.asked == 0 || now-e.asked >= f.period || now < e.asked {
		return 0
	}
	e.want = grow(e.want, f.lease(e.meter))
	if s.learning() {
		return shrink(e.want)
	}
	return e.want
}
