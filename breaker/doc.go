// Package breaker stops calls to a dependency that mostly fails.
//
// # Basics
//
// A [Breaker] guards one dependency. [Breaker.AllowAt] gives a [Permit] or an
// [*OpenError] that says when to ask again; [Permit.DoneAt] tells what became of
// the call. While the breaker is closed every call passes. When at least
// Config.Minimum calls ended within Config.Window and a share of Config.Failures
// of them failed, it opens: nothing passes for Config.Open and a random part
// more, so that the breakers of a fleet do not knock together. Then it is half
// open: Config.Probes calls pass in all, the others go on failing fast. When all
// of them succeed it closes with an empty window; the first that fails, or that
// has no answer after Config.ProbeTimeout, opens it again.
//
// The states are those of Nygard, Release It! (2007); the window is a ring of
// counts, so that one bad second weighs as much as its calls.
//
// # Caveats
//
// A breaker judges by calls that have ended. It does not bound the calls to a
// dependency that hangs: by the time the first of them time out, all the others
// are under way. Package bulkhead does that.
//
// No clock is read but in the shells [Breaker.Allow] and [Permit.Done], and
// nothing runs in the background: an open breaker becomes half open when the
// next call asks.
package breaker
