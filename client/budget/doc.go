// Package budget bounds how many calls a client may add to those that its users
// asked for.
//
// # Basics
//
// Each destination has a [Bucket] of tokens. A repeat takes one before it waits;
// a call that succeeds at its first try puts a tenth of one back; a repeat that
// succeeds gets its own token back. While the destination works, repeats are
// free in practice. When it is down nothing is put back, and after the burst is
// spent calls fail at once: 400 calls in an outage cost 410, not 1,600.
//
// The bucket counts and does not run on time: a client that is idle earns
// nothing, and a clock that steps changes nothing. The arithmetic is that of the
// standard mode of the AWS SDKs and of gRPC's retry throttling (gRFC A6), with
// the refund of the former.
//
// # Caveats
//
// [Budgets] keeps a bounded number of buckets. A bucket that is full equals one
// that was never made, so full ones are dropped when room is needed; when all
// are in use, the destinations that find no room share one bucket.
package budget
