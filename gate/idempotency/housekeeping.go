package idempotency

import (
	"context"
	"fmt"
	"time"

	"github.com/comporta/comporta/store"
)

// Load asks the store for its secret and for the keys that are finished, so that
// repeats of them are known from the start. A Keeper that has loaded nothing
// works all the same: it asks the store more often.
func (k *Keeper) Load(ctx context.Context) error {
	if _, err := k.ready(ctx); err != nil {
		return err
	}
	now := time.Now()
	room := k.config.Index
	err := k.config.Store.Finished(ctx, now, func(n store.Name, ends time.Time) bool {
		k.index.addAt(now, &n, ends)
		room--
		return room > 0
	})
	if err != nil {
		return fmt.Errorf("idempotency: the finished keys: %w", err)
	}
	return nil
}

const (
	sweepEvery = time.Minute
	sweepBatch = 500
	// sweepPause leaves the store to requests between two batches.
	sweepPause = 20 * time.Millisecond
	loadAgain  = 5 * time.Second
	loadBudget = time.Minute
)

// Run loads, and then sweeps records whose time is over, until ctx ends. It
// starts no goroutine.
func (k *Keeper) Run(ctx context.Context) {
	wait := k.load(ctx)
	for pause(ctx, wait) {
		if wait == loadAgain {
			wait = k.load(ctx)
			continue
		}
		k.sweep(ctx)
	}
}

// load returns when to do what next.
func (k *Keeper) load(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, loadBudget)
	defer cancel()
	if err := k.Load(ctx); err != nil {
		k.config.Log.Warn("idempotency: the store does not answer; keys are treated as on_store_failure says", "error", err)
		return loadAgain
	}
	return sweepEvery
}

func (k *Keeper) sweep(ctx context.Context) {
	for {
		var n int
		err := k.ask(ctx, "sweep", func(ctx context.Context) (err error) {
			n, err = k.config.Store.Sweep(ctx, time.Now(), sweepBatch)
			return err
		})
		if err != nil {
			if ctx.Err() == nil {
				k.config.Log.Warn("idempotency: old keys could not be removed", "error", err)
			}
			return
		}
		if n < sweepBatch || !pause(ctx, sweepPause) {
			return
		}
	}
}

// pause waits; false means that ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
