package queue

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// start is the first instant of every test in virtual time.
var start = time.Date(2026, 3, 10, 14, 0, 0, 0, time.UTC)

var errBusy = errors.New("busy")

func file(t testing.TB) string { return filepath.Join(t.TempDir(), "q") }

// open opens a queue whose path is c.Path, or a fresh one, and closes it at the end.
func open(t testing.TB, c Config) *Queue {
	t.Helper()
	if c.Path == "" {
		c.Path = file(t)
	}
	q, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	return q
}

func reopen(t testing.TB, q *Queue) *Queue {
	t.Helper()
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, q.config)
}

func enqueue(t testing.TB, q *Queue, now time.Time, keys ...string) {
	t.Helper()
	for _, k := range keys {
		if _, err := q.EnqueueAt(now, Entry{Key: k, Payload: []byte("payload of " + k)}, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// next returns the item that is due; it must be there.
func next(t testing.TB, q *Queue, now time.Time) Item {
	t.Helper()
	item, wait, err := q.NextAt(now)
	if err != nil || wait != 0 {
		t.Fatalf("NextAt: wait %v, %v; want an item", wait, err)
	}
	return item
}

// waits returns how long nothing is due.
func waits(t testing.TB, q *Queue, now time.Time) time.Duration {
	t.Helper()
	item, wait, err := q.NextAt(now)
	if err != nil || wait == 0 {
		t.Fatalf("NextAt: item %q, %v; want a wait", item.Key, err)
	}
	return wait
}

func settle(t testing.TB, q *Queue, now time.Time, item Item, r Result, u float64) {
	t.Helper()
	if err := q.SettleAt(now, item.ID, r, u); err != nil {
		t.Fatal(err)
	}
}

func waitingKeys(q *Queue) []string {
	keys := []string{}
	for _, e := range q.state.waiting {
		keys = append(keys, e.key)
	}
	return keys
}

func deadKeys(q *Queue) []string {
	keys := []string{}
	for l := range q.Letters() {
		keys = append(keys, l.Key)
	}
	return keys
}

func wantKeys(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
