package retryafter

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

var testNow = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		value, date string
		want        time.Duration
		ok          bool
	}{
		{"120", "", 2 * time.Minute, true},
		{" 1 ", "", time.Second, true},
		{"0", "", 0, true},
		{strings.Repeat("9", 40), "", Max, true},
		{strings.Repeat("9", 65), "", Max, true},
		{"Wed, 06 May 2026 07:08:19 GMT" + strings.Repeat("T", 64), "", 0, false},
		{"", "", 0, false},
		{"-1", "", 0, false},
		{"+1", "", 0, false},
		{"1.5", "", 0, false},
		{"1e9", "", 0, false},
		{"abc", "", 0, false},
		{"1, 2", "", 0, false},
		{"Wed, 06 May 2026 07:08:19 GMT", "", 10 * time.Second, true},
		{"Wednesday, 06-May-26 07:08:19 GMT", "", 10 * time.Second, true},
		{"Wed May  6 07:08:19 2026", "", 10 * time.Second, true},
		{"Wed, 06 May 2026 07:08:08 GMT", "", 0, true},
		{"Fri, 31 Dec 9999 23:59:59 GMT", "", Max, true},
		{"Wed, 06 May 2026 07:08:19 GMT", "Wed, 06 May 2026 07:08:00 GMT", 19 * time.Second, true},
		{"Wed, 06 May 2026 07:08:19 GMT", "yesterday", 10 * time.Second, true},
	} {
		if got, ok := Parse(c.value, c.date, testNow); got != c.want || ok != c.ok {
			t.Errorf("%q (Date %q): %v %t, want %v %t", c.value, c.date, got, ok, c.want, c.ok)
		}
	}
}

// FuzzParse holds the bounds, and reads every whole number exactly.
func FuzzParse(f *testing.F) {
	f.Add("120", "")
	f.Add("Wed, 06 May 2026 07:08:19 GMT", "Wed, 06 May 2026 07:08:00 GMT")
	f.Add("Sunday, 06-Nov-94 08:49:37 GMT", "x")
	f.Add("-1", "0")
	f.Fuzz(func(t *testing.T, value, date string) {
		wait, ok := Parse(value, date, testNow)
		if wait < 0 || wait > Max || (!ok && wait != 0) {
			t.Fatalf("%v %t", wait, ok)
		}
		if n, err := strconv.ParseUint(value, 10, 20); err == nil && value[0] != '+' {
			if want := min(time.Duration(n)*time.Second, Max); !ok || wait != want {
				t.Fatalf("%q: %v %t, want %v", value, wait, ok, want)
			}
		}
	})
}

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
