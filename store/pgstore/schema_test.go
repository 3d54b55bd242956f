//go:build integration

package pgstore

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/comporta/comporta/store/internal/migration"
)

// A step that fails leaves the version before it whole; the next one that does not
// fail brings the tables on, with their records.
func TestMigrate(t *testing.T) {
	s := open(t, Config{})
	c := claimOf("k")
	if _, err := s.Claim(t.Context(), time.Now(), c); err != nil {
		t.Fatal(err)
	}
	steps, err := migration.Steps(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	known := len(steps)
	to := func(text string) error {
		more := slices.Concat(steps, []migration.Step{{Version: known + 1, Name: "later.sql", SQL: text}})
		return pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error { return s.migrateWithin(t.Context(), tx, more) })
	}
	versions := func() (n int) {
		if err := s.pool.QueryRow(t.Context(), s.sql(`SELECT count(*) FROM {schema}.migration`)).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := to(`ALTER TABLE idempotency ADD COLUMN later integer; SELECT fault`); err == nil || versions() != known {
		t.Errorf("a step that fails: %v, %d versions", err, versions())
	}
	if err := to(`ALTER TABLE idempotency ADD COLUMN later integer NOT NULL DEFAULT 7`); err != nil || versions() != known+1 {
		t.Fatalf("%v, %d versions", err, versions())
	}
	var later int
	if err := s.pool.QueryRow(t.Context(), s.sql(`SELECT later FROM {schema}.idempotency`)).Scan(&later); err != nil || later != 7 {
		t.Errorf("%d, %v", later, err)
	}
	// A process of the version before, which is open still, goes on with what it knows.
	if got, err := s.Claim(t.Context(), time.Now(), claimOf("l")); err != nil || !got.Granted {
		t.Errorf("%+v, %v", got, err)
	}
	if r, err := s.Look(t.Context(), time.Now(), c.Name); err != nil || r.Fence != c.Fence {
		t.Errorf("%+v, %v", r, err)
	}
}
