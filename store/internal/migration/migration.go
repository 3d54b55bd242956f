// Package migration reads the steps by which a database gets its tables.
package migration

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
)

// Step brings a database from the version before to Version.
type Step struct {
	Version int    // 1, 2, …
	Name    string // of the file, for people
	SQL     string
}

var fileName = regexp.MustCompile(`^(\d{3})_[a-z0-9_]+\.sql$`)

// Steps returns the steps of the files NNN_name.sql in dir, in order. That a
// number is missing, or there twice, is an error: two databases of one version
// must be the same.
func Steps(files fs.FS, dir string) ([]Step, error) {
	entries, err := fs.ReadDir(files, dir) // sorted by name
	if err != nil {
		return nil, fmt.Errorf("migration: %w", err)
	}
	steps := make([]Step, 0, len(entries))
	for i, e := range entries {
		m := fileName.FindStringSubmatch(e.Name())
		if m == nil {
			return nil, fmt.Errorf("migration: %q is no name: use 001_name.sql", e.Name())
		}
		version, err := strconv.Atoi(m[1])
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("migration: %s comes where version %d should: number the files without a gap", e.Name(), i+1)
		}
		text, err := fs.ReadFile(files, path.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("migration: %w", err)
		}
		steps = append(steps, Step{version, e.Name(), string(text)})
	}
	return steps, nil
}
