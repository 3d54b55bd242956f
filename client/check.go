package client

import (
	"context"

	"github.com/comporta/comporta/client/retry"
)

// Check finds out what became of a request whose answer was lost or a failure,
// by asking the server in some other way: is the order there?
type Check func(context.Context) (retry.Fate, error)

type checkKey struct{}

// WithCheck makes the requests with the returned context repeatable although
// they are not idempotent: before each repeat, after the wait, check is asked.
// retry.FateNotDone lets the repeat go out. Anything else ends the operation with
// a *retry.Error, whose reason is done, or not_idempotent where nobody knows.
// check may use the same client; it is given the caller's context, which ends with
// the operation's time.
func WithCheck(ctx context.Context, check Check) context.Context {
	return context.WithValue(ctx, checkKey{}, check)
}
