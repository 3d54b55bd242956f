// Package calendar books the instant at which a refused client may return.
//
// # Basics
//
// A constant wait, a hashed wait and a doubling wait have one fault in common:
// they know nothing of how many others wait. The calendar spaces the returns at
// the rate that the service can spare, so that those who obey are served at the
// first return, and obeying pays.
//
// A [Calendar] is compiled from a [Config] over a [State], which holds all that
// must outlive a reload. For each request [Calendar.LookAt] says how it stands
// to the instant that it was given; for each refusal [Calendar.BookAt] gives the
// instant and [Calendar.AppendTicket] writes it down, signed, for the client to
// show on its return. [Calendar.AdmittedAt] and [Calendar.DoneAt] tell the
// calendar what it needs to estimate the rate.
//
// The same operation gets the same instant, however often it asks and with or
// without its ticket. Clients whose identity is believed and the rest are booked
// apart, so that invented clients cannot sell out the hour; no client takes more
// than its share of the places; and every table has a fixed size.
//
// # Caveats
//
// Slots are an offer, not a permit: admission stays the judge, which is why the
// calendar may overbook.
//
// Instants are wall-clock instants, since they cross the wire and the process.
// If the clock steps back, waits grow by the step until they pass; an instant
// that lies further ahead than [MaxHorizon] is forgotten.
//
// A ticket is single-use on the node that saw it. Nodes share no state, so a
// client may redeem one ticket once on each node.
package calendar
