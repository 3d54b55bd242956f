package idempotency

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/retryafter"
	"github.com/comporta/comporta/store"
)

// dropped are the fields of an answer that are of its own time, of its connection
// or of its first client, and not of what it says. Cookies are credentials: one
// who repeats is not to be logged in by an old answer.
var dropped = map[string]bool{
	"Set-Cookie": true, "Set-Cookie2": true, "Date": true, "Age": true, "Server-Timing": true,
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true,
	"Proxy-Authentication-Info": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Content-Length": true, // the body says it
	"Traceparent":    true, "Tracestate": true, "Baggage": true, "X-B3-Traceid": true, "X-B3-Spanid": true, "X-B3-Sampled": true,
	"X-Amzn-Trace-Id": true, "X-Cloud-Trace-Context": true, "X-Correlation-Id": true,
	comporta.HeaderRequestID: true, comporta.HeaderReplayed: true, comporta.HeaderIdempotencyKey: true,
	comporta.HeaderRetryAfter: true, comporta.HeaderRetryAfterMs: true, comporta.HeaderRetryTicket: true,
	comporta.HeaderRetryPolicy: true, comporta.HeaderShouldRetry: true, retryafter.HeaderPushback: true,
	"Ratelimit": true, "Ratelimit-Policy": true,
}

// kept reports whether a field belongs to what is recorded. Of an answer below 400
// Retry-After says when to look for what was begun, and not when to repeat it.
func kept(status int, name string) bool {
	if name == comporta.HeaderRetryAfter && status < http.StatusBadRequest {
		return true
	}
	return !dropped[name] && !strings.HasPrefix(name, "Comporta-")
}

// AppendHeader appends the fields of h that are worth recording of an answer of that
// status, one a line as on the wire, in the order of their names. Fields under
// http.TrailerPrefix come after the body when the answer is said again. Lines that
// would not fit into store.MaxHeader are left out, and ok is then false.
func AppendHeader(b []byte, status int, h http.Header) (_ []byte, ok bool) {
	names := make([]string, 0, len(h))
	for name := range h {
		if kept(status, strings.TrimPrefix(name, http.TrailerPrefix)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	ok = true
	for _, name := range names {
		for _, v := range h[name] {
			if len(b)+len(name)+len(v)+4 > store.MaxHeader {
				ok = false
				continue
			}
			b = append(b, name...)
			b = append(b, ": "...)
			for i := range len(v) {
				if c := v[i]; c == '\r' || c == '\n' {
					b = append(b, ' ') // as net/http writes it
				} else {
					b = append(b, c)
				}
			}
			b = append(b, "\r\n"...)
		}
	}
	return b, ok
}

// ParseHeader reads what AppendHeader wrote; what it cannot read it leaves out.
func ParseHeader(b []byte) http.Header {
	h := http.Header{}
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte("\r\n"))
		name, value, ok := strings.Cut(string(line), ": ")
		if ok && name != "" {
			h[name] = append(h[name], value)
		}
	}
	return h
}
