package overload

import (
	"net/http"
	"strings"
	"time"
)

// MaxRetryAfter bounds what ParseRetryAfter returns: far enough to mean "not
// today", near enough that sums with a clock never overflow.
const MaxRetryAfter = 365 * 24 * time.Hour

// ParseRetryAfter reads a Retry-After: whole seconds, or an HTTP-date in any of
// its three forms (RFC 9110, 5.6.7 and 10.2.3). A date is measured from the same
// message's Date, so that the sender's clock cancels out; without a readable one
// it is measured from now. A date that has passed is 0. The result lies between
// 0 and MaxRetryAfter; ok is false for everything else: fractions, signs, words.
func ParseRetryAfter(value, date string, now time.Time) (wait time.Duration, ok bool) {
	value = strings.Trim(value, " \t")
	if value == "" || len(value) > maxRetryAfterLength {
		return 0, false
	}
	if value[0] >= '0' && value[0] <= '9' {
		return parseWhole(value, time.Second)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if sent, err := http.ParseTime(date); err == nil {
		now = sent
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter), true
}

// maxRetryAfterLength bounds the work on a hostile value; the longest date has 33.
const maxRetryAfterLength = 64

// parseWhole reads a whole number of units, saturating at MaxRetryAfter.
func parseWhole(s string, unit time.Duration) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	limit := int64(MaxRetryAfter / unit)
	n := int64(0)
	for i := range len(s) {
		digit := s[i] - '0'
		if digit > 9 {
			return 0, false
		}
		n = min(n*10+int64(digit), limit)
	}
	return time.Duration(n) * unit, true
}
