// Package overload writes every "no": one door, one contract.
//
// # Basics
//
// A [Writer] turns a [Refusal] into an answer: the status, a problem document
// (RFC 9457), and the same facts in headers for clients that never read bodies.
// A gRPC call gets a trailers-only answer instead, and a gateway set to the
// pt-BR dialect answers with the vocabulary of the article that this project
// builds. Whatever the form, the wait is one number: headers and body are
// rounded up from the same duration, so they cannot contradict each other.
//
// [Decorate] adds to a failure of the service's own what the contract owes its
// clients: an instant to return that is never earlier than the service asked
// for, and a plain "do not repeat this" where a repeat cannot help.
//
// Applications use [Busy] and [Deterministic]. They work in a plain handler
// behind the gateway and inside the middleware; there they speak with the gate's
// voice, because the gate's ResponseWriter is a [Door].
//
// # Caveats
//
// Header names go out in canonical form (Retry-After-Ms, X-Should-Retry): names
// are case-insensitive (RFC 9110, 5.1), HTTP/2 lowers them anyway, and any other
// spelling would hide them from Header.Get in the middleware around the gate.
//
// The package holds no clock and no state. What a refusal says of the future
// (the wait, the ticket) is decided before it comes here.
package overload
