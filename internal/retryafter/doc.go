// Package retryafter reads what a message says about coming back: how long to
// wait, and whether a repeat can help at all. Both ends of the contract read it
// with the same code, so that they cannot come to differ: the gateway decorates
// the answers of a service with it, the client obeys them.
//
// # Basics
//
// [WaitAt] reads the wait of a response head, [Says] what its headers say about
// a repeat, [SaysRetryable] what a JSON body says; [Pushback] reads gRPC's word
// on both. [Parse] and [Whole] are the parsers beneath.
//
// # Caveats
//
// Waits saturate at [Max] and never overflow. What cannot be read counts as
// absent, but for gRPC's pushback, where it means stop.
package retryafter
