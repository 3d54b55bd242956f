package comporta

import (
	"strings"
	"testing"
)

func TestKeyFault(t *testing.T) {
	for _, tc := range []struct {
		lines []string
		want  Detail
	}{
		{nil, DetailNone},
		{[]string{"k"}, DetailNone},
		{[]string{` "k" `}, DetailNone},
		{[]string{`"` + strings.Repeat("k", 255) + `"`}, DetailNone},
		{[]string{"k", "k"}, KeySentTwice},
		{[]string{""}, KeyEmpty},
		{[]string{" \t"}, KeyEmpty},
		{[]string{`""`}, KeyEmpty},
		{[]string{strings.Repeat("k", 256)}, KeyTooLong},
		{[]string{`"` + strings.Repeat("k", 256) + `"`}, KeyTooLong},
		{[]string{`"`}, KeyUnclosed},
		{[]string{`"k`}, KeyUnclosed},
		{[]string{`"k";p=1`}, KeyUnclosed},
		{[]string{`k"`}, KeyQuotes},
		{[]string{`"a", "b"`}, KeyQuotes},
		{[]string{`"a\"b"`}, KeyQuotes},
		{[]string{`a\b`}, KeyQuotes},
		{[]string{"a b"}, KeyNotVisible},
		{[]string{`" "`}, KeyNotVisible},
		{[]string{"a\x7f"}, KeyNotVisible},
		{[]string{"chávê"}, KeyNotVisible},
	} {
		if got := KeyFault(tc.lines); got != tc.want {
			t.Errorf("%q: %v, want %v", tc.lines, got, tc.want)
		}
		if len(tc.lines) != 1 {
			continue
		}
		if _, ok := ParseKey(tc.lines[0]); ok != (tc.want == DetailNone) {
			t.Errorf("ParseKey(%q) = %v", tc.lines[0], ok)
		}
	}
}

// Reading a key and finding its fault cost no memory: a flood of bad ones is cheap.
func TestKeysAreReadWithoutMemory(t *testing.T) {
	good, bad := []string{`"d3b07384"`}, []string{"a b"}
	n := testing.AllocsPerRun(100, func() {
		if _, ok := ParseKey(good[0]); !ok || KeyFault(good) != DetailNone || KeyFault(bad).String() == "" {
			t.Error("misread")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
