package sqlitestore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A file that has lost its name under a store takes nothing more, and says so until
// the store is opened anew: who opens the name next would not find it.
func TestMoved(t *testing.T) {
	for what, c := range map[string]struct {
		do   func(path string) error
		undo func(path string) error // nil: what is lost is lost
		name string                  // that the error tells
	}{
		"removed": {
			do: os.Remove, name: "state.db ",
		},
		"renamed": {
			do:   func(path string) error { return os.Rename(path, path+".old") },
			undo: func(path string) error { return os.Rename(path+".old", path) },
			name: "state.db ",
		},
		"replaced": {
			do:   func(path string) error { return errors.Join(os.Rename(path, path+".old"), copyFile(path+".old", path)) },
			undo: func(path string) error { return os.Rename(path+".old", path) },
			name: "state.db is another file",
		},
		"the log removed": {
			do: func(path string) error { return os.Remove(path + "-wal") }, name: "state.db-wal ",
		},
		"the log replaced": {
			do: func(path string) error {
				return errors.Join(os.Rename(path+"-wal", path+".old"), copyFile(path+".old", path+"-wal"))
			},
			undo: func(path string) error { return os.Rename(path+".old", path+"-wal") },
			name: "state.db-wal is another file",
		},
		"the directory renamed": {
			do:   func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".old") },
			undo: func(path string) error { return os.Rename(filepath.Dir(path)+".old", filepath.Dir(path)) },
			name: "state.db ",
		},
	} {
		for _, first := range []string{"claim", "health"} {
			t.Run(what+", "+first, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "dir", "state.db")
				if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				s := open(t, Config{Path: path})
				finish(t, s, granted(t, s, "before"), "made")
				h, now := granted(t, s, "runs"), time.Now()
				if err := c.do(path); err != nil {
					t.Fatal(err)
				}
				calls := map[string]func() error{
					"claim":   func() error { _, err := s.Claim(t.Context(), now, claimOf("after")); return err },
					"health":  func() error { _, err := s.Health(t.Context()); return err },
					"finish":  func() error { return s.Finish(t.Context(), now, h, answerOf("late")) },
					"renew":   func() error { return s.Renew(t.Context(), now, h, time.Hour) },
					"release": func() error { return s.Release(t.Context(), now, h, false) },
					"sweep":   func() error { _, err := s.Sweep(t.Context(), now, 1); return err },
				}
				refused := func(call string) {
					t.Helper()
					err := calls[call]()
					if !errors.Is(err, ErrMoved) || !strings.Contains(err.Error(), c.name) || !strings.Contains(err.Error(), "start again") {
						t.Errorf("%s: %v", call, err)
					}
				}
				refused(first)
				if c.undo != nil {
					if err := c.undo(path); err != nil {
						t.Fatal(err)
					}
				}
				for call := range calls {
					refused(call)
				}
				if bodyOf(t, s, "before") != "made" {
					t.Error("what is finished is not told")
				}
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
				if c.undo == nil {
					return
				}
				s = open(t, Config{Path: path})
				healthy(t, s)
				if bodyOf(t, s, "before") != "made" {
					t.Error("a record is lost")
				}
				finish(t, s, h, "made in the end")
			})
		}
	}
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

// A file that cannot be asked for by its name now may be the same one: nothing is
// taken meanwhile, and the store goes on.
func TestNotToldWhetherMoved(t *testing.T) {
	s := open(t, Config{})
	path := &s.place.files[0].path
	whole := *path
	*path += "/below" // a file is no directory
	if _, err := s.Claim(t.Context(), time.Now(), claimOf("k")); err == nil || errors.Is(err, ErrMoved) || !strings.Contains(err.Error(), "same file") {
		t.Errorf("%v", err)
	}
	if _, err := s.Health(t.Context()); err == nil {
		t.Error("healthy")
	}
	*path = whole
	granted(t, s, "k")
	if _, err := s.Health(t.Context()); err != nil {
		t.Error(err)
	}
}

// BenchmarkKept is what each commit pays.
func BenchmarkKept(b *testing.B) {
	s := open(b, Config{})
	for b.Loop() {
		if err := s.place.kept(); err != nil {
			b.Fatal(err)
		}
	}
}
