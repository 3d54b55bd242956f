// Package bulkhead caps how many calls to a destination run at once.
//
// # Basics
//
// A [Bulkhead] guards one destination. [Bulkhead.Acquire] returns a [Permit]
// while fewer than Config.Limit are held; else the caller stands in a queue of
// at most Config.Queue, first come, first served, until a permit is handed over,
// Config.MaxWait is over or its context ends. [Permit.Release] gives the permit
// to the one who has waited longest.
//
// It is what keeps a dependency that hangs from taking all goroutines and
// connections of its callers along: the name and the use are those of Nygard,
// Release It! (2007).
//
// # Caveats
//
// A permit bounds calls, not connections: it is to be held until the answer has
// been read.
//
// A permit that is freed while somebody waits passes from hand to hand: there is
// no moment at which a newcomer could take it.
package bulkhead
