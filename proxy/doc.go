// Package proxy forwards requests to the service behind the gate.
//
// # Basics
//
// A [Proxy] is an http.Handler over one or more equal upstreams. It forwards what
// the caller sent, byte for byte where a byte can carry meaning (path, query,
// body), and streams what comes back: each message of an event stream or a gRPC
// call at once, informational answers, trailers announced or not, and upgraded
// connections.
//
// Hop-by-hop headers end here in both directions. So do forwarding headers and
// Comporta-* of the caller: Forward writes the former afresh. Comporta-* of the
// upstream are removed, for only the gate may speak in its own name. What
// Connection nominates ends here too: policy in front of a proxy must not read
// such a field, and identity.DropNominated sees to that.
//
// # No hidden replays
//
// A defence against retries must not retry in secret. http.Transport sends a
// request again when a reused connection breaks, if the request looks idempotent:
// a GET, or an empty POST with an Idempotency-Key. The service then executes
// twice what the caller asked once. Services that speak plain HTTP/1.1 are
// therefore asked through proxy/h1, which sends nothing twice; for the others the
// proxy takes that look away (see seal). A request of which a byte may have left is
// never sent twice. What certainly never left (a refused dial, a kept connection
// that died before the first byte) moves on once, and Report says so.
//
// # Bodies
//
// A body of known length up to 64 KiB is read before anybody is asked, so that a slow
// caller holds no connection of the service's, unless the caller waits for the
// service's leave to send it (Expect: 100-continue). Longer ones, and those of
// unknown length, stream, while the answer may come in the other direction.
//
// # Failures
//
// Every failure before the answer's head is named by a comporta.Reason and handed
// to Fail: UpstreamUnavailable says that the service saw nothing,
// UpstreamFailed and UpstreamTimeout that nobody knows. A caller's own broken or
// late body is the caller's fault and never counts against the upstream; it is
// answered, although net/http has cancelled a request of HTTP/1 whose read deadline
// has passed.
//
// # Caveats
//
// Once the head of an answer has been sent, a failure can only be shown by
// breaking the connection: ServeHTTP then panics with http.ErrAbortHandler, as it
// does when the caller has left. Middleware around it must release what it holds
// in a defer, and let that panic pass.
package proxy
