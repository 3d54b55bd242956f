package overload

import (
	"net/http"

	"github.com/comporta/comporta/internal/retryafter"
)

// MaxPeek is the largest body, in bytes, that is worth holding back to see
// whether it says that a repeat can help.
const MaxPeek = retryafter.MaxPeek

// Peekable reports whether the body of a service's answer may say if a repeat
// can help, and may be held in memory until it is known: a failure in JSON,
// without a content coding, of a declared length up to MaxPeek.
func Peekable(h http.Header, status int) bool { return retryafter.Peekable(h, status) }

// SaysRetryable looks in a JSON object for a boolean named retryable or
// repetivel and returns it. Only keys of the object itself count; of several
// the last wins, as for most readers of JSON. found is false for a body that is
// not JSON, is longer than MaxPeek, or says nothing. It does not allocate, save
// for keys written with escapes.
func SaysRetryable(body []byte) (value, found bool) { return retryafter.SaysRetryable(body) }
