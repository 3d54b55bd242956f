package idempotency

import (
	"strconv"
	"time"

	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/internal/retryafter"
)

// Pushback is gRPC's word (gRFC A6) for coming again after wait, in milliseconds
// rounded up: 0 means overload.DefaultWait, less never.
func Pushback(wait time.Duration) string {
	if wait < 0 {
		return "-1"
	}
	if wait == 0 {
		wait = overload.DefaultWait
	}
	return strconv.FormatInt(millis(wait), 10)
}

// millis rounds up, so that who obeys is never early.
func millis(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

// ReadPushback reads that word of a service: a wait of 0 is at once, one below 0
// says that a repeat would not help. said is false where there is no word.
func ReadPushback(values []string) (wait time.Duration, said bool) {
	wait, word := retryafter.Pushback(values)
	if word == retryafter.Stop {
		wait = -1
	}
	return wait, word != retryafter.Unsaid
}
