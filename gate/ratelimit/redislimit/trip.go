package redislimit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/comporta/comporta"
)

// batch is one call of the script in the making. Its room is used again.
type batch struct {
	keys    []string
	meters  []*meter // of the keys, but for refund ids
	ids     []string
	index   map[name]int // of keys, from 1
	numbers []byte
	scratch []byte
}

// key returns the number that the script knows a key by. Two generations of a
// policy have the same keys; the newer one says how they count.
func (b *batch) key(prefix string, lane int, it *item) int {
	if i := b.index[it.wire]; i > 0 {
		b.meters[i-1] = it.meter
		return i
	}
	b.scratch = appendKey(b.scratch[:0], prefix, lane, it.wire)
	b.keys = append(b.keys, string(b.scratch))
	b.meters = append(b.meters, it.meter)
	b.index[it.wire] = len(b.keys)
	return len(b.keys)
}

func (b *batch) number(n int64) {
	b.numbers = append(strconv.AppendInt(b.numbers, n, 10), ',')
}

// The flags of an item of a take.
const (
	flagShadow  = 1
	flagPenalty = 2
)

// encode writes what take.lua reads.
func (b *batch) encode(prefix string, lane int, shares int64, learning bool, questions []*question) {
	if b.index == nil {
		b.index = map[name]int{}
	}
	clear(b.index)
	b.keys, b.meters, b.ids = b.keys[:0], b.meters[:0], b.ids[:0]
	for _, q := range questions {
		for i := range q.items {
			b.key(prefix, lane, &q.items[i])
		}
		if q.refund != nil {
			b.scratch = appendKey(b.scratch[:0], prefix, lane, *q.refund)
			b.ids = append(b.ids, string(b.scratch))
		}
	}
	b.numbers = append(b.numbers[:0], '[')
	b.number(shares)
	if learning {
		b.number(1)
	} else {
		b.number(0)
	}
	b.number(int64(len(b.keys)))
	for _, m := range b.meters {
		b.number(m.interval)
		b.number(m.scale)
		b.number(m.burst)
	}
	id := int64(len(b.keys))
	b.keys = append(b.keys, b.ids...)
	for _, q := range questions {
		if !q.settle {
			b.take(q)
			continue
		}
		b.number(2)
		b.number(int64(b.index[q.items[0].wire]))
		b.number(q.items[0].cost)
		if q.refund == nil {
			b.number(0)
		} else {
			id++
			b.number(id)
		}
	}
	b.numbers[len(b.numbers)-1] = ']'
}

func (b *batch) take(q *question) {
	b.number(1)
	b.number(int64(len(q.items)))
	for i := range q.items {
		it := &q.items[i]
		b.number(int64(b.index[it.wire]))
		b.number(it.cost)
		var flags int64
		if it.meter.policy.Shadow {
			flags |= flagShadow
		}
		if it.meter.policy.Penalty {
			flags |= flagPenalty
		}
		b.number(flags)
		b.number(it.want)
	}
}

var errReply = errors.New("the script said something else than expected")

// decode reads the reply into the items.
func decode(reply string, questions []*question) error {
	at := 0
	next := func() (n int64, err error) {
		for at < len(reply) && reply[at] == ' ' {
			at++
		}
		from := at
		for at < len(reply) && reply[at] != ' ' {
			at++
		}
		n, err = strconv.ParseInt(reply[from:at], 10, 64)
		if err != nil || n < 0 {
			return 0, errReply
		}
		return n, nil
	}
	for _, q := range questions {
		for i := range q.items {
			it := &q.items[i]
			ok, err1 := next()
			lease, err2 := next()
			debt, err3 := next()
			if err := errors.Join(err1, err2, err3); err != nil || debt > 1<<53 || lease > it.meter.burst*2 {
				return errReply
			}
			it.ok, it.lease, it.debt = ok == 1, lease, debt
		}
	}
	if at != len(reply) {
		return errReply
	}
	return nil
}

