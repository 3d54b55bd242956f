// Package remote is the switch by which a service calms its clients down without
// a new release of them.
//
// # Basics
//
// A [Switch] keeps what services last said about repeats. It learns it in two
// ways: [Switch.Run] looks at a policy document again and again, at most once in a
// while, with jitter, and asking only whether it has changed; and [Switch.Heard]
// takes the header Retry-Policy off a refusal, so that an incident does not wait
// for the next look. [Switch.Limits] returns what was said about a call: two
// loads, no lock. The last document is kept in a file, so that a client which
// starts in the middle of an incident is calm from its first call.
//
// Limits and Heard fit the fields Limits and Told of client.Config.
//
// # Caveats
//
// What a service says can only tighten, since retry.Policy.Tighten lets nothing
// else pass: fewer attempts, less time, longer waits. So a max_wait_ms above the
// client's own cap counts, and one below it does not: a lower cap would mean
// quicker repeats.
//
// A document that is absent, cannot be read, or is older than the one in force
// changes nothing; an outage of the service that publishes it least of all. By
// the same rule a version that was published too high by mistake stays in force
// until a higher one comes.
package remote
