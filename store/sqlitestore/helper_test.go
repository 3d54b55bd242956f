package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/comporta/comporta/store"
)

func file(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(tb.TempDir(), "state.db")
}

// open opens a store, at a path of its own unless c names one, and closes it at
// the end.
func open(tb testing.TB, c Config) *Store {
	tb.Helper()
	if c.Path == "" {
		c.Path = file(tb)
	}
	s, err := Open(context.Background(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return s
}

func nameOf(key string) (n store.Name) {
	copy(n[:], key)
	return n
}

func claimOf(key string) store.Claim {
	return store.Claim{
		Name: nameOf(key), Fence: store.NewFence(), Lease: time.Hour, TTL: 24 * time.Hour,
		Label: store.Label{Client: "c", Method: "POST", Route: "orders", Key: key},
	}
}

// granted claims a key and wants to be granted.
func granted(tb testing.TB, s *Store, key string) store.Hold {
	tb.Helper()
	c := claimOf(key)
	got, err := s.Claim(context.Background(), time.Now(), c)
	if err != nil || !got.Granted {
		tb.Fatalf("claim of %s: %+v, %v", key, got, err)
	}
	return store.Hold{Name: c.Name, Fence: c.Fence}
}

func finish(tb testing.TB, s *Store, h store.Hold, body string) {
	tb.Helper()
	err := s.Finish(context.Background(), time.Now(), h, answerOf(body))
	if err != nil {
		tb.Fatalf("finish: %v", err)
	}
}

func answerOf(body string) store.Finish {
	return store.Finish{TTL: 24 * time.Hour, Answer: store.Answer{Status: 200, Header: []byte("A: b\r\n"), Body: []byte(body)}}
}

// bodyOf looks at a finished record.
func bodyOf(tb testing.TB, s *Store, key string) string {
	tb.Helper()
	r, err := s.Look(context.Background(), time.Now(), nameOf(key))
	if err != nil || r.State != store.Finished {
		tb.Fatalf("look at %s: %v, %v", key, r.State, err)
	}
	return string(r.Answer.Body)
}

func healthy(tb testing.TB, s *Store) {
	tb.Helper()
	if err := Check(context.Background(), s.place.path); err != nil {
		tb.Error(err)
	}
}

func keyOf(i int) string { return fmt.Sprintf("key-%06d", i) }

// otherHands is a connection of a program that knows nothing of the store, until done.
func otherHands(tb testing.TB, path string) (conn *sql.Conn, done func()) {
	tb.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		tb.Fatal(err)
	}
	if conn, err = db.Conn(context.Background()); err != nil {
		tb.Fatal(err)
	}
	return conn, func() {
		_ = conn.Close()
		_ = db.Close()
	}
}
