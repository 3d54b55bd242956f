// Package identity says who asks: client key, network, class, name and version,
// behind trusted proxies.
//
// # Basics
//
// An [Identifier] is compiled from a [Config] and immutable. The face of a
// transport first calls [DropNominated], which deletes what a proxy would remove
// after policy had read it, and [Identifier.Clean], which deletes what a stranger
// must not claim; then [Identifier.IdentifyAt], which writes Request.Client. When
// the service has answered below 400 on a route that is not public, the gate
// calls [Identifier.ProveAt], and the same credential ranks as proven for a day.
// After the removal of hop-by-hop fields a proxy calls
// [Identifier.KeepCredentials] and [WriteForwarded].
//
// The sources of identity are tried in order; the first that is present wins:
//
//	header   the value of one header; claimed
//	cookie   the value of one cookie; claimed
//	basic    user and password of RFC 7617; claimed
//	JWT      the subject of a bearer token that a Verifier accepts; verified
//	mTLS     the name in a client certificate with a verified chain; verified
//	network  the prefix of the client's address; always there, always last
//
// A claimed identity ranks as anonymous until the service itself has honoured
// its credential: an invented key buys nothing. Verified and proven identities
// are believed.
//
// Credentials are never kept. A key is SipHash-2-4 of source and credential
// under Config.HashKey: the same on every replica and after a restart, and of no
// use to who does not hold the hash key.
//
// # Caveats
//
// What counts as proof is what the service answers: a service that answers
// strangers below 400 (also by a redirect to its login) proves every invented
// credential, so such routes must be marked public and are then no proof.
//
// A trusted proxy must append to X-Forwarded-For or to Forwarded and pass the
// other one only if it made it. Where both tell different stories, neither is
// believed and the proxy's own address counts.
//
// A credential header that occurs twice identifies nobody: gate and service
// might each read another one. Neither does a cookie that occurs with two values,
// or whose value RFC 6265 does not allow.
package identity
