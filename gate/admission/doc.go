// Package admission decides who enters when the house is almost full.
//
// # Basics
//
// A [State] holds what is counted: one atomic word with the weight in flight and
// the number of waiters, a word per route, the queue, the streams. A
// [Controller] is a compiled [Config] over a State. Controllers come and go with
// each reload; the State stays, so that requests admitted by the old one are
// seen by the new.
//
// [Controller.AdmitAt] answers with a [Grant]: a [Permit] that is to be released
// exactly once (safe twice), or a [Waiter] that stands in the queue, or a reason
// why not. The order is that of the design: originals, then repeats that come at
// their booked instant (those refused there before come first), then other
// repeats, then repeats of clients that keep coming early. Only originals and
// booked repeats wait, briefly: what does not fit soon is refused at once, since
// dead work in a queue is what keeps an incident alive.
//
// Within a rank clients share as equals (start-time fair queueing, Goyal, Vin
// and Cheng 1996; virtual time as of Parekh and Gallager 1993): a client with 50
// calls in the queue and one with a single call take turns.
//
// # Caveats
//
// No clock is read and nothing runs in the background, except in
// [Waiter.Await], which is the shell for real time. The caps hold although no
// ticker ever fires.
//
// A waiter heavier than what is free keeps those of its rank and below waiting
// behind it, for at most Config.QueueWait: passing it by would starve it for ever.
//
// A request heavier than a static capacity is an error of the configuration,
// reported by [New]. Under a [Learner] it counts as the whole house while the
// limit is below its weight, and enters alone: were it refused, a service with
// heavy routes only could never show that it has recovered.
//
// Routes that are exempt do not come here at all.
package admission
