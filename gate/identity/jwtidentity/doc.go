// Package jwtidentity verifies bearer tokens for gate/identity: JSON Web Tokens
// (RFC 7519) checked against an issuer's published keys (JWKS, RFC 7517).
//
// # Basics
//
// [Keys] fetches the key set in the background: whoever makes it runs
// [Keys.Run]. A [Verifier] checks tokens against it and plugs into
// identity.Source; it never waits for the network. A token that was verified
// once is remembered until it ends or the keys change, by a keyed hash of 128
// bits, so the usual request costs no cryptography but that hash.
//
// Only asymmetric algorithms exist here: with none or HMAC, the published keys
// would sign. Issuer, audience and expiry are required.
//
// # Caveats
//
// Until the first fetch has succeeded no token is verified, and its bearer ranks
// as anonymous. A key set that cannot be fetched or holds no usable key leaves
// the last good one in force.
//
// Each token that is new, and well-formed with the right issuer, audience and
// time, costs one signature check (20 to 100 µs) on the path of its request.
// Revocation before expiry is not known here.
package jwtidentity
