// Package sim plays a storm in virtual time: a population of clients, a service
// that fails, and what stands before it.
//
// # Basics
//
// A [Scenario] says who asks, how they repeat and what breaks; [Builtin] names
// those that come with the package, [ReadScenario] reads one from YAML. [Run]
// plays it under one [Defence] with one seed and returns a [Result].
//
//	s, _ := sim.Builtin("incident")
//	r, err := sim.Run(&s, "ours", 1)
//
// What decides is not a model of the gate but the gate: its stages take the time
// as an argument, and are driven here by events. The envelope of the app that runs
// our SDK is the core of client/retry. The service, the people and the defences of
// others are models; the text of each says what was simplified.
//
// Random numbers are drawn by name (seed, operation, question) and not by turn, so
// that one operation has the same class, patience and jitter under every defence,
// and defences can be compared in pairs.
//
// Every run checks what must hold whatever happens, and ends in an error if it
// did not: see [ErrInvariant].
//
// # Caveats
//
// The incident stands on a knife edge: the dead state holds as long as what fresh
// operations ask, their own repeats included, is about what the service can do.
// 4 % less capacity adds three quarters of an hour, 4 % more takes half an hour off,
// and waves that scatter a tenth wider with each period never end. A single run says
// little; look at eight seeds and at a sweep of the capacity.
//
// Clients that a defence turns away for good, or that lose patience, are gone:
// nobody comes back an hour later to complain.
package sim
