package migration

import (
	"strings"
	"testing"
	"testing/fstest"
)

func files(names ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for _, n := range names {
		m["dir/"+n] = &fstest.MapFile{Data: []byte("-- " + n)}
	}
	return m
}

func TestSteps(t *testing.T) {
	steps, err := Steps(files("002_b.sql", "001_a.sql", "003_c_2.sql"), "dir")
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range steps {
		if s.Version != i+1 || s.SQL != "-- "+s.Name {
			t.Errorf("step %d: %+v", i, s)
		}
	}
	if len(steps) != 3 {
		t.Errorf("%d steps of 3 files", len(steps))
	}
	for want, bad := range map[string]fstest.MapFS{
		"version 2":  files("001_a.sql", "003_c.sql"),
		"version 1":  files("002_a.sql"),
		"is no name": files("001_a.sql", "readme.md"),
		"version 3":  files("001_a.sql", "002_a.sql", "002_b.sql"),
		"dir":        {},
	} {
		if _, err := Steps(bad, "dir"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want something with %q", err, want)
		}
	}
}
