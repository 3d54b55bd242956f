// Package front is the listener's side of a gateway: it turns connections into
// requests, strictly, and answers back.
//
// # Basics
//
// A [Server] speaks HTTP/1.0 and HTTP/1.1 itself and hands HTTP/2 (ALPN h2 over TLS,
// h2c by its preface) to net/http. So there is one parser of HTTP/1 on this side,
// and what it cannot read in one way only never reaches the handler:
//
//	s, err := front.New(front.Config{Handler: h})
//	…
//	err = s.Serve(listener) // until Shutdown or Close
//
// The handler is an ordinary http.Handler. Its ResponseWriter does what
// http.ResponseController asks for: Flush, Hijack, SetReadDeadline,
// SetWriteDeadline, EnableFullDuplex (always on). Informational answers, trailers
// announced or by http.TrailerPrefix, and http.ErrAbortHandler mean what they mean
// in net/http.
//
// # What is refused
//
// Whatever two parsers could read in two ways: Content-Length beside
// Transfer-Encoding, either of them twice, a transfer coding other than chunked,
// bare CR or LF, folded lines, control characters, a space before the colon, a
// missing, second or invalid Host, a target of another host than Host, a fragment
// in the target. Refuse answers; the connection closes after it. See [Fault].
//
// # Caveats
//
// Request, headers, bodies, context and ResponseWriter are used again for a later
// request as soon as the handler has returned. A handler must not keep any of them,
// nor what it got by Header; strings and contexts derived from that of the request
// may be kept. Goroutines of the handler must have let go of them before it returns.
//
// No Content-Type is guessed. The context's values are those of
// Config.BaseContext and http.LocalAddrContextKey; http.ServerContextKey is there
// for HTTP/2 only.
package front
