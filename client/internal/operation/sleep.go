package operation

import (
	"context"
	"errors"
	"time"
)

// Sleep waits for d, or for the end of ctx, whose error it returns. Its timer is
// stopped in either case: ten thousand cancelled waits of an hour leave none.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ended returns why ctx ended, joined with what came before: its error, its
// cause where that says more, and last.
func Ended(ctx context.Context, last error) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return errors.Join(cause, last)
	}
	return errors.Join(err, cause, last)
}
