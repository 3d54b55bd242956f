package sqlitestore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/internal/migration"
)

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID marks the file as ours, where file(1) and others look for it: the
// letters "CmpR".
const applicationID = 0x436d7052

// sumsVersion is the version of the tables since which records have sums.
const sumsVersion = 2

// prepare brings a database to the version of this program, and reports whether it
// was empty. One that is not ours is left as it is.
func prepare(ctx context.Context, conn *sql.Conn, path string) (empty bool, err error) {
	steps, err := migration.Steps(migrations, "migrations")
	if err != nil {
		return false, err
	}
	version, err := versionOf(ctx, conn, path)
	if err != nil {
		return false, err
	}
	if version > len(steps) {
		return false, fmt.Errorf("%w: %s has version %d of the tables, this program knows %d: run the later version, or name another path", ErrNewer, path, version, len(steps))
	}
	if err := durable(ctx, conn, path); err != nil {
		return false, err
	}
	if version == len(steps) {
		return false, writable(ctx, conn, path)
	}
	return version == 0, explain(path, inTransaction(ctx, conn, func() error { return migrate(ctx, conn, version, steps) }))
}

// rowQuerier is a connection, or all of them.
type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// versionOf returns the version of the tables, 0 for an empty file.
func versionOf(ctx context.Context, conn rowQuerier, path string) (int, error) {
	var id, tables int
	if err := conn.QueryRowContext(ctx, `PRAGMA application_id`).Scan(&id); err != nil {
		return 0, explain(path, err)
	}
	if err := conn.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master`).Scan(&tables); err != nil {
		return 0, explain(path, err)
	}
	if id == 0 && tables == 0 {
		return 0, nil
	}
	if id != applicationID {
		return 0, fmt.Errorf("%w: %s is a SQLite file of something else: name another path", ErrForeign, path)
	}
	var version int
	err := conn.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM migration`).Scan(&version)
	return version, explain(path, err)
}

// durable sets what a commit promises, and asks whether it was set: WAL is
// refused by some filesystems, without an error.
func durable(ctx context.Context, conn *sql.Conn, path string) error {
	var mode string
	if err := conn.QueryRowContext(ctx, `PRAGMA journal_mode = WAL`).Scan(&mode); err != nil {
		return explain(path, err)
	}
	if mode != "wal" {
		return fmt.Errorf("%w: %s cannot be in WAL mode (it stays in %q): use a disk of this machine", ErrFilesystem, path, mode)
	}
	if _, err := conn.ExecContext(ctx, `PRAGMA synchronous = FULL`); err != nil {
		return explain(path, err)
	}
	var level int
	if err := conn.QueryRowContext(ctx, `PRAGMA synchronous`).Scan(&level); err != nil {
		return explain(path, err)
	}
	if level != 2 {
		return fmt.Errorf("sqlitestore: %s: synchronous is %d and not FULL", path, level)
	}
	return nil
}

// writable asks whether the file can be written to: SQLite opens one that cannot to
// read it, says nothing, and begins immediate transactions there too. The
// statement takes the lock of a writer and changes nothing.
func writable(ctx context.Context, conn *sql.Conn, path string) error {
	_, err := conn.ExecContext(ctx, `UPDATE meta SET value = value WHERE name = ''`)
	return explain(path, err)
}

func inTransaction(ctx context.Context, conn *sql.Conn, do func() error) error {
	if _, err := conn.ExecContext(ctx, `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	err := do()
	if err == nil {
		_, err = conn.ExecContext(ctx, `COMMIT`)
	}
	if err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`) // SQLite may have done it
	}
	return err
}

func migrate(ctx context.Context, conn *sql.Conn, version int, steps []migration.Step) error {
	if version == 0 {
		if err := found(ctx, conn); err != nil {
			return err
		}
	}
	for _, step := range steps[version:] {
		if _, err := conn.ExecContext(ctx, step.SQL); err != nil {
			return fmt.Errorf("migration %s: %w", step.Name, err)
		}
		if _, err := conn.ExecContext(ctx, `INSERT INTO migration (version, applied) VALUES (?, ?)`, step.Version, time.Now().UnixMicro()); err != nil {
			return err
		}
	}
	if version == 0 {
		_, err := conn.ExecContext(ctx, `INSERT INTO meta (name, value) VALUES ('secret', ?)`, store.NewSecret())
		return err
	}
	return nil
}

// found marks a new file as ours.
func found(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA application_id = %d`, applicationID))
	if err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, `CREATE TABLE migration (version INTEGER PRIMARY KEY, applied INTEGER NOT NULL) STRICT`)
	return err
}

// secretOf reads the secret that was drawn when the file was made.
func secretOf(ctx context.Context, conn *sql.Conn, path string) ([]byte, error) {
	var secret []byte
	err := conn.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = 'secret'`).Scan(&secret)
	if errors.Is(err, sql.ErrNoRows) || err == nil && len(secret) != store.SecretSize {
		return nil, fmt.Errorf("%w: %s has no secret: with another one every key would be new: put a backup in its place", ErrCorrupt, path)
	}
	return secret, explain(path, err)
}
