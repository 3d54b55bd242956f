package overload

import (
	"net/http"

	"github.com/comporta/comporta/internal/retryafter"
)

// Peekable reports whether the body of a service's answer may say if a repeat
// can help, and may be held in memory until it is known: a failure in JSON,
// without a content coding, of a declared length up to 16 KiB.
func Peekable(h http.Header, status int) bool { return retryafter.Peekable(h, status) }
