package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// cases/ratelimit.md 1
func TestCase_RateLimit_1_TheWaitIsExactAndRoundsUp(t *testing.T) {
	b := newBucket(t, perSecond(10, 1))
	take(t, b, ms(0), 1)
	r := take(t, b, ms(10), 1)
	if r.Allowed || r.Wait != 90*time.Millisecond || r.Next != 90*time.Millisecond {
		t.Fatalf("at 10 ms: %+v, want a denial with 90 ms to wait", r)
	}
	if got := seconds(r.Wait); got != 1 {
		t.Errorf("in seconds: %d, want 1", got)
	}
	if r := take(t, b, ms(10).Add(r.Wait-time.Microsecond), 1); r.Allowed {
		t.Error("admitted a microsecond early")
	}
	if r := take(t, b, ms(10).Add(r.Wait), 1); !r.Allowed {
		t.Errorf("who waits exactly as told is refused: %+v", r)
	}
}

// cases/ratelimit.md 3
func TestCase_RateLimit_3_AFreshKeyHasItsBurstAndNoMore(t *testing.T) {
	b := newBucket(t, perSecond(5, 5))
	if n := admitted(t, b, ms(0), 6); n != 5 {
		t.Errorf("at once: %d admitted, want 5", n)
	}
	total := 5
	for at := int64(1); at <= 1000; at++ {
		total += admitted(t, b, ms(at), 1)
	}
	if total != 10 {
		t.Errorf("over [0, 1 s]: %d admitted, want 10", total)
	}
}

// cases/ratelimit.md 5
func TestCase_RateLimit_5_HugeCostsAreDeniedForGood(t *testing.T) {
	b := newBucket(t, Limit{Rate: Rate{1, day}})
	for _, n := range []int64{2, 200_000_000, 1 << 62, math.MaxInt64} {
		if r := take(t, b, t0, n); r.Allowed || !r.Never {
			t.Errorf("cost %d: %+v, want never", n, r)
		}
		if err := b.ChargeAt(t0, fmt.Sprint(n), n); err != nil {
			t.Errorf("charge %d: %v", n, err)
		}
		if r, _ := b.TakeAt(t0, fmt.Sprint(n), 1); r.Allowed || r.Wait <= 0 || r.Wait > 2*day {
			t.Errorf("after a charge of %d: %+v, want a wait of at most the burst and one more", n, r)
		}
		if err := b.RefundAt(t0, "", fmt.Sprint(n), n); err != nil {
			t.Errorf("refund %d: %v", n, err)
		}
		if r, _ := b.TakeAt(t0, fmt.Sprint(n), 0); r.Remaining != 1 {
			t.Errorf("after a refund of %d: %d left, want 1", n, r.Remaining)
		}
	}
	if _, err := NewBucket(BucketConfig{Limit: Limit{Rate: Rate{1, day}, Burst: 1 << 62}}); err == nil {
		t.Error("a burst that takes more than all time to refill is accepted")
	}
}

// cases/ratelimit.md 7
func TestCase_RateLimit_7_NegativeCostsMintNothing(t *testing.T) {
	b := newBucket(t, perSecond(1, 10))
	take(t, b, t0, 4)
	if _, err := b.TakeAt(t0, "k", -5); !errors.Is(err, ErrNegativeCost) {
		t.Errorf("take -5: %v, want ErrNegativeCost", err)
	}
	if err := b.RefundAt(t0, "id", "k", -5); !errors.Is(err, ErrNegativeCost) {
		t.Errorf("refund -5: %v, want ErrNegativeCost", err)
	}
	if err := b.ChargeAt(t0, "k", -5); !errors.Is(err, ErrNegativeCost) {
		t.Errorf("charge -5: %v, want ErrNegativeCost", err)
	}
	if r := take(t, b, t0, 0); r.Remaining != 6 {
		t.Errorf("%d left, want 6", r.Remaining)
	}
	for range 3 { // one request, three refunds
		if err := b.RefundAt(t0, "id", "k", 2); err != nil {
			t.Fatal(err)
		}
	}
	if r := take(t, b, t0, 0); r.Remaining != 8 {
		t.Errorf("after refunds of one id: %d left, want 8", r.Remaining)
	}
	if err := b.RefundAt(t0, "other", "k", 100); err != nil {
		t.Fatal(err)
	}
	if r := take(t, b, t0, 0); r.Remaining != 10 {
		t.Errorf("after too large a refund: %d left, want the burst of 10", r.Remaining)
	}
	for _, bad := range []string{"", "/s", "NaN/s", "-1/s", "1.5/s", "1e3/s", "+1/s", "1/", "1/w", "1/0s", "1 0/s", "٣/s"} {
		if r, err := ParseRate(bad); err == nil {
			t.Errorf("ParseRate(%q) = %v, want an error", bad, r)
		}
	}
}

