package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// An outage of an hour costs the server a handful of calls, and the queue
// drains when it ends.
func TestRunThroughAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(t, Config{})
		for i := range 20 {
			if _, err := q.Enqueue(Entry{Key: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
		began, failed, sent := time.Now(), 0, map[string]int{}
		ctx, cancel := context.WithCancelCause(t.Context())
		over := errors.New("over")
		err := q.Run(ctx, func(_ context.Context, item Item) Result {
			if time.Since(began) < time.Hour {
				failed++
				return Result{Fate: Again, Err: errBusy}
			}
			if sent[item.Key]++; len(sent) == 20 {
				cancel(over)
			}
			return Result{Fate: Done}
		})
		if !errors.Is(err, over) {
			t.Fatal(err)
		}
		if len(sent) != 20 || q.Stats().Waiting != 0 || q.Stats().Dead != 0 {
			t.Errorf("sent %d, left %+v", len(sent), q.Stats())
		}
		if failed > 120 { // two a minute at the very most; about 30 on average
			t.Errorf("%d calls during the outage", failed)
		}
		if late := time.Since(began) - time.Hour; late > DefaultMaxWait {
			t.Errorf("drained %v after the outage", late)
		}
	})
}

func TestRunEndsAndGivesTheItemBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(t, Config{})
		if _, err := q.Enqueue(Entry{Key: "a"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := q.Run(ctx, func(ctx context.Context, _ Item) Result {
			if err := q.Run(ctx, nil); !errors.Is(err, ErrRunning) {
				t.Errorf("a second Run: %v", err)
			}
			<-ctx.Done()
			return Result{Fate: Again, Err: ctx.Err()}
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run: %v", err)
		}
		item, wait, err := q.NextAt(time.Now())
		if err != nil || wait != 0 || item.Key != "a" || item.Attempts != 1 {
			t.Errorf("the item that was broken off: %+v, %v, %v", item, wait, err)
		}
	})
}

func TestEnqueueWakesRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(t, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- q.Run(ctx, func(context.Context, Item) Result {
				cancel()
				return Result{Fate: Done}
			})
		}()
		synctest.Wait() // idle
		if _, err := q.Enqueue(Entry{}); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if n := q.Stats().Waiting; n != 0 {
			t.Errorf("%d wait", n)
		}
	})
}

// What an attempt found out while the app was being closed is not lost.
func TestWhatIsKnownAtTheEndIsNoted(t *testing.T) {
	over := errors.New("the app is closed")
	for _, c := range []struct {
		name     string
		result   func(ctx context.Context) Result
		attempts uint32
		wait     time.Duration // at most a tenth more
	}{
		{"broken off", func(ctx context.Context) Result { return Result{Err: fmt.Errorf("send: %w", ctx.Err())} }, 1, 0},
		{"broken off for a reason", func(ctx context.Context) Result { return Result{Err: context.Cause(ctx)} }, 1, 0},
		{"no byte reached a server", func(ctx context.Context) Result { return Result{Fate: Offline, Err: ctx.Err()} }, 0, 0},
		{"told to wait", func(ctx context.Context) Result { return Result{Wait: time.Hour, Err: ctx.Err()} }, 1, time.Hour},
		{"given a ticket", func(context.Context) Result { return Result{Wait: time.Hour, Ticket: "t", Err: errBusy} }, 1, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := open(t, Config{BaseWait: 1, MaxWait: 1})
				enqueue(t, q, time.Now(), "a")
				ctx, cancel := context.WithCancelCause(t.Context())
				if err := q.Run(ctx, func(ctx context.Context, _ Item) Result { cancel(over); return c.result(ctx) }); !errors.Is(err, over) {
					t.Error(err)
				}
				q = reopen(t, q)
				now := time.Now()
				left := q.state.pause.leftAt(now)
				if got := q.state.waiting[0].attempts; got != c.attempts || left < c.wait || left > c.wait+c.wait/10+1 {
					t.Errorf("%d attempts, then a wait of %v; want %d and %v", got, left, c.attempts, c.wait)
				}
			})
		})
	}
	// The server failed without naming a wait: that is its answer, and no end of
	// the context.
	synctest.Test(t, func(t *testing.T) {
		q := open(t, Config{})
		enqueue(t, q, time.Now(), "a")
		ctx, cancel := context.WithCancelCause(t.Context())
		_ = q.Run(ctx, func(context.Context, Item) Result { cancel(over); return Result{Err: errBusy} })
		if q.state.failures != 1 || q.state.pause.cause != causeBackoff {
			t.Errorf("an answer was thrown away: %d failures, %+v", q.state.failures, q.state.pause)
		}
	})
}

// cases/client.md D15: a fleet that restarts is spread, before the first send.
func TestCase_Client_D15_RunSpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(t, Config{PerItem: LargestWait, MaxSpread: LargestWait})
		enqueue(t, q, time.Now(), "a")
		q = reopen(t, q)
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		_ = q.Run(ctx, func(context.Context, Item) Result { cancel(); return Result{Fate: Done} })
		if waited := time.Since(began); waited == 0 { // one draw in 10^16 would be that short
			t.Error("sent at once")
		}
	})
}
