package main

import (
	"regexp"
	"strings"
	"testing"
)

// The example promises what it prints.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`flaky +loop +30 of 30 orders served with +60 calls`,
		`flaky +envelope +30 of 30 orders served with +60 calls`,
		`down +loop +0 of 30 orders served with +300 calls`,
		`down +envelope +0 of 30 orders served with +40 calls`,
	} {
		if !regexp.MustCompile(line).MatchString(out.String()) {
			t.Errorf("no line like %q in\n%s", line, out.String())
		}
	}
}
