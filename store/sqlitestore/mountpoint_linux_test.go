package sqlitestore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A single file that is mounted into a container has a lock in each container.
// Its directory is mounted instead.
func TestAMountedFileIsRefused(t *testing.T) {
	outside, inside := t.TempDir(), t.TempDir()
	path := filepath.Join(outside, "state.db")
	s := open(t, Config{Path: path})
	granted(t, s, "k")
	bind := func(what, at string) {
		t.Helper()
		if err := syscall.Mount(what, at, "", syscall.MS_BIND, ""); err != nil {
			t.Skipf("a bind mount needs root: %v", err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(at, 0); err != nil {
				t.Error(err)
			}
		})
	}
	one, whole := filepath.Join(inside, "state.db"), filepath.Join(inside, "whole")
	write(t, one, "", 0o600)
	if err := os.Mkdir(whole, 0o700); err != nil {
		t.Fatal(err)
	}
	bind(path, one)
	for _, unfit := range []bool{false, true} {
		_, err := Open(t.Context(), Config{Path: one, AnyFilesystem: unfit})
		if !errors.Is(err, ErrNames) || !strings.Contains(err.Error(), one) || !strings.Contains(err.Error(), "mount its directory") {
			t.Errorf("%v", err)
		}
	}
	if _, err := os.Stat(one + ".lock"); err == nil {
		t.Error("a lock was left")
	}
	cannotCare(t, one)
	bind(outside, whole)
	if _, err := Open(t.Context(), Config{Path: filepath.Join(whole, "state.db")}); !errors.Is(err, ErrInUse) {
		t.Errorf("by its directory: %v", err)
	}
	if err := Check(t.Context(), filepath.Join(whole, "state.db")); err != nil {
		t.Errorf("a directory has the log in it, wherever it is mounted: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, Config{Path: filepath.Join(whole, "state.db")})
}
