package retryafter

import (
	"net/http"
	"strings"
	"time"

	"github.com/comporta/comporta"
)

// Max bounds every wait that is read: far enough to mean "not today", near
// enough that sums with a clock never overflow.
const Max = 365 * 24 * time.Hour

// maxDate bounds the work on what may be a date; the longest has 33 bytes.
const maxDate = 64

// Parse reads a Retry-After: whole seconds, or an HTTP-date in any of its three
// forms (RFC 9110, 5.6.7 and 10.2.3). A date is measured from the same message's
// Date, so that the sender's clock cancels out; without a readable one it is
// measured from now. A date that has passed is 0. The result lies between 0 and
// Max; ok is false for everything else: fractions, signs, words.
func Parse(value, date string, now time.Time) (wait time.Duration, ok bool) {
	value = strings.Trim(value, " \t")
	if value == "" {
		return 0, false
	}
	if value[0] >= '0' && value[0] <= '9' {
		return Whole(value, time.Second)
	}
	if len(value) > maxDate {
		return 0, false
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if sent, err := http.ParseTime(date); err == nil {
		now = sent
	}
	return min(max(at.Sub(now), 0), Max), true
}

// Whole reads a whole number of units, saturating at Max.
func Whole(s string, unit time.Duration) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	limit := int64(Max / unit)
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

// Stated is what a message asks for in its two headers; of several lines of one
// name the longest wait counts.
type Stated struct {
	After, Precise time.Duration // Retry-After and retry-after-ms; 0 = nothing, or at once
	HasPrecise     bool          // a retry-after-ms is there, readable or not
	Known          bool          // at least one line could be read
}

// WaitAt reads both headers of a response head.
func WaitAt(now time.Time, h http.Header) Stated {
	var s Stated
	for _, v := range h[comporta.HeaderRetryAfter] {
		if w, ok := Parse(v, h.Get("Date"), now); ok {
			s.After, s.Known = max(s.After, w), true
		}
	}
	for _, v := range h[comporta.HeaderRetryAfterMs] {
		s.HasPrecise = true
		if w, ok := Whole(strings.Trim(v, " \t"), time.Millisecond); ok {
			s.Precise, s.Known = max(s.Precise, w), true
		}
	}
	return s
}

// Exact is the wait that both headers mean: where the seconds are the
// milliseconds rounded up, as a gateway of this project writes them, the
// milliseconds; where they contradict each other, the longer.
func (s Stated) Exact() time.Duration {
	if s.Precise > 0 && s.After == (s.Precise+time.Second-1).Truncate(time.Second) {
		return s.Precise
	}
	return max(s.After, s.Precise)
}
