package sqlitestore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/comporta/comporta/store"
)

// A backup under load is one instant: each record whole, the secret with them.
func TestBackup(t *testing.T) {
	s := open(t, Config{})
	finish(t, s, granted(t, s, "before"), "made")
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			finish(t, s, granted(t, s, keyOf(i)), keyOf(i))
		}
	})
	dir := t.TempDir()
	path := filepath.Join(dir, "copy.db")
	err := Backup(t.Context(), s.place.path, path)
	stop()
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := Backup(t.Context(), s.place.path, path); err == nil || !strings.Contains(err.Error(), "name a new file") {
		t.Errorf("over another backup: %v", err)
	}
	if err := Backup(t.Context(), s.place.path, filepath.Join(dir, "none", "copy.db")); err == nil {
		t.Error("into no directory")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	copied := open(t, Config{Path: path})
	healthy(t, copied)
	mine, _ := s.Secret(t.Context())
	theirs, _ := copied.Secret(t.Context())
	if !bytes.Equal(mine, theirs) {
		t.Error("the copy has another secret")
	}
	if bodyOf(t, copied, "before") != "made" {
		t.Error("the copy lacks a record")
	}
	err = copied.Finished(t.Context(), time.Now(), func(n store.Name, _ time.Time) bool {
		r, err := copied.Look(t.Context(), time.Now(), n)
		if err != nil || r.State != store.Finished || string(r.Answer.Body) != r.Label.Key && r.Label.Key != "before" {
			t.Errorf("%+v, %v", r, err)
		}
		return true
	})
	if err != nil {
		t.Error(err)
	}
	granted(t, s, "after") // the connection that copied is a reader again
	if _, err := s.reading.ExecContext(t.Context(), `DELETE FROM idempotency`); err == nil {
		t.Error("a reader writes")
	}
}

// The log is moved into the database when nobody writes.
func TestCheckpointWhenIdle(t *testing.T) {
	s := open(t, Config{})
	for i := range 50 {
		finish(t, s, granted(t, s, keyOf(i)), strings.Repeat("x", 1000))
	}
	size := func() int64 {
		info, err := os.Stat(s.place.path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before, deadline := size(), time.Now().Add(30*time.Second)
	for size() == before {
		if time.Now().After(deadline) {
			t.Fatal("the log was not moved")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Over many records Finished reads in parts and names each once.
func TestFinishedInParts(t *testing.T) {
	s := open(t, Config{})
	var wg sync.WaitGroup
	const each = (2*chunk + 100) / 60
	for g := range 60 {
		wg.Go(func() {
			for i := range each {
				finish(t, s, granted(t, s, keyOf(g*1000+i)), "")
			}
		})
	}
	wg.Wait()
	seen := map[store.Name]bool{}
	err := s.Finished(t.Context(), time.Now(), func(n store.Name, _ time.Time) bool {
		if seen[n] {
			t.Errorf("%v twice", n)
		}
		seen[n] = true
		return true
	})
	if err != nil || len(seen) != 60*each {
		t.Errorf("%d of %d, %v", len(seen), 60*each, err)
	}
}

// What a process that was killed has left, the log with it, can be read and copied
// before anybody opens it.
func TestCareOfWhatIsLeftBehind(t *testing.T) {
	path := file(t)
	s := open(t, Config{Path: path})
	finish(t, s, granted(t, s, "k"), "made")
	dir := t.TempDir()
	left := filepath.Join(dir, "left.db")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		write(t, left+suffix, string(b), 0o600)
	}
	if err := Check(t.Context(), left); err != nil {
		t.Error(err)
	}
	to := filepath.Join(dir, "copy.db")
	if err := Backup(t.Context(), left, to); err != nil {
		t.Fatal(err)
	}
	if bodyOf(t, open(t, Config{Path: to}), "k") != "made" {
		t.Error("the log was not read")
	}
}

func TestCareOfWhatIsNoState(t *testing.T) {
	dir := t.TempDir()
	text, other, empty := filepath.Join(dir, "text"), filepath.Join(dir, "other"), filepath.Join(dir, "empty")
	write(t, text, strings.Repeat("dear diary ", 100), 0o600)
	sqlFile(t, other, `CREATE TABLE photo (id INTEGER)`)
	write(t, empty, "", 0o600)
	for path, want := range map[string]error{
		text: ErrForeign, other: ErrForeign, empty: ErrForeign, filepath.Join(dir, "none"): os.ErrNotExist, filepath.Join(dir, "no", "db"): os.ErrNotExist,
	} {
		if err := Check(t.Context(), path); !errors.Is(err, want) {
			t.Errorf("check of %s: %v", path, err)
		}
		if err := Backup(t.Context(), path, filepath.Join(dir, "copy")); !errors.Is(err, want) {
			t.Errorf("backup of %s: %v", path, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "copy")); err == nil {
		t.Error("a copy was made")
	}
}
