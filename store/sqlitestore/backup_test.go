package sqlitestore

import (
	"bytes"
	"context"
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
	err := s.Backup(t.Context(), path)
	stop()
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := s.Backup(t.Context(), path); err == nil || !strings.Contains(err.Error(), "name a new file") {
		t.Errorf("over another backup: %v", err)
	}
	if err := s.Backup(t.Context(), filepath.Join(dir, "none", "copy.db")); err == nil {
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
