package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/internal/migration"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrating is how long a migration may take, the wait for another process that
// migrates included.
const migrating = 10 * time.Minute

// migrate brings the schema to the version of this program. What is there already
// costs one statement and needs no right to create anything.
func (s *Store) migrate(ctx context.Context) error {
	steps, err := migration.Steps(migrations, "migrations")
	if err != nil {
		return err
	}
	quick, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	version, err := s.version(quick, s.pool)
	if err != nil || version == len(steps) {
		return err
	}
	ctx, cancel = context.WithTimeout(ctx, migrating)
	defer cancel()
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return s.migrateWithin(ctx, tx, steps) })
}

// queryer is a pool or a transaction.
type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// version returns the version of the tables, 0 where there are none.
func (s *Store) version(ctx context.Context, q queryer) (int, error) {
	there := false
	// Asked of the catalogue and not of to_regclass, which goes by a cache: after
	// the wait for another process it would still say no.
	err := q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = 'migration')`, s.schema).Scan(&there)
	if err != nil || !there {
		return 0, err
	}
	var version int
	if err := q.QueryRow(ctx, s.sql(`SELECT coalesce(max(version), 0) FROM {schema}.migration`)).Scan(&version); err != nil {
		return 0, err
	}
	if known, err := migration.Steps(migrations, "migrations"); err != nil || version > len(known) {
		return 0, errors.Join(err, fmt.Errorf("%w: schema %s has version %d of the tables, this program knows %d: run the later version, or name another schema", ErrNewer, s.schema, version, len(known)))
	}
	return version, nil
}

func (s *Store) migrateWithin(ctx context.Context, tx pgx.Tx, steps []migration.Step) error {
	// The lock is the transaction's, so that a pooler cannot give it away. Who
	// waited finds the work done.
	h := fnv.New64a()
	_, _ = h.Write([]byte("comporta migration of " + s.schema)) // never fails
	for _, statement := range []string{
		fmt.Sprintf(`SET LOCAL statement_timeout = %d`, migrating.Milliseconds()),
		fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d)`, int64(h.Sum64())),
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	version, err := s.version(ctx, tx)
	if err != nil || version == len(steps) {
		return err
	}
	if version == 0 {
		if err := s.found(ctx, tx); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, s.sql(`SET LOCAL search_path = {schema}`)); err != nil {
		return err
	}
	for _, step := range steps[version:] {
		// Without arguments a file of several statements is sent as it is.
		if _, err := tx.Conn().PgConn().Exec(ctx, step.SQL).ReadAll(); err != nil {
			return fmt.Errorf("migration %s: %w", step.Name, err)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO migration (version) VALUES ($1)`, step.Version); err != nil {
			return err
		}
	}
	if version == 0 {
		_, err = tx.Exec(ctx, `INSERT INTO meta (name, value) VALUES ('secret', $1)`, store.NewSecret())
	}
	return err
}

// found makes the schema, unless somebody has made it for this role.
func (s *Store) found(ctx context.Context, tx pgx.Tx) error {
	there := false
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, s.schema).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := tx.Exec(ctx, s.sql(`CREATE SCHEMA {schema}`)); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, s.sql(`CREATE TABLE {schema}.migration (
		version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT statement_timestamp())`))
	return err
}

// readSecret reads the secret that was drawn when the tables were made.
func (s *Store) readSecret(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var secret []byte
	err := s.pool.QueryRow(ctx, s.sql(`SELECT value FROM {schema}.meta WHERE name = 'secret'`)).Scan(&secret)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && len(secret) != store.SecretSize {
		return nil, fmt.Errorf("%w: schema %s has no secret: with another one every key would be new: restore it from a backup", ErrDamaged, s.schema)
	}
	return secret, err
}
