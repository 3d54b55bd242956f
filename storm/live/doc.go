// Package live carries a storm out with real HTTP: a population of clients, a
// service whose dependency fails, and a record of who got what.
//
// # Basics
//
// [Incident] runs a scenario on loopback, with or without a defence before the
// sample service, and [Recording.Result] sums up what was seen:
//
//	recording, err := live.Incident(ctx, storm.Incident(), gate.Wrap, nil)
//	...
//	fmt.Println(recording.Result().RecoveryS)
//
// [Storm] is the population alone: give it a URL and a transport. Over a network
// in memory and in virtual time it runs the same code in milliseconds.
//
// # Caveats
//
// The load is bounded: [MaxRate], [MaxRequests], [MaxLength] and
// [MaxConnections] hold whatever a scenario says. Incident binds to loopback
// only, and [NewTransport] dials nothing else unless told to. Whoever gives a Storm
// another URL answers for it.
//
// On a machine that is short of CPU the numbers are the machine's: watch that the
// bare service serves its users before the outage.
package live
