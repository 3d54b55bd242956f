package redislimit

import (
	"context"
	"fmt"
	"time"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/gate/ratelimit"
)

// maxDenial is for how many periods a denial is believed without asking again:
// another node may have given units back.
const maxDenial = 10

// claim is a debit on its way through Take.
type claim struct {
	meter *meter
	name  uint64 // in this process
	wire  name   // in Redis; set once it may be needed
	cost  int64
	paid  payment
	item  *item // of a question
}

// payment says what a claim was paid from.
type payment uint8

const (
	unpaid    payment = iota // denied, or nothing to pay
	fromLease                // units that Redis has counted
	fromDebt                 // units that it will be told of
	asking                   // Redis decides
)

// Take implements ratelimit.Store. It allocates nothing while no round trip is
// needed. Errors other than faults of the caller are ErrUnavailable.
func (s *Store) Take(ctx context.Context, now time.Time, debits []ratelimit.Debit, results []ratelimit.Result) (bool, error) {
	if len(results) < len(debits) {
		return false, fmt.Errorf("redislimit: room for %d results of %d debits", len(results), len(debits))
	}
	var few [8]claim
	claims, err := s.claims(few[:0], debits)
	if err != nil {
		return false, err
	}
	at := now.UnixMicro()
	if len(claims) > 1 && !s.payable(at, claims, results) {
		return false, nil
	}
	granted, questions := true, false
	for i := range claims {
		c, d, r := &claims[i], &debits[i], &results[i] //nolint:gosec // all are as long as debits
		c.paid, *r = s.pay(at, c, d.Key, d.Believed)
		switch {
		case c.paid == asking:
			questions = true
		case !r.Allowed:
			granted = c.meter.deny() && granted
		}
		if !granted {
			break // what comes after has its preview
		}
	}
	if granted && questions {
		granted, err = s.askFor(ctx, at, claims, results)
	}
	if !granted || err != nil {
		s.undo(at, claims)
	}
	return granted && err == nil, err
}

// claims reads debits and reports faults of the caller.
func (s *Store) claims(dst []claim, debits []ratelimit.Debit) ([]claim, error) {
	known := s.meters.Load().byPolicy
	for i := range debits {
		d := &debits[i]
		m := known[d.Policy]
		switch {
		case d.Cost < 0:
			return nil, ratelimit.ErrNegativeCost
		case m == nil:
			return nil, ratelimit.ErrUnprepared
		}
		dst = append(dst, claim{meter: m, name: m.start.Bytes(d.Key).Name(), cost: d.Cost})
	}
	return dst, nil
}

// payable reports whether no debit is known to be hopeless, so that the others
// cost nothing: not even a question.
func (s *Store) payable(now int64, claims []claim, results []ratelimit.Result) bool {
	payable := true
	for i := range claims {
		c := &claims[i]
		sh := s.memory.shard(c.name)
		sh.mu.Lock()
		results[i] = sh.find(c.name).preview(now, s.memory.period, c)
		if !results[i].Allowed && !c.meter.policy.Shadow {
			payable = false
		}
		sh.mu.Unlock()
	}
	if payable {
		return true
	}
	for i := range claims {
		if c := &claims[i]; !results[i].Allowed {
			c.meter.deny()
			s.punish(now, c)
		}
	}
	s.tally.denied.Add(1)
	return false
}

// preview says what is known without asking; a key of which nothing is known may pay.
func (e *entry) preview(now, period int64, c *claim) ratelimit.Result {
	m := c.meter
	if c.cost > m.burst || m.burst == 0 {
		return ratelimit.Result{Never: true}
	}
	if e == nil {
		return m.result(0, c.cost, 0, true)
	}
	debt, lease := e.reading(now, period)
	denied := c.cost > 0 && e.meter == m && e.denies(now, period, c.cost)
	return m.result(debt, c.cost, lease, !denied)
}

// reading is the debt of the key as far as this node knows, and what it holds.
func (e *entry) reading(now, period int64) (debt, lease int64) {
	if e.asked != 0 {
		debt = e.known(now)
	}
	if e.meter != nil {
		debt += e.debt * e.meter.interval
	}
	if e.leased(now, period) {
		lease = e.lease
	}
	return debt, lease
}

// leased reports whether the lease may be spent. One that ends too far ahead was
// given before the clock stepped back.
func (e *entry) leased(now, period int64) bool {
	return e.lease > 0 && now < e.until && e.until-now <= period
}

// denies reports whether the last answer, and the time since, rule out that the
// key can pay n units.
func (e *entry) denies(now, period, n int64) bool {
	if e.asked == 0 || now < e.asked-clockSlack || now > e.asked+maxDenial*period {
		return false
	}
	debt := e.known(now)
	if e.leased(now, period) {
		debt -= e.lease * e.meter.interval
	}
	return e.meter.lacks(debt, n) > 0
}