// cases/ratelimit.md 8
func TestCase_RateLimit_8_CostZeroPeeks(t *testing.T) {
	b := newBucket(t, perSecond(1, 3))
	for range 5 {
		if r := take(t, b, t0, 0); !r.Allowed || r.Remaining != 3 || r.Next != 0 {
			t.Fatalf("peek at a fresh key: %+v", r)
		}
	}
	if n := held(b.table); n != 0 {
		t.Errorf("peeks made %d keys", n)
	}
	take(t, b, t0, 3)
	if r := take(t, b, ms(250), 0); r.Remaining != 0 || r.Next != 750*time.Millisecond {
		t.Errorf("peek at an empty bucket: %+v, want 750 ms to the next unit", r)
	}
}

// held counts cells in use.
func held(t *Table) (n int) {
	for i := range t.shards {
		for _, lines := range t.shards[i].lines {
			for _, l := range lines {
				for _, c := range l {
					if c.name != 0 {
						n++
					}
				}
			}
		}
	}
	return n
}

// cases/ratelimit.md 9
func TestCase_RateLimit_9_RateZeroDeniesEverything(t *testing.T) {
	for _, l := range []Limit{{}, {Burst: 1}, {Rate: Rate{0, time.Second}}, {Rate: Rate{0, time.Second}, Burst: 5}} {
		b := newBucket(t, l)
		for range 3 {
			if r := take(t, b, t0, 1); r.Allowed || !r.Never || r.Remaining != 0 {
				t.Errorf("%+v: %+v, want a denial for good", l, r)
			}
			if _, err := b.ReserveAt(t0, "k", 1, time.Hour); !errors.Is(err, ErrNever) {
				t.Errorf("%+v: reservation: %v, want ErrNever", l, err)
			}
		}
		if err := b.ChargeAt(t0, "k", 1); err != nil {
			t.Error(err)
		}
		if r := take(t, b, t0, 0); r.Remaining != 0 || r.Next != 0 {
			t.Errorf("%+v: peek: %+v", l, r)
		}
	}
}

// cases/ratelimit.md 14, cases/proxy.md 38
func TestCase_RateLimit_14_SustainedOverRateLocksNobodyOut(t *testing.T) {
	b := newBucket(t, Limit{Rate: Rate{100, time.Minute}})
	total := 0
	for minute := range 10 {
		n := 0
		for i := range 150 {
			n += admitted(t, b, t0.Add(time.Duration(minute)*time.Minute+time.Duration(i)*400*time.Millisecond), 1)
		}
		// The burst of the first minute is spent by the third.
		if n < 100 || minute > 2 && n != 100 {
			t.Errorf("minute %d: %d admitted, want 100", minute, n)
		}
		total += n
	}
	if total > 1100 {
		t.Errorf("in all: %d admitted, want at most 100 + 10·100", total)
	}
}

// cases/ratelimit.md 19
func TestCase_RateLimit_19_ConcurrentTakesAdmitTheBurstExactly(t *testing.T) {
	for round := range 50 {
		b := newBucket(t, perSecond(1, 10))
		var n atomic.Int64
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				if r, _ := b.TakeAt(t0, "k", 1); r.Allowed {
					n.Add(1)
				}
			})
		}
		wg.Wait()
		if n.Load() != 10 {
			t.Fatalf("round %d: %d admitted, want 10", round, n.Load())
		}
	}
}