// trip asks Redis one batch and tells everybody what it said.
func (s *Store) trip(l *lane, questions []*question) {
	sent := questions[:0]
	for _, q := range questions {
		if q.state.CompareAndSwap(waiting, flying) {
			sent = append(sent, q)
		}
	}
	if len(sent) == 0 {
		return
	}
	flown, err := s.call(l, sent)
	for _, q := range sent {
		switch {
		case err == nil:
			s.learnFrom(q)
		case q.settle && q.done == nil:
			s.unsettled(q, flown)
		}
		s.release(q)
		if q.done != nil {
			q.done <- err
		}
	}
}

// call is one round trip under the eyes of the breaker. It has flown when Redis
// may have heard of it.
func (s *Store) call(l *lane, sent []*question) (flown bool, err error) {
	permit, err := s.breaker.AllowAt(s.clock())
	if err != nil {
		return false, s.refusal()
	}
	f := s.fleet()
	l.batch.encode(s.config.Prefix, l.number, 2*f.nodes, s.learning(), sent)
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Timeout)
	defer cancel()
	s.tally.trips.Add(1)
	s.tally.asked.Add(uint64(len(sent)))
	reply, err := s.ask(ctx, l.number, l.batch.keys, l.batch.numbers)
	if err == nil {
		err = decode(reply, sent)
	}
	s.health.spoke(err)
	permit.DoneAt(s.clock(), outcomeOf(err))
	if err != nil {
		s.tally.errors.Add(1)
		return true, &UnavailableError{Cause: err}
	}
	return true, nil
}

// refusal says how long the breaker stays open.
func (s *Store) refusal() error {
	s.tally.refused.Add(1)
	return &UnavailableError{RetryAfter: s.breaker.StatsAt(s.clock()).RetryAfter}
}

func outcomeOf(err error) comporta.Outcome {
	var timeout net.Error
	switch {
	case err == nil:
		return comporta.Outcome{Result: comporta.ResultSuccess}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return comporta.Outcome{Result: comporta.ResultTimeout}
	}
	return comporta.Outcome{Result: comporta.ResultUnreachable}
}

// askRedis is the asker of a Store with a client.
func (s *Store) askRedis(ctx context.Context, _ int, keys []string, numbers []byte) (string, error) {
	args := make([]any, 0, len(keys)+4)
	args = append(args, "", "", len(keys))
	for _, key := range keys {
		args = append(args, key)
	}
	reply, err := run(ctx, s.client, &takes, append(args, numbers))
	if err != nil {
		return "", err
	}
	text, ok := reply.(string)
	if !ok {
		return "", fmt.Errorf("%w: %T", errReply, reply)
	}
	return text, nil
}

// learnFrom notes what an answer says about the keys.
func (s *Store) learnFrom(q *question) {
	for i := range q.items {
		it := &q.items[i]
		if q.settle { // the script says in its place how far the bucket was overdrawn
			s.overshot(it)
			it.lease = 0
		}
		s.tally.leased.Add(uint64(it.lease))
		sh := s.memory.shard(it.name)
		sh.mu.Lock()
		e := sh.find(it.name)
		switch {
		case e != nil && e.wire == it.wire:
			e.learn(q.now, it, s.memory.period)
			if it.lease > 0 {
				sh.list(it.name, e)
			}
			sh.mu.Unlock()
		default:
			sh.mu.Unlock()
			s.giveBack(it, it.lease, q.now) // nobody is left to spend it
		}
	}
}

// learn takes over an answer. A lease begins when it was asked for, so that it
// never lasts longer than a period.
func (e *entry) learn(now int64, it *item, period int64) {
	e.meter = it.meter
	e.full, e.part = now+it.debt/it.meter.scale, it.debt%it.meter.scale
	e.asked = now
	e.warm = now + period
	if it.meter.interval > 0 {
		e.warm += min(max(it.meter.micros(it.meter.lacks(it.debt, 1)), 0), maxDenial*period)
	}
	if it.lease > 0 {
		e.lease += it.lease
		e.until = now + period
	}
}

// release ends what a question held: entries that are asked about stay.
func (s *Store) release(q *question) {
	if q.settle {
		return
	}
	for i := range q.items {
		it := &q.items[i]
		sh := s.memory.shard(it.name)
		sh.mu.Lock()
		if e := sh.find(it.name); e != nil && e.wire == it.wire && e.asking > 0 {
			e.asking--
		}
		sh.mu.Unlock()
	}
}
