// Package store holds the words of durable state, and what an engine must do to
// keep it.
//
// # Basics
//
// [Keys] keeps idempotency keys: which operation runs, since when and for how
// long it is believed to, and what was answered once it has ended. A record goes
//
//	(none) ──Claim──► running ──Finish──► finished ──ttl──► (none)
//	                   │    ▲
//	        lease ends │    │ Renew, or Claim over its fence
//	                   ▼    │
//	                  lapsed ──ttl──► (none)          Release: any ──► (none)
//
// Whoever claims draws a fence, a number that nobody else has. All that the
// claimant does later names that fence, so that one who comes late changes
// nothing that is somebody else's meanwhile.
//
// Package storetest holds what every engine must do, as tests; memstore is the
// engine without a disk.
//
// # Caveats
//
// A lapsed record says that nobody knows what became of the operation. A store
// never turns it into a free key by itself before its time is over: whether the
// operation may run again is for those to say who know what it does.
package store
