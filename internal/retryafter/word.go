package retryafter

import (
	"net/http"
	"strings"
	"time"

	"github.com/comporta/comporta"
)

// Word is what the sender of a message says about repeating the request.
type Word uint8

// The words.
const (
	Unsaid Word = iota
	Again       // another try may help
	Stop        // another try cannot help
)

// HeaderPushback is gRPC's word on repeating (gRFC A6), in canonical form.
const HeaderPushback = "Grpc-Retry-Pushback-Ms"

// Says reads the headers by which a service says whether a repeat can help. The
// first that can be read wins.
func Says(h http.Header) Word {
	for _, name := range [...]string{"Stripe-Should-Retry", comporta.HeaderShouldRetry} {
		switch v := strings.TrimSpace(h.Get(name)); {
		case strings.EqualFold(v, "true"):
			return Again
		case strings.EqualFold(v, "false"):
			return Stop
		}
	}
	return Unsaid
}

// Pushback reads gRPC's word on repeating: a wait in milliseconds, or stop. By
// gRFC A6 negative means stop, and so does what cannot be read, or was said more
// than once. No value at all is Unsaid.
func Pushback(values []string) (time.Duration, Word) {
	if len(values) == 0 {
		return 0, Unsaid
	}
	if len(values) > 1 {
		return 0, Stop
	}
	wait, ok := Whole(strings.Trim(values[0], " \t"), time.Millisecond)
	if !ok {
		return 0, Stop
	}
	return wait, Again
}
