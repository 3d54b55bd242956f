// Package storm says who asks, how they repeat, and what breaks: the words that
// every storm is described in.
//
// # Basics
//
// A [Scenario] is a service, a failure of what the service depends on, and a
// population of [Class]es that share the demand. [Incident] is the one that the
// project starts from: a short outage that ends, and a load that stays because
// the failures feed it. What carries a scenario out is elsewhere: storm/live
// does so with real connections.
//
//	s := storm.Incident().Within(30 * time.Second)
//	if err := s.Check(); err != nil { … }
//
// # Caveats
//
// Times are compressed: twelve minutes of outage are four seconds here, ten
// seconds of a client's timeout are one. Shares and ratios are those of the
// incident; the durations that a storm measures are not minutes of a real one.
package storm
