package redislimit

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/gate/ratelimit"
)

// cases/ratelimit.md 22: once a round trip has failed, nothing is granted here
// that Redis would have to be told of: each caller would be let in once a period,
// also by a closed rule. The first answer ends that.
func TestCase_RateLimit_22_ASilentRedisGrantsNothingNew(t *testing.T) {
	c := newClock()
	v := newServer(c.Now)
	n := newNode(t, v, c, Config{}, ratelimit.Policy{Limit: per(10, time.Second, 10), OnFailure: ratelimit.FailClosed})
	if !n.take("before", 1) {
		t.Fatal("a fresh key is denied")
	}
	v.mu.Lock()
	v.down = true
	v.mu.Unlock()
	if _, _, err := n.tryTake("asks", 10, true); !errors.Is(err, ErrUnavailable) {
		t.Fatal(err)
	}
	for i := range 20 { // slower than the breaker would notice
		c.Advance(500 * time.Millisecond)
		if ok, _, err := n.tryTake(fmt.Sprint("fresh", i%3), 1, true); ok || !errors.Is(err, ErrUnavailable) {
			t.Fatalf("call %d without Redis: %t, %v", i, ok, err)
		}
	}
	v.mu.Lock()
	v.down = false
	v.mu.Unlock()
	c.Advance(time.Second)
	if _, _, err := n.tryTake("asks", 10, true); err != nil {
		t.Fatal(err)
	}
	before := n.StatsAt(c.Now()).Cold
	if !n.take("fresh9", 1) || n.StatsAt(c.Now()).Cold != before+1 {
		t.Error("fresh keys are still asked for")
	}
}

// Redis goes and comes once, however many notice.
func TestTraceOfAnOutage(t *testing.T) {
	var told []string
	h := health{trace: Trace{
		Lost:  func(_ time.Time, cause error) { told = append(told, fmt.Sprint("lost: ", cause)) },
		Found: func(time.Time) { told = append(told, "found") },
	}}
	now, gone := time.Now(), errors.New("gone")
	h.beat(now, nil)
	h.beat(now, gone)
	h.changed(now, breaker.Change{From: breaker.Closed, To: breaker.Open})
	h.beat(now, gone)
	h.changed(now, breaker.Change{From: breaker.Open, To: breaker.HalfOpen})
	h.changed(now, breaker.Change{From: breaker.HalfOpen, To: breaker.Closed})
	h.beat(now, nil)
	h.changed(now, breaker.Change{From: breaker.Closed, To: breaker.Open})
	if got, want := fmt.Sprint(told), "[lost: gone found lost: <nil>]"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
	if !h.lost.Load() || h.silent.Load() {
		t.Errorf("%+v", &h)
	}
}
