// Package comporta holds the words that every part of the project agrees on.
//
// A [Request] is one request on its way through the gate. Each stage reads what
// the stages before it wrote and writes one thing: identity writes [Client],
// repeat writes [Sighting], calendar writes [Slot]. The gate answers with a
// [Decision], and the service's answer flows back as an [Outcome]. A refusal is
// named by a [Reason] and said in a [Problem].
//
// The package also reads the signals of the wire contract (declared attempts,
// idempotency keys, patience, versions): see [Signals]. Reading never fails:
// what cannot be understood counts as absent.
//
// It imports the standard library only, and nothing in it starts a goroutine.
package comporta
