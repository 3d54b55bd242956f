// Package conformance tries the built gateway with the suites of others, and with
// floods.
//
// Its tests are a module of their own, so that the suites stay out of the graph of
// those who import the gateway. `make conformance` runs them:
//
//   - h2spec, which tries a server of HTTP/2 by the letter of RFC 9113 and RFC 7541
//   - gRPC's interoperability cases, client and server of grpc-go, and gRPC streams
//     under idempotency keys
//   - WebSocket by github.com/coder/websocket, and event streams
//   - callers that are slow, many, or flood: what they cost is bounded
package conformance
