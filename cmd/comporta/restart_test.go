package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/comporta/comporta/internal/config"
)

// The reference lists the keys that take effect at a restart only: all of them,
// and no other.
func TestRestartOnlyKeysAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(data), "take effect at a restart only")
	text, _, ended := strings.Cut(text, "address that stays")
	if !found || !ended {
		t.Fatal("docs/configuration.md lacks the list")
	}
	var documented, want []string
	var c config.Config
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		documented = append(documented, m[1])
	}
	for _, f := range slices.Concat(fixedKeys, fixedOnceKept) {
		want = append(want, f.key)
		if f.of(&c) != f.of(&c) { // it panics at what cannot be compared
			t.Errorf("%s differs from itself", f.key)
		}
	}
	for _, f := range fixedOfListener {
		want = append(want, f.key)
	}
	slices.Sort(documented)
	slices.Sort(want)
	if !slices.Equal(documented, want) {
		t.Errorf("documented: %s\nwant:       %s", documented, want)
	}
}
