package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigSaysAllProblemsAtOnce(t *testing.T) {
	err := Config{MaxBytes: 1, Readers: 65, Busy: -1}.Check()
	for _, want := range []string{"Path is empty", "MaxBytes: 1", "Readers: 65", "Busy: -1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want something with %q", err, want)
		}
	}
	if err := (Config{Path: "x"}).Check(); err != nil {
		t.Error(err)
	}
}

func write(tb testing.TB, path, content string, mode os.FileMode) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		tb.Fatal(err)
	}
}

// sqlFile makes a SQLite file that other hands have written to.
func sqlFile(tb testing.TB, path string, statements ...string) {
	tb.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		tb.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			tb.Fatal(err)
		}
	}
}

// What Open cannot use it leaves alone, and says what to do.
func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		lay   func(dir string) string // returns the path to open
		want  string
		match error
	}{
		{"NoDirectory", func(dir string) string { return filepath.Join(dir, "none", "db") }, "make it", os.ErrNotExist},
		{"ADirectory", func(dir string) string { return dir }, "is no file", nil},
		{"ASlashAtTheEnd", func(dir string) string { return dir + "/" }, "name a file in it", nil},
		{"AFileAsDirectory", func(dir string) string {
			write(t, filepath.Join(dir, "f"), "", 0o600)
			return filepath.Join(dir, "f", "db")
		}, "directory", nil},
		{"ALinkToNothing", func(dir string) string {
			if err := os.Symlink(filepath.Join(dir, "none"), filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(dir, "link")
		}, "symbolic link to nothing", nil},
		{"AText", func(dir string) string {
			write(t, filepath.Join(dir, "db"), strings.Repeat("dear diary ", 100), 0o600)
			return filepath.Join(dir, "db")
		}, "no SQLite file", ErrForeign},
		{"AnotherProgramsFile", func(dir string) string {
			sqlFile(t, filepath.Join(dir, "db"), `CREATE TABLE photo (id INTEGER)`)
			return filepath.Join(dir, "db")
		}, "something else", ErrForeign},
		{"ALaterVersion", func(dir string) string {
			path := filepath.Join(dir, "db")
			if err := open(t, Config{Path: path}).Close(); err != nil {
				t.Fatal(err)
			}
			sqlFile(t, path, `INSERT INTO migration VALUES (99, 0)`)
			return path
		}, "version 99", ErrNewer},
		{"NoSecret", func(dir string) string {
			path := filepath.Join(dir, "db")
			if err := open(t, Config{Path: path}).Close(); err != nil {
				t.Fatal(err)
			}
			sqlFile(t, path, `DELETE FROM meta`)
			return path
		}, "put a backup in its place", ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := c.lay(t.TempDir())
			before, readErr := os.ReadFile(path)
			s, err := Open(t.Context(), Config{Path: path})
			if err == nil {
				t.Fatal(errors.Join(errors.New("opened"), s.Close()))
			}
			if !strings.Contains(err.Error(), c.want) || c.match != nil && !errors.Is(err, c.match) {
				t.Errorf("%v\nwant %q and %v", err, c.want, c.match)
			}
			if after, err := os.ReadFile(path); readErr == nil && (err != nil || !bytes.Equal(after, before)) {
				t.Errorf("the file was changed, %v", err)
			}
			s, err = Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "other")}) // nothing is left that hinders
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestANetworksFilesystemIsRefused(t *testing.T) {
	nfs := func(string) (unfitName, volatileName string, err error) { return "NFS", "", nil }
	c := Config{Path: file(t)}
	if _, err := takePlace(&c, nfs); !errors.Is(err, ErrFilesystem) || !strings.Contains(err.Error(), "NFS") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(c.Path); err == nil {
		t.Error("a file was made")
	}
	c.AnyFilesystem = true
	p, err := takePlace(&c, nfs)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.leave(); err != nil {
		t.Error(err)
	}
}

// Whoever meant a file that was there is told that it was not.
func TestFileSaysWhetherItWasMade(t *testing.T) {
	path := file(t)
	for _, want := range []bool{true, false} {
		s := open(t, Config{Path: path})
		if got, made := s.File(); got != path || made != want {
			t.Errorf("%s, %v, want %v", got, made, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The file itself may be mounted from a network into a directory of this machine.
func TestAFileOnANetworksFilesystemIsRefused(t *testing.T) {
	path := file(t)
	write(t, path, "", 0o600)
	nfs := func(at string) (unfitName, volatileName string, err error) {
		if at == path {
			return "NFS", "", nil
		}
		return "", "", nil
	}
	if _, err := takePlace(&Config{Path: path}, nfs); !errors.Is(err, ErrFilesystem) || !strings.Contains(err.Error(), path+" lies on NFS") {
		t.Errorf("%v", err)
	}
}

// Each hard link has a lock of its own beside it, so none of them is opened.
func TestHardLinksAreRefused(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "db"), filepath.Join(dir, "link")
	s := open(t, Config{Path: path})
	if err := os.Link(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Path: link}); !errors.Is(err, ErrNames) || !strings.Contains(err.Error(), link+" is one of 2 hard links") {
		t.Errorf("%v", err)
	}
	cannotCare(t, link)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Path: path}); !errors.Is(err, ErrNames) {
		t.Errorf("%v", err)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	open(t, Config{Path: path})
}

// cannotCare has a state looked after by a name that is not its user's: what that has
// in its log would not be seen, and a copy would lack it.
func cannotCare(t *testing.T, path string) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy.db")
	for what, err := range map[string]error{"check": Check(t.Context(), path), "backup": Backup(t.Context(), path, to)} {
		if !errors.Is(err, ErrNames) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, left := range []string{to, path + "-wal", path + "-shm"} {
		if _, err := os.Stat(left); err == nil {
			t.Errorf("%s was left", left)
		}
	}
}

// Answers are nobody else's to read, also where somebody copied a backup in place.
func TestFilesAreTheOwnersOnly(t *testing.T) {
	path := file(t)
	s := open(t, Config{Path: path})
	finish(t, s, granted(t, s, "k"), "secret")
	modes := func() {
		t.Helper()
		for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
			info, err := os.Stat(path + suffix)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", suffix, info.Mode(), err)
			}
		}
	}
	modes()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	s = open(t, Config{Path: path})
	finish(t, s, granted(t, s, "l"), "secret")
	modes()
}

// A file that can only be read is found when it is opened, and not with the first
// claim. Root may write to every file, so a connection that only reads stands in.
func TestAFileThatCannotBeWrittenToIsRefused(t *testing.T) {
	path := file(t)
	if err := open(t, Config{Path: path}).Close(); err != nil {
		t.Fatal(err)
	}
	refused := func(err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), path+": the file and its directory must be writable by this user") {
			t.Errorf("%v", err)
		}
	}
	db, err := connect(path, &Config{}, "ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = prepare(t.Context(), conn, path)
	refused(err)
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if os.Geteuid() == 0 {
		return
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Config{Path: path})
	refused(err)
}

// Two names of one file lead to one lock.
func TestASecondStoreIsRefused(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "db"), filepath.Join(dir, "link")
	s := open(t, Config{Path: path})
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, link, filepath.Join(dir, ".", "x", "..", "db")} {
		if _, err := Open(context.Background(), Config{Path: p}); !errors.Is(err, ErrInUse) {
			t.Errorf("%s: %v", p, err)
		}
	}
	granted(t, s, "k")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, Config{Path: link})
	if _, err := Open(t.Context(), Config{Path: path}); !errors.Is(err, ErrInUse) {
		t.Error(err)
	}
}
