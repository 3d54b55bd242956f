package retryafter

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

var testNow = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)

// The table of Retry-After's own forms, and the fuzz targets of the parsers,
// stand in gate/overload, which shows them to applications; here is what the
// client adds.
func TestWaitAt(t *testing.T) {
	for name, c := range map[string]struct {
		h     http.Header
		exact time.Duration
		known bool
	}{
		"nothing":       {http.Header{}, 0, false},
		"seconds":       {http.Header{"Retry-After": {"3"}}, 3 * time.Second, true},
		"zero":          {http.Header{"Retry-After": {"0"}}, 0, true},
		"longest line":  {http.Header{"Retry-After": {"3", "9", "x"}}, 9 * time.Second, true},
		"milliseconds":  {http.Header{"Retry-After-Ms": {"250"}}, 250 * time.Millisecond, true},
		"rounded up":    {http.Header{"Retry-After": {"3"}, "Retry-After-Ms": {"2001"}}, 2001 * time.Millisecond, true},
		"contradiction": {http.Header{"Retry-After": {"1"}, "Retry-After-Ms": {"2001"}}, 2001 * time.Millisecond, true},
		"other way":     {http.Header{"Retry-After": {"9"}, "Retry-After-Ms": {"2001"}}, 9 * time.Second, true},
		"unreadable":    {http.Header{"Retry-After": {"soon"}, "Retry-After-Ms": {"-1"}}, 0, false},
		"forty digits":  {http.Header{"Retry-After-Ms": {strings.Repeat("9", 40)}}, Max, true},
	} {
		s := WaitAt(testNow, c.h)
		if s.Exact() != c.exact || s.Known != c.known {
			t.Errorf("%s: %v %t, want %v %t", name, s.Exact(), s.Known, c.exact, c.known)
		}
	}
}

// cases/client.md B13
func TestPushback(t *testing.T) {
	for _, c := range []struct {
		values []string
		wait   time.Duration
		word   Word
	}{
		{nil, 0, Unsaid},
		{[]string{"250"}, 250 * time.Millisecond, Again},
		{[]string{"0"}, 0, Again},
		{[]string{"-1"}, 0, Stop},
		{[]string{"abc"}, 0, Stop},
		{[]string{""}, 0, Stop},
		{[]string{"250", "250"}, 0, Stop},
	} {
		if wait, word := Pushback(c.values); wait != c.wait || word != c.word {
			t.Errorf("%q: %v %v", c.values, wait, word)
		}
	}
}

func TestSays(t *testing.T) {
	for _, c := range []struct {
		h    http.Header
		want Word
	}{
		{http.Header{}, Unsaid},
		{http.Header{"X-Should-Retry": {" TRUE "}}, Again},
		{http.Header{"X-Should-Retry": {"false"}}, Stop},
		{http.Header{"X-Should-Retry": {"maybe"}}, Unsaid},
		{http.Header{"Stripe-Should-Retry": {"false"}, "X-Should-Retry": {"true"}}, Stop},
	} {
		if got := Says(c.h); got != c.want {
			t.Errorf("%v: %v", c.h, got)
		}
	}
}
