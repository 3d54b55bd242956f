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
