package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/comporta/comporta/client/internal/operation"
)

// Sender makes one attempt to send an item and tells what became of it. It must
// give up when the context ends; a bound on the attempt's time is its own affair.
type Sender func(context.Context, Item) Result

// Run sends, one item after the other, until the context ends, and returns the
// context's cause; or until the file fails, and returns that error. The caller
// owns the goroutine. Start counts as a reconnection: a fleet that restarts at
// one instant is spread too. What the last attempt found out before the context
// ended is still noted. A second Run at the same time returns [ErrRunning].
func (q *Queue) Run(ctx context.Context, send Sender) error {
	if !q.claim(true) {
		return ErrRunning
	}
	defer q.claim(false)
	q.Reconnected()
	timer := time.NewTimer(Idle)
	defer timer.Stop()
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		item, wait, err := q.NextAt(time.Now())
		switch {
		case err != nil:
			return err
		case wait == 0:
			if err := q.attempt(ctx, send, item); err != nil {
				return err
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-q.wake:
		}
	}
}

// claim sets whether Run runs; it reports whether that changed anything.
func (q *Queue) claim(running bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	changed := q.running != running
	q.running = running
	return changed
}

func (q *Queue) attempt(ctx context.Context, send Sender, item Item) error {
	defer q.release(item.ID) // also if send panics
	// The mark tells a client envelope below that the repeats are made here.
	r := send(operation.With(ctx, &operation.Mark{Owner: "queue", Attempt: item.Attempts}), item)
	if brokenOff(ctx, &r) {
		return nil
	}
	return q.SettleAt(time.Now(), item.ID, r, rand.Float64())
}

// brokenOff reports that nobody answered because the caller ended the attempt.
// Whatever else a sender found out by then holds: that the server has the item,
// that it named a wait, that no byte reached it.
func brokenOff(ctx context.Context, r *Result) bool {
	return ctx.Err() != nil && r.Fate == Again && r.Wait == 0 && r.Ticket == "" &&
		(errors.Is(r.Err, ctx.Err()) || errors.Is(r.Err, context.Cause(ctx)))
}
