// Package ratelimit says how much each key may do in how much time: exact in one
// process, and the seam through which many processes share.
//
// # Basics
//
// A [Bucket] is a limiter for a library's user: one limit, many keys, fixed
// memory.
//
//	b, err := ratelimit.NewBucket(ratelimit.BucketConfig{Limit: ratelimit.Limit{Rate: r, Burst: 20}})
//	result, err := b.Take(user, 1)
//
// A [Limiter] is for a gateway: [Rule]s that match requests, take keys from them
// ([Key]), and are charged all together or not at all. It works on a [Table],
// which outlives every reload, or on a [Store] that several processes share.
// [Middleware] puts a Limiter in front of an http.Handler.
//
// All limits are token buckets in the form of the generic cell rate algorithm:
// a key is one instant, at which its bucket is full again. In every window of
// length W at most burst + rate·W units are admitted. A [Quota] counts units of
// a calendar window in a time zone instead, and slides from one to the next.
//
// Denied requests cost nothing unless the rule says Penalty, so who asks at one
// and a half times the rate gets the rate. Cost 0 peeks. A cost above the burst
// is denied for good.
//
// # Caveats
//
// A fresh key has its whole burst: choose a burst that strangers may have.
// Unseen bounds all of them together. A key whose bucket was full counts as
// fresh, since nothing is remembered of it.
//
// Intervals are exact for rates whose count, reduced by its time in
// microseconds, is at most 1,024 (all of 1/s to 1000/s, and 3 in 7 minutes);
// others are slower than written by less than a nanosecond per unit.
//
// A clock that steps back leaves keys empty, not locked: where the step exceeds
// 10 seconds and two bursts, they wait as long as any that spent all. A clock that
// steps forward refills, as time does.
//
// A process that starts anew has forgotten everything: each key has its burst
// again.
package ratelimit
