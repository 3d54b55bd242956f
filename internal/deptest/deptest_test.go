package deptest

import (
	"slices"
	"strings"
	"testing"
)

func TestImports(t *testing.T) {
	packages, err := List("../..")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(packages, func(p Package) bool { return p.ImportPath == Module }) {
		t.Fatalf("go list did not find the module's root among %d packages", len(packages))
	}
	for _, problem := range Problems(Rules, packages) {
		t.Error(problem)
	}
}

// Every rule must name a reason, and only one rule may name a package.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules {
		if r.Why == "" {
			t.Errorf("the rule of %q has no reason", r.Package)
		}
		if seen[r.Package] {
			t.Errorf("two rules for %q", r.Package)
		}
		seen[r.Package] = true
	}
}

func TestProblems(t *testing.T) {
	rules := []Rule{
		{Package: "", Why: "root"},
		{Package: "leaf", Words: []string{"", "internal/hash"}, Why: "leaf"},
		{Package: "adapter", Words: []string{"leaf"}, Libraries: []string{"example.org/lib"}, Why: "adapter"},
		{Package: "gate", Words: []string{"gate/..."}, Why: "gate"},
		{Package: "cmd/...", Words: []string{"..."}, Why: "cmd"},
		{Package: "cmd/strict", Why: "strict"},
	}
	tests := []struct {
		name    string
		pkg     string
		imports string
		want    string // part of the one problem; empty: none
	}{
		{"standard library", "/leaf", "net/http", ""},
		{"own words", "/leaf", Module, ""},
		{"own hash", "/leaf", Module + "/internal/hash", ""},
		{"root imports a leaf", "", Module + "/leaf", "root"},
		{"leaf imports a library", "/leaf", "example.org/lib", "imports example.org/lib: leaf"},
		{"leaf imports a sibling", "/leaf", Module + "/adapter", "leaf"},
		{"leaf imports a name that only begins like a word", "/leaf", Module + "/internal/hashmap", "leaf"},
		{"adapter imports its library", "/adapter", "example.org/lib/v2/sub", ""},
		{"adapter imports a library with the same beginning", "/adapter", "example.org/library", "adapter"},
		{"parent imports its pieces", "/gate", Module + "/gate/repeat", ""},
		{"parent imports a neighbour", "/gate", Module + "/gateway", "gate"},
		{"wiring imports everything", "/cmd/comporta", Module + "/gate/repeat", ""},
		{"wiring imports the root", "/cmd/comporta", Module, ""},
		{"an exact rule beats a pattern", "/cmd/strict", Module + "/leaf", "strict"},
		{"a leaf imports its own inner room", "/leaf", Module + "/leaf/internal/sip", ""},
		{"an inner room falls under its owner's rule", "/leaf/internal/sip", "example.org/lib", "leaf"},
		{"an inner room imports the words", "/leaf/internal/sip", Module, ""},
		{"the module's inner rooms are no package's own", "", Module + "/internal/hash", "root"},
		{"no rule", "/unknown", "fmt", "has no row"},
		{"another module", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pkg := Package{ImportPath: Module + tt.pkg, Imports: []string{tt.imports}}
			if tt.name == "another module" {
				pkg = Package{ImportPath: "example.org/other", Imports: []string{"example.org/lib"}}
			}
			got := Problems(rules, []Package{pkg})
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("unexpected: %s", got)
			case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)):
				t.Errorf("got %q, want one with %q", got, tt.want)
			}
		})
	}
}
