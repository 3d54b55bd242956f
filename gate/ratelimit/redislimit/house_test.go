package redislimit

import (
	"testing"
	"time"

	"github.com/comporta/comporta/gate/ratelimit"
)

// cases/ratelimit.md 32: the count of nodes rises at once and falls when it was
// heard twice; a Redis that has forgotten this node has forgotten the buckets.
func TestHeard(t *testing.T) {
	c := newClock()
	s := fake(t, newServer(c.Now), Config{Nodes: 4})
	for i, b := range []struct {
		after time.Duration
		live  int64
		known bool
		nodes int64
		learn bool
	}{
		{0, 1, false, 1, false},
		{time.Second, 6, true, 6, false},
		{time.Second, 2, true, 6, false},
		{time.Second, 2, true, 2, false},
		{time.Second, 1, false, 2, true},
		{5 * time.Second, 1, false, 1, false}, // it was away too long to be known
		{time.Second, 0, true, 1, false},
	} {
		c.Advance(b.after)
		s.heard(c.Now(), b.live, b.known)
		if s.nodes.Load() != b.nodes || s.learning() != b.learn {
			t.Errorf("beat %d: %d nodes, learning %v", i, s.nodes.Load(), s.learning())
		}
	}
}

func TestStrangersAreReportedUnlessTheyFlood(t *testing.T) {
	const period = 1_000_000
	var s strangers
	now := int64(period)
	reported := func(n int) (count int) {
		for range n {
			if s.admit(now, period) {
				count++
			}
		}
		now += period
		return count
	}
	for i, c := range []struct{ came, want int }{
		{10, 10}, {maxStrangers, maxStrangers}, {maxStrangers, maxStrangers}, {5000, maxStrangers}, {5000, 0}, {10, 0}, {10, 10},
	} {
		if got := reported(c.came); got != c.want {
			t.Errorf("period %d: %d of %d reported, want %d", i, got, c.came, c.want)
		}
	}
}

func TestOvershootIsMeasured(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	limit := ratelimit.Policy{Limit: per(100, 24*time.Hour, 100)}
	a, b := newNode(t, v, c, Config{Nodes: 2}, limit), newNode(t, v, c, Config{Nodes: 2}, limit)
	if !a.take("k", 1) {
		t.Fatal("denied")
	}
	for b.take("k", 10) {
	}
	for b.take("k", 1) {
	}
	b.settled()
	a.sweepAt(c.Now().UnixMicro(), everything)
	a.settled()
	st := a.StatsAt(c.Now())
	// One unit beyond the bucket; two nodes may each have one.
	if st.OvershotUnits != 1 || st.OvershootRatio != 0.5 {
		t.Errorf("%d units, ratio %v", st.OvershotUnits, st.OvershootRatio)
	}
	c.Advance(3 * time.Minute)
	if r := a.StatsAt(c.Now()).OvershootRatio; r != 0 {
		t.Errorf("after three minutes the ratio is %v", r)
	}
}

// A clock that steps back neither locks keys nor gives leases twice.
func TestClockStepsBack(t *testing.T) {
	c := newClock()
	n := newNode(t, newServer(newClock().Now), c, Config{}, ratelimit.Policy{Limit: per(100, 24*time.Hour, 100)})
	admitted := 0
	for range 30 {
		if n.take("k", 1) {
			admitted++
		}
	}
	c.Advance(-time.Hour)
	for range 300 {
		if n.take("k", 1) {
			admitted++
		}
	}
	n.sweep()
	for n.take("k", 1) {
		admitted++
	}
	if admitted != 100 {
		t.Errorf("%d admitted of 100", admitted)
	}
}

func TestRefundWithoutIDReopensADenial(t *testing.T) {
	c := newClock()
	n := newNode(t, newServer(c.Now), c, Config{}, ratelimit.Policy{Limit: per(10, 24*time.Hour, 10)})
	for n.take("k", 1) {
	}
	if err := n.Refund(t.Context(), c.Now(), "", []ratelimit.Debit{{Policy: n.policy, Key: []byte("k"), Cost: 2}}); err != nil {
		t.Fatal(err)
	}
	n.settled()
	if !n.take("k", 2) || n.take("k", 1) {
		t.Error("two units came back, and not two units can be taken")
	}
}

// Around the end of a period callers come in no order. That neither ends a flood
// nor counts it anew; a clock that steps far back does.
func TestStrangersComeLate(t *testing.T) {
	const period = 1_000_000
	var s strangers
	told := 0
	for range 3 * maxStrangers {
		if s.admit(10*period, period) {
			told++
		}
	}
	for i := range int64(3 * maxStrangers) { // now one of this period, now one of the one before
		if s.admit((11-i%2)*period, period) {
			told++
		}
	}
	if told != maxStrangers {
		t.Errorf("%d of a flood are told, want %d", told, maxStrangers)
	}
	if !s.admit(5*period, period) {
		t.Error("a clock that steps back is a flood for ever")
	}
}
