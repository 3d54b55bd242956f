package sqlitestore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/comporta/comporta/store"
)

// cases/events.md D40: a full disk fails claims with its name, loses none that
// was granted, and the store goes on by itself when there is room.
func TestCase_Events_D40_DiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("a small disk needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	write(t, ballast, strings.Repeat("x", 1<<20), 0o600)
	s := open(t, Config{Path: filepath.Join(dir, "state.db")})
	if h, err := s.Health(t.Context()); err != nil || !strings.Contains(h.Loss, "tmpfs") {
		t.Errorf("%+v, %v", h, err)
	}
	body := strings.Repeat("x", 10<<10)
	var told []string
	var claimed store.Hold
	var err error
	for i := 0; err == nil; i++ {
		c := claimOf(keyOf(i))
		claimed = store.Hold{Name: c.Name, Fence: c.Fence}
		if _, err = s.Claim(t.Context(), time.Now(), c); err != nil {
			break
		}
		if err = s.Finish(t.Context(), time.Now(), claimed, answerOf(body)); err == nil {
			told = append(told, keyOf(i))
		}
	}
	if !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), "make room") || len(told) < 50 {
		t.Fatalf("after %d: %v", len(told), err)
	}
	for range 3 {
		if _, err := s.Claim(t.Context(), time.Now(), claimOf("more")); err != nil && !errors.Is(err, store.ErrFull) {
			t.Error(err)
		}
	}
	if _, err := s.Health(t.Context()); err != nil && !errors.Is(err, store.ErrFull) { // what it tries is small
		t.Errorf("health: %v", err)
	}
	for _, key := range told {
		if bodyOf(t, s, key) != body {
			t.Errorf("%s has another answer", key)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), time.Now(), claimed, false); err != nil && !errors.Is(err, store.ErrLost) {
		t.Errorf("release: %v", err)
	}
	finish(t, s, granted(t, s, "after"), body)
	if _, err := s.Health(t.Context()); err != nil {
		t.Errorf("health with room: %v", err)
	}
	healthy(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, Config{Path: s.place.path})
	for _, key := range append(told, "after") {
		if bodyOf(t, s, key) != body {
			t.Errorf("%s has another answer", key)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