// cases/ratelimit.md 20, as far as one process can see it: its clock steps.
func TestCase_RateLimit_20_AClockThatStepsBack(t *testing.T) {
	const back = -time.Hour
	b := newBucket(t, perSecond(10, 10))
	if n := admitted(t, b, t0, 20); n != 10 {
		t.Fatalf("%d admitted, want 10", n)
	}
	// Nobody is locked out for the hour, and the hour is not refilled twice.
	if n := admitted(t, b, t0.Add(back), 20); n != 0 {
		t.Errorf("right after the step: %d admitted, want 0", n)
	}
	if n := admitted(t, b, t0.Add(back+time.Second), 20); n != 10 {
		t.Errorf("a second later: %d admitted, want 10", n)
	}
	if n := admitted(t, b, t0, 20); n > 10 {
		t.Errorf("an hour later: %d admitted, want at most the burst of 10", n)
	}
	// A lag of some milliseconds between callers gains nothing.
	b = newBucket(t, perSecond(10, 10))
	total := 0
	for i := range 1000 {
		total += admitted(t, b, t0.Add(-time.Duration(i%2)*5*time.Millisecond), 1)
	}
	if total != 10 {
		t.Errorf("callers whose clocks differ by 5 ms: %d admitted, want 10", total)
	}
}

func TestPostPaidCostIsOwedUpToOneBurst(t *testing.T) {
	b := newBucket(t, perSecond(1, 10))
	take(t, b, t0, 1)
	if err := b.ChargeAt(t0, "k", 1000); err != nil {
		t.Fatal(err)
	}
	if r := take(t, b, t0, 1); r.Wait != 11*time.Second {
		t.Errorf("wait %v, want 11 s: ten owed and one wanted", r.Wait)
	}
}

func TestRefundsAreForgottenAfterTheirTime(t *testing.T) {
	b := newBucket(t, Limit{Rate: Rate{1, time.Hour}, Burst: 10})
	take(t, b, t0, 10)
	for _, at := range []time.Duration{0, RefundMemory - time.Second, RefundMemory + time.Second} {
		if err := b.RefundAt(t0.Add(at), "id", "k", 1); err != nil {
			t.Fatal(err)
		}
	}
	if r := take(t, b, t0.Add(RefundMemory+time.Second), 0); r.Remaining != 2 {
		t.Errorf("%d left, want 2: the same id counts again after its time", r.Remaining)
	}
}

func TestUnseenKeysOfABucketShareABound(t *testing.T) {
	b, err := NewBucket(BucketConfig{Limit: perSecond(10, 10), Unseen: perSecond(5, 5), Keys: MinKeys})
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for i := range 100 {
		if r, _ := b.TakeAt(t0, fmt.Sprint(i), 1); r.Allowed {
			passed++
		}
	}
	if _, err := b.ReserveAt(t0, "new", 1, time.Second); passed != 5 || !errors.Is(err, ErrTooLong) {
		t.Errorf("%d new keys passed, want 5; a reservation of one more: %v", passed, err)
	}
	if r, _ := b.TakeAt(t0, "0", 9); !r.Allowed {
		t.Error("a key that was there is denied")
	}
}

func TestBucketConfigReportsEveryProblem(t *testing.T) {
	_, err := NewBucket(BucketConfig{Limit: Limit{Rate: Rate{-1, 0}, Burst: -2}, Keys: 5, MaxWait: -1, MaxWaiters: -1})
	for _, want := range []string{"count -1", "burst -2", "5 keys", "MaxWait", "MaxWaiters"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %q", err, want)
		}
	}
	if _, err := newBucket(t, perSecond(1, 1)).TakeAt(t0, "", 1); !errors.Is(err, ErrEmptyKey) {
		t.Errorf("empty key: %v, want ErrEmptyKey", err)
	}
}
