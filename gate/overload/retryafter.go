package overload

import (
	"time"

	"github.com/comporta/comporta/internal/retryafter"
)

// MaxRetryAfter bounds what ParseRetryAfter returns: far enough to mean "not
// today", near enough that sums with a clock never overflow.
const MaxRetryAfter = retryafter.Max

// ParseRetryAfter reads a Retry-After: whole seconds, or an HTTP-date in any of
// its three forms (RFC 9110, 5.6.7 and 10.2.3). A date is measured from the same
// message's Date, so that the sender's clock cancels out; without a readable one
// it is measured from now. A date that has passed is 0. The result lies between
// 0 and MaxRetryAfter; ok is false for everything else: fractions, signs, words.
func ParseRetryAfter(value, date string, now time.Time) (wait time.Duration, ok bool) {
	return retryafter.Parse(value, date, now)
}
