// Package deptest says which package may import what, and why.
//
// # Basics
//
// The architecture has one direction: imports point down, and a leaf stands on
// the standard library and the module's own words. [Rules] writes that down, one
// row a package; the test of this package compares it with what the sources
// import and fails with the row's reason. A package without a row fails too: a
// new room is drawn on the plan before it is built.
//
// # Caveats
//
// Only the imports of the production sources count, not those of tests. Direct
// imports suffice: every package of the module has a row of its own, and what a
// permitted library imports in turn is that library's affair.
package deptest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// Module is the path of the module whose packages are judged.
const Module = "github.com/comporta/comporta"

// Rule is the row of one package.
type Rule struct {
	// Package is a path below the module; "" is the module's root. A path that
	// ends in "/..." stands for the package and everything below it. What lies in
	// the internal folder of a package is part of it: it falls under the same rule.
	Package string
	// Words are the packages of the module that it may import, in the notation of
	// Package.
	Words []string
	// Libraries are the import paths from outside the standard library that it
	// may import, with everything below them.
	Libraries []string
	// Why is what the failing test says.
	Why string
}

// Package is what a package imports, as `go list -json` prints it.
type Package struct {
	ImportPath string   `json:"ImportPath"`
	Imports    []string `json:"Imports"`
}

// List returns the packages of the module around dir with their imports.
func List(dir string) ([]Package, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports", "./...") //nolint:noctx // ends by itself
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("deptest: go list: %w: %s", err, stderr.String())
	}
	var packages []Package
	for d := json.NewDecoder(&stdout); ; {
		var p Package
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("deptest: reading go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// Problems returns one sentence for each import that the rules forbid, and for
// each package that has no rule.
func Problems(rules []Rule, packages []Package) []string {
	var problems []string
	for _, p := range packages {
		name, ours := within(p.ImportPath)
		if !ours {
			continue
		}
		rule := find(rules, name)
		if rule == nil {
			problems = append(problems, fmt.Sprintf("%s has no row in deptest.Rules: add one that says what it may import", p.ImportPath))
			continue
		}
		for _, path := range p.Imports {
			if !rule.allows(path) && !sameHouse(p.ImportPath, path) {
				problems = append(problems, fmt.Sprintf("%s imports %s: %s", p.ImportPath, path, rule.Why))
			}
		}
	}
	return problems
}

// find returns the rule of a package: the one that names it, else the longest
// pattern that covers it.
func find(rules []Rule, name string) *Rule {
	if owner, _, inner := strings.Cut(name, "/internal/"); inner {
		name = owner
	}
	var best *Rule
	for i := range rules {
		r := &rules[i]
		if r.Package == name {
			return r
		}
		if matches(r.Package, name) && (best == nil || len(r.Package) > len(best.Package)) {
			best = r
		}
	}
	return best
}

func (r *Rule) allows(path string) bool {
	name, ours := within(path)
	if !ours {
		if standard(path) {
			return true
		}
		for _, library := range r.Libraries {
			if path == library || strings.HasPrefix(path, library+"/") {
				return true
			}
		}
		return false
	}
	for _, word := range r.Words {
		if matches(word, name) {
			return true
		}
	}
	return false
}

// sameHouse reports whether both paths belong to one package and its internal
// folder.
func sameHouse(importer, imported string) bool {
	owner, _, _ := strings.Cut(importer, "/internal/")
	room, _, inner := strings.Cut(imported, "/internal/")
	return inner && owner == room && owner != Module
}

// within returns the path of a package below the module.
func within(path string) (name string, ours bool) {
	if path == Module {
		return "", true
	}
	return strings.CutPrefix(path, Module+"/")
}

func matches(pattern, name string) bool {
	parent, ok := strings.CutSuffix(pattern, "...")
	if !ok {
		return pattern == name
	}
	return strings.HasPrefix(name+"/", parent)
}

// standard reports whether a path belongs to the standard library: only there
// does the first element lack a dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}