// pay decides on one debit from what this node knows, or says that Redis must.
func (s *Store) pay(now int64, c *claim, key []byte, believed bool) (payment, ratelimit.Result) {
	m, period := c.meter, s.memory.period
	if c.cost > m.burst || m.burst == 0 {
		return unpaid, ratelimit.Result{Never: true}
	}
	sh := s.memory.shard(c.name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.find(c.name)
	fresh := e == nil
	if fresh {
		if e = s.memory.admit(sh, now, c.name, believed); e == nil {
			s.tally.crowded.Add(1)
			c.wire = nameOf(m.label, key)
			return asking, ratelimit.Result{}
		}
		e.wire = nameOf(m.label, key)
		e.once = !believed
	} else if c.cost > 0 {
		s.memory.age(now, period, e)
		if e.once = false; e.debt > 0 {
			sh.list(c.name, e)
		}
	}
	if e.meter != nil && e.meter != m && e.asked != 0 { // the limit changed: what was read is of the old one
		e.asked, e.full, e.part, e.warm = 0, 0, 0, max(e.warm, now+period)
	}
	e.meter, e.seen, c.wire = m, now, e.wire
	switch {
	case c.cost == 0:
		return asking, ratelimit.Result{}
	case e.leased(now, period) && e.lease >= c.cost:
		e.lease -= c.cost
		s.tally.fromLease.Add(1)
		return fromLease, m.result(e.known(now), 0, e.lease, true)
	case e.denies(now, period, c.cost):
		r := m.result(e.known(now), c.cost, 0, false)
		s.penalise(sh, now, c, e)
		s.tally.denied.Add(1)
		return unpaid, r
	case !fresh && now < e.warm && e.warm-now <= (maxDenial+1)*period:
		return asking, ratelimit.Result{}
	}
	return s.payCold(sh, now, c, e)
}

// payCold grants from the allowance of a key that was not asked for lately.
func (s *Store) payCold(sh *shard, now int64, c *claim, e *entry) (payment, ratelimit.Result) {
	m := c.meter
	debt := e.known(now) + e.debt*m.interval
	if s.health.silent.Load() || e.debt+c.cost > s.fleet().allowance(m) || m.lacks(debt, c.cost) > 0 {
		return asking, ratelimit.Result{}
	}
	if e.debt == 0 {
		e.since = now
	}
	e.debt += c.cost
	if !e.once || s.memory.strangers.admit(now, s.memory.period) {
		sh.list(c.name, e)
	}
	s.tally.fromDebt.Add(1)
	return fromDebt, m.result(debt+c.cost*m.interval, 0, 0, true)
}

// punish is penalise for a debit that was only looked at.
func (s *Store) punish(now int64, c *claim) {
	if !c.meter.policy.Penalty || c.cost > c.meter.burst {
		return
	}
	sh := s.memory.shard(c.name)
	sh.mu.Lock()
	if e := sh.find(c.name); e != nil && e.asked != 0 {
		s.penalise(sh, now, c, e)
	}
	sh.mu.Unlock()
}

// penalise charges a denied request under a Penalty, up to one burst below
// empty. It is reported like any debt.
func (s *Store) penalise(sh *shard, now int64, c *claim, e *entry) {
	m := c.meter
	if !m.policy.Penalty {
		return
	}
	room := (2*m.window - e.known(now)) / m.interval
	n := min(c.cost, room)
	if n <= 0 {
		return
	}
	if e.debt == 0 {
		e.since = now
	}
	e.debt += n
	debt := e.known(now) + n*m.interval
	e.full, e.part = now+debt/m.scale, debt%m.scale
	e.once = false
	sh.list(c.name, e)
}

// undo gives back what was paid here for a request that was not granted. What
// Redis was asked for is its own affair: see settle.go.
func (s *Store) undo(now int64, claims []claim) {
	for i := range claims {
		c := &claims[i]
		if c.paid != fromLease && c.paid != fromDebt {
			continue
		}
		sh := s.memory.shard(c.name)
		sh.mu.Lock()
		e := sh.find(c.name)
		switch {
		case e == nil: // evicted in this very moment: the units are lost
		case c.paid == fromDebt && e.debt >= c.cost:
			e.debt -= c.cost
		case e.leased(now, s.memory.period):
			e.lease += c.cost // which Redis has counted, whatever it was paid from
		default: // Redis has been told meanwhile
			s.giveBack(&item{meter: c.meter, name: c.name, wire: c.wire}, c.cost, now)
		}
		sh.mu.Unlock()
	}
}

// down reports whether asking Redis is in vain, without using up a probe.
func (s *Store) down() bool {
	return s.breaker.StatsAt(s.clock()).State == breaker.Open
}
