package operation

import (
	"context"
	"errors"
	"time"
)

// Sleep waits for d, or for the end of ctx, whose error it returns. Its timer needs
// no Stop: one whose channel nobody waits at is in no list of the runtime's.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
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
