package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
)

// columns is what [scan] reads, in its order.
const columns = `seq, name, fence, created, lease_until, expires, finished, client, method, route, key, fingerprint, status, omitted, length(body)`

// answer is what scan reads beyond them, of one record.
const answer = `, header, body, fingerprint_sum, finish_sum`

// tables holds the writer's statements. Only the writer's goroutine uses it.
type tables struct {
	begin, commit                  *sql.Stmt
	pages, free                    *sql.Stmt
	insert, take, find, forget     *sql.Stmt
	renew, finish, release, expire *sql.Stmt
	probe                          *sql.Stmt

	pageSize int64
	full     bool // no new claims in this transaction
}

func (t *tables) prepare(ctx context.Context, conn *sql.Conn) error {
	err := conn.QueryRowContext(ctx, `PRAGMA page_size`).Scan(&t.pageSize)
	for _, s := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&t.begin, `BEGIN IMMEDIATE`},
		{&t.commit, `COMMIT`},
		{&t.pages, `PRAGMA page_count`},
		{&t.free, `PRAGMA freelist_count`},
		{&t.insert, `INSERT INTO idempotency (name, fence, created, lease_until, expires, client, method, route, key, fingerprint, fingerprint_sum)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING`},
		{&t.take, `UPDATE idempotency SET fence = ?, lease_until = ?, expires = ?, client = ?, method = ?, route = ?, key = ?, fingerprint = ?, fingerprint_sum = ?
			WHERE seq = ?`},
		{&t.find, `SELECT ` + columns + answer + ` FROM idempotency WHERE name = ?`},
		{&t.forget, `DELETE FROM idempotency WHERE seq = ?`},
		{&t.renew, `UPDATE idempotency SET lease_until = ?1, expires = max(expires, ?1)
			WHERE name = ? AND fence = ? AND expires > ? AND finished IS NULL`},
		{&t.finish, `UPDATE idempotency SET finished = ?, expires = ?, status = ?, header = ?, body = ?, omitted = ?, finish_sum = ?,
			fingerprint = coalesce(?, fingerprint), fingerprint_sum = coalesce(?, fingerprint_sum)
			WHERE name = ? AND fence = ? AND expires > ? AND finished IS NULL`},
		{&t.release, `DELETE FROM idempotency WHERE name = ? AND fence = ? AND expires > ? AND (finished IS NOT NULL) = ?`},
		{&t.probe, `INSERT INTO meta (name, value) VALUES ('probe', x'') ON CONFLICT (name) DO UPDATE SET value = excluded.value`},
		{&t.expire, `DELETE FROM idempotency WHERE seq IN (SELECT seq FROM idempotency WHERE expires <= ? LIMIT ?)`},
	} {
		if err == nil {
			*s.stmt, err = conn.PrepareContext(ctx, s.text) //nolint:sqlclosecheck // close does
		}
	}
	return err
}

func (t *tables) close() error {
	var errs []error
	for _, s := range []*sql.Stmt{t.begin, t.commit, t.pages, t.free, t.insert, t.take, t.find, t.forget, t.renew, t.finish, t.release, t.expire, t.probe} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// used is how many bytes of the file hold something.
func (t *tables) used(ctx context.Context) (int64, error) {
	var pages, free int64
	if err := t.pages.QueryRowContext(ctx).Scan(&pages); err != nil {
		return 0, err
	}
	if err := t.free.QueryRowContext(ctx).Scan(&free); err != nil {
		return 0, err
	}
	return (pages - free) * t.pageSize, nil
}

// changed runs a statement and returns how many rows it changed.
func changed(ctx context.Context, s *sql.Stmt, args ...any) (int, error) {
	r, err := s.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	return int(n), err
}
