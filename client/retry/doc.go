// Package retry decides whether to ask again, when, and if not, why not.
//
// # Basics
//
// [Do] calls any function until it succeeds or the envelope says stop:
//
//	err := retry.Do(ctx, "billing", func(ctx context.Context) error {
//		return charge(ctx, order)
//	})
//
// The envelope is a [Policy]: at most so many attempts, within so much time in
// all, with a random wait between them that grows up to a cap. A function ends
// it with [Stop], or names the wait with [After]. What comes back is nil or an
// [*Error], which wraps the last error and carries a [Report] with the [Reason].
//
// [Policy.DecideAt] is the whole decision, without clock, randomness or
// transport. It reads an [Operation] (what is being tried, how far it has come)
// and a [Sign] (what the last attempt left behind: [OfResponse], [OfError],
// [OfGRPC]). The HTTP client, the gRPC interceptors and Do all come here.
//
// The growth is exponential with full jitter, as M. Brooker describes it in
// "Exponential Backoff and Jitter" (AWS Architecture Blog, 2015).
//
// # Caveats
//
// Do repeats every error that is not marked otherwise, so the function has to
// bear being called twice. [NotIdempotent] says that it does not: then only what
// certainly never reached the other side is repeated, or what [Check] finds
// undone.
//
// A layer repeats only if none above it does: the context that Do passes on
// carries a mark, and a Do, or a client, below it makes one attempt.
package retry
