package sqlitestore

import (
	"slices"
	"testing"

	"github.com/comporta/comporta/store/internal/migration"
)

// A step that fails leaves the version before it whole; the next one that does not
// fail brings the file on, with its records and its secret.
func TestMigrate(t *testing.T) {
	path := file(t)
	s := open(t, Config{Path: path})
	finish(t, s, granted(t, s, "k"), "made")
	secret := string(s.secret)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	conn, leave := otherHands(t, path)
	defer leave()
	steps, err := migration.Steps(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	to := func(text string) error {
		more := slices.Concat(steps, []migration.Step{{Version: len(steps) + 1, Name: "later.sql", SQL: text}})
		return inTransaction(t.Context(), conn, func() error { return migrate(t.Context(), conn, len(steps), more) })
	}
	version := func() int {
		v, err := versionOf(t.Context(), conn, path)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if err := to(`ALTER TABLE idempotency ADD COLUMN later INTEGER; SELECT fault`); err == nil || version() != len(steps) {
		t.Errorf("a step that fails: %v, version %d", err, version())
	}
	if _, err := conn.ExecContext(t.Context(), `SELECT later FROM idempotency`); err == nil {
		t.Error("half of the step is there")
	}
	if err := to(`ALTER TABLE idempotency ADD COLUMN later INTEGER NOT NULL DEFAULT 7`); err != nil || version() != len(steps)+1 {
		t.Fatalf("%v, version %d", err, version())
	}
	var later int
	var body, kept string
	err = conn.QueryRowContext(t.Context(), `SELECT later, CAST(body AS TEXT), (SELECT value FROM meta) FROM idempotency`).Scan(&later, &body, &kept)
	if err != nil || later != 7 || body != "made" || kept != secret {
		t.Errorf("%d, %q, the same secret %v, %v", later, body, kept == secret, err)
	}
}
