package ratelimit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// cases/ratelimit.md 11
func TestCase_RateLimit_11_ACancelledWaiterGivesItsTurnAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, perSecond(1, 1))
		start := time.Now()
		if err := b.Wait(t.Context(), "k", 1, time.Minute); err != nil {
			t.Fatal(err)
		}
		leaving, leave := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := b.Wait(leaving, "k", 1, time.Minute); !errors.Is(err, gone) {
				t.Errorf("the waiter that left: %v, want the cause", err)
			}
		})
		synctest.Wait()
		var turns [2]time.Duration
		for i := range turns {
			wg.Go(func() {
				if err := b.Wait(t.Context(), "k", 1, time.Minute); err != nil {
					t.Error(err)
				}
				turns[i] = time.Since(start)
			})
			synctest.Wait()
		}
		time.Sleep(500 * time.Millisecond)
		leave(gone)
		wg.Wait()
		if turns != [2]time.Duration{time.Second, 2 * time.Second} {
			t.Errorf("those behind were served after %v, want 1 s and 2 s: the turn moved up", turns)
		}
		if b.queue.waiting != 0 || len(b.queue.lines) != 0 {
			t.Errorf("the queue holds %d in %d lines", b.queue.waiting, len(b.queue.lines))
		}
	})
}

// cases/ratelimit.md 11
func TestCase_RateLimit_11_RefusedWaitersTakeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, perSecond(1, 1))
		take(t, b, b.now(), 1)
		var wg sync.WaitGroup
		var refused atomic.Int64
		for range 2000 {
			wg.Go(func() {
				var long *TooLongError
				if err := b.Wait(t.Context(), "k", 1, 500*time.Millisecond); errors.As(err, &long) && errors.Is(err, ErrTooLong) && long.Wait == time.Second {
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		if refused.Load() != 2000 {
			t.Errorf("%d refused with a wait of 1 s, want 2000", refused.Load())
		}
		if r := take(t, b, b.now(), 1); r.Wait != time.Second {
			t.Errorf("then: %+v, want a wait of 1 s", r)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		time.Sleep(time.Second)
		if err := b.Wait(cancelled, "k", 1, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before: %v", err)
		}
		if r := take(t, b, b.now(), 1); !r.Allowed {
			t.Error("a wait that was cancelled before it began took a unit")
		}
	})
}

// cases/ratelimit.md 12
func TestCase_RateLimit_12_ManyUnitsHaveOneDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, perSecond(1, 10))
		take(t, b, b.now(), 10)
		start := time.Now()
		if err := b.Wait(t.Context(), "k", 10, 9*time.Second); !errors.Is(err, ErrTooLong) || time.Since(start) != 0 {
			t.Errorf("9 s for what takes 10: %v after %v, want a refusal at once", err, time.Since(start))
		}
		if err := b.Wait(t.Context(), "k", 10, 10*time.Second); err != nil || time.Since(start) != 10*time.Second {
			t.Errorf("10 s: %v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := b.Wait(ctx, "k", 10, time.Minute); !errors.Is(err, ErrTooLong) {
			t.Errorf("a context that ends too early: %v, want a refusal at once", err)
		}
	})
}

func TestWaitersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := NewBucket(BucketConfig{Limit: perSecond(1, 1), Keys: MinKeys, MaxWaiters: 2})
		if err != nil {
			t.Fatal(err)
		}
		take(t, b, b.now(), 1)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := b.Wait(t.Context(), "k", 1, time.Minute); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if err := b.Wait(t.Context(), "k", 1, time.Minute); !errors.Is(err, ErrTooManyWait) {
			t.Errorf("the third: %v, want ErrTooManyWait", err)
		}
		if err := b.Wait(t.Context(), "other", 1, time.Minute); err != nil {
			t.Errorf("who need not wait: %v", err)
		}
		wg.Wait()
	})
}

func TestReservationsAreGivenBackOnceAndBeforeTheirTime(t *testing.T) {
	b := newBucket(t, perSecond(1, 1))
	take(t, b, t0, 1)
	r, err := b.ReserveAt(t0, "k", 1, time.Minute)
	if err != nil || r.Wait != time.Second {
		t.Fatalf("%+v, %v", r, err)
	}
	r.CancelAt(ms(100))
	r.CancelAt(ms(100))
	if again, err := b.ReserveAt(ms(100), "k", 1, time.Minute); err != nil || again.Wait != 900*time.Millisecond {
		t.Errorf("after the cancellation: %v, %v; want 900 ms", again.Wait, err)
	} else {
		again.CancelAt(ms(1000)) // its instant has come: the holder may have acted
	}
	if r := take(t, b, ms(1000), 1); r.Allowed {
		t.Error("a reservation was given back after its instant")
	}
	// A long reservation is no fault of a clock.
	if _, err := b.ReserveAt(t0, "far", 1, time.Minute); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		if r, err := b.ReserveAt(t0, "far", 1, time.Minute); err != nil || r.Wait != time.Duration(i+1)*time.Second {
			t.Fatalf("reservation %d: %v, %v", i, r.Wait, err)
		}
	}
}
