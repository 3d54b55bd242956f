package redislimit

import (
	"context"
	"fmt"
	"math"
	"time"
)

// everything is a budget of reports without a bound.
const everything = math.MaxInt

// reportsPerSweep bounds the reports of one sweep. What is above waits: it is
// owed, not lost, and no key owes more than its allowance.
const reportsPerSweep = 1024

// sweepsPerPeriod is how often expired leases are looked for.
const sweepsPerPeriod = 4

// sweepAt queues what is due of every entry that owes something: leases that are
// over, and units granted here a period ago. With the budget everything it
// queues all, due or not.
func (s *Store) sweepAt(now int64, budget int) {
	for i := range s.memory.shards {
		sh := &s.memory.shards[i]
		sh.mu.Lock()
		budget = s.sweepShard(now, sh, budget)
		sh.mu.Unlock()
	}
}

func (s *Store) sweepShard(now int64, sh *shard, budget int) int {
	period := s.memory.period
	kept := sh.due[:0]
	for _, at := range sh.due {
		e := &sh.entries[at]
		if budget == everything {
			e.until = 0
		}
		due := e.lease > 0 && !e.leased(now, period) || e.debt > 0 && (now-e.since >= period || now < e.since) || budget == everything
		if due && budget > 0 && e.meter != nil {
			s.report(now, sh.names[at], e)
			if budget != everything {
				budget--
			}
		}
		if e.lease > 0 || e.debt > 0 {
			kept = append(kept, at)
			continue
		}
		e.listed = false
	}
	sh.due = kept
	return budget
}

// keepHouse returns leases and beats, until the store is closed.
func (s *Store) keepHouse() {
	tick := time.NewTicker(s.config.Period / sweepsPerPeriod)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		s.sweepAt(s.clock().UnixMicro(), reportsPerSweep)
		if n%sweepsPerPeriod != 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), max(s.config.Period/sweepsPerPeriod, s.config.Timeout))
		s.keepAlive(ctx)
		cancel()
	}
}

// keepAlive beats once and notes what came of it.
func (s *Store) keepAlive(ctx context.Context) {
	err := s.beat(ctx, false)
	if err != nil {
		s.tally.missed.Add(1)
	}
	s.health.beat(s.clock(), err)
}

// goodFor is how many beats a node may miss before it no longer counts.
const goodFor = 3

// beat tells Redis that this node lives, or leaves, and hears how many do.
func (s *Store) beat(ctx context.Context, leave bool) error {
	gone := "0"
	if leave {
		gone = "1"
	}
	args := []any{"", "", 1, s.config.Prefix + ":{nodes}", s.config.Node, goodFor * s.memory.period, gone}
	reply, err := run(ctx, s.client, &beats, args)
	if err != nil {
		return err
	}
	counts, ok := reply.([]any)
	if !ok || len(counts) != 2 {
		return fmt.Errorf("%w: %T", errReply, reply)
	}
	live, ok1 := counts[0].(int64)
	known, ok2 := counts[1].(int64)
	if !ok1 || !ok2 {
		return errReply
	}
	if !leave {
		s.heard(s.clock(), live, known == 1)
	}
	return nil
}

// heard takes over a count of live nodes. A smaller one has to be heard twice: a
// Redis that lost its memory hears of the nodes one by one, and meanwhile each
// would take a larger share.
func (s *Store) heard(now time.Time, live int64, known bool) {
	last := s.lastBeat
	s.lastBeat = heartbeat{now, max(live, 1)}
	if last.live == 0 {
		last.live = live
	} else if since := now.Sub(last.at); !known && since >= 0 && since < (goodFor-1)*s.config.Period {
		s.learnUntil(now) // it has forgotten this node, and hence the buckets
	}
	s.nodes.Store(max(live, last.live, 1))
}

// heartbeat is a count of nodes and when it was heard.
type heartbeat struct {
	at   time.Time
	live int64
}
