package redislimit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/gate/ratelimit"
)

// A batch takes what queued while the one before was under way: no timer, one
// round trip for a crowd.
func TestNaturalBatching(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	n := newNode(t, v, c, Config{}, ratelimit.Policy{Limit: per(1000, time.Hour, 1000)})
	enter, leave := make(chan int, 8), make(chan struct{})
	n.ask = func(ctx context.Context, lane int, keys []string, numbers []byte) (string, error) {
		enter <- len(keys)
		<-leave
		return v.ask(ctx, lane, keys, numbers)
	}
	var wg sync.WaitGroup
	wg.Go(func() { n.take("first", 2) })
	if keys := <-enter; keys != 1 {
		t.Errorf("the first flight has %d keys", keys)
	}
	for i := range 40 {
		wg.Go(func() { n.take(fmt.Sprint("k", i), 2) })
	}
	for n.queued() < 40 {
		runtime.Gosched()
	}
	leave <- struct{}{}
	if keys := <-enter; keys != 40 {
		t.Errorf("the second flight has %d keys, want 40", keys)
	}
	close(leave)
	wg.Wait()
	if st := n.StatsAt(c.Now()); st.Trips != 2 || st.Asked != 41 {
		t.Errorf("%d trips for %d questions", st.Trips, st.Asked)
	}
}

func (s *Store) queued() (n int) {
	for i := range s.lanes {
		s.lanes[i].mu.Lock()
		n += len(s.lanes[i].queue)
		s.lanes[i].mu.Unlock()
	}
	return n
}

// The queue is bounded, and callers that leave are not sent.
func TestQueueIsBoundedAndLateCallersLeave(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	n := newNode(t, v, c, Config{Queue: minQueue}, ratelimit.Policy{Limit: per(1000, time.Hour, 1000)})
	enter, leave := make(chan struct{}, 8), make(chan struct{})
	n.ask = func(ctx context.Context, lane int, keys []string, numbers []byte) (string, error) {
		enter <- struct{}{}
		<-leave
		return v.ask(ctx, lane, keys, numbers)
	}
	var wg sync.WaitGroup
	wg.Go(func() { n.take("first", 2) })
	<-enter
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client is gone")
	for i := range minQueue {
		wg.Go(func() {
			debits := []ratelimit.Debit{{Policy: n.policy, Key: fmt.Append(nil, "k", i), Cost: 2}}
			if _, err := n.Take(ctx, c.Now(), debits, make([]ratelimit.Result, 1)); !errors.Is(err, gone) || !errors.Is(err, ErrUnavailable) {
				t.Errorf("who left is told %v", err)
			}
		})
	}
	for n.queued() < minQueue {
		runtime.Gosched()
	}
	if _, _, err := n.tryTake("late", 2, true); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a full queue says %v", err)
	}
	cancel(gone)
	for n.StatsAt(c.Now()).Late < minQueue {
		runtime.Gosched()
	}
	close(leave)
	wg.Wait()
	n.settled()
	if st := n.StatsAt(c.Now()); st.Busy != 1 || st.Asked != 1 || len(v.keys) != 1 {
		t.Errorf("%+v, %d keys", st, len(v.keys))
	}
	if n.take("k0", 2); n.pinned() != 0 {
		t.Errorf("%d entries are still held by questions", n.pinned())
	}
}

func (s *Store) pinned() (n int) {
	for i := range s.memory.shards {
		for j := range s.memory.shards[i].entries {
			n += int(s.memory.shards[i].entries[j].asking)
		}
	}
	return n
}

// cases/ratelimit.md 22: the three modes, as the rules of a limiter have them.
func TestCase_RateLimit_22_FailureModes(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	v.down = true
	for _, mode := range []ratelimit.FailureMode{ratelimit.FailOpen, ratelimit.FailClosed, ratelimit.FailLocal} {
		t.Run(mode.String(), func(t *testing.T) {
			table, err := ratelimit.NewTable(ratelimit.MinKeys)
			if err != nil {
				t.Fatal(err)
			}
			l, err := ratelimit.New(c.Now(), ratelimit.Config{
				Stores: map[string]ratelimit.Store{"shared": fake(t, v, Config{})},
				Rules: []ratelimit.Rule{{
					Name: "api", Limit: per(40, time.Hour, 40), Cost: 10, Store: "shared", OnFailure: mode, LocalShare: 0.25, NoAggregates: true,
					Key: ratelimit.Key{},
				}},
			}, table)
			if err != nil {
				t.Fatal(err)
			}
			r := &comporta.Request{Method: "GET", Path: "/"}
			r.Client.Name, r.Client.Class = "ana", comporta.ClassVerified
			admitted, reason := 0, comporta.ReasonNone
			var verdict ratelimit.Verdict
			for range 20 {
				if l.TakeAt(t.Context(), c.Now(), r, &verdict) {
					admitted++
				} else {
					reason = verdict.Reason
				}
			}
			want := map[ratelimit.FailureMode]int{ratelimit.FailOpen: 20, ratelimit.FailClosed: 0, ratelimit.FailLocal: 1}[mode]
			why := map[ratelimit.FailureMode]comporta.Reason{
				ratelimit.FailClosed: comporta.LimiterUnavailable, ratelimit.FailLocal: comporta.RateLimited,
			}[mode]
			// What a node may grant before it asks, it grants: one cost of 10 is above it.
			if admitted != want || reason != why {
				t.Errorf("%d admitted, %v; want %d, %v", admitted, reason, want, why)
			}
		})
	}
}

// The breaker opens, probes, closes; then half grants for a period.
func TestOutageAndReturn(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	n := newNode(t, v, c, Config{Breaker: breakerWithoutJitter()}, ratelimit.Policy{Limit: per(100, time.Hour, 100)})
	for n.take("k", 20) {
	}
	v.mu.Lock()
	v.down, v.keys = true, map[string]held{}
	v.mu.Unlock()
	for i := range 10 {
		if _, _, err := n.tryTake(fmt.Sprint("x", i), 60, true); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
	}
	st := n.StatsAt(c.Now())
	if st.Errors+st.Refused != 10 || st.Refused < 4 { // half of the calls have to fail
		t.Errorf("%d calls failed and %d were refused", st.Errors, st.Refused)
	}
	var unavailable *UnavailableError
	if _, _, err := n.tryTake("x", 60, true); !errors.As(err, &unavailable) || unavailable.RetryAfter <= 0 {
		t.Errorf("an open breaker says %v", err)
	}
	v.mu.Lock()
	v.down = false
	v.mu.Unlock()
	c.Advance(400 * time.Millisecond)
	if n.take("a", 10); !n.learning() {
		t.Fatal("grants are not halved")
	}
	if n.take("fresh", 60) || !n.take("fresh", 50) {
		t.Error("a bucket that Redis may have forgotten is not half full")
	}
	c.Advance(time.Second)
	if n.learning() || !n.take("later", 60) {
		t.Error("grants are still halved")
	}
}

// A call whose answer is lost is an error, and is never sent again.
func TestCase_RateLimit_24_LostAnswerIsNotReplayed(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	n := newNode(t, v, c, Config{}, ratelimit.Policy{Limit: per(100, time.Hour, 100)})
	v.lose = true
	if _, _, err := n.tryTake("k", 60, true); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	v.lose = false
	c.Advance(time.Millisecond)
	if _, r, err := n.tryTake("k", 0, true); err != nil || r.Remaining != 40 || v.calls != 2 {
		t.Errorf("%+v left after %d calls, %v", r, v.calls, err)
	}
}

func breakerWithoutJitter() breaker.Config {
	return breaker.Config{Rand: func() float64 { return 0 }}
}
