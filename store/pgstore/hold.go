package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/comporta/comporta/store"
)

// The statements. After a wait for another one's lock the conditions are judged
// anew on the row as it then is, by the instant at which the statement began: a
// lease is never taken for over too early.
const (
	claimSQL = `INSERT INTO {schema}.idempotency AS old (name, fence, created, lease_until, expires, client, method, route, key, fingerprint)
		VALUES ($1::bytea, $2::bigint, statement_timestamp(), statement_timestamp() + $3::bigint * interval '1 microsecond',
			statement_timestamp() + $4::bigint * interval '1 microsecond', $5::text, $6::text, $7::text, $8::text, $9::bytea)
		ON CONFLICT (name) DO UPDATE SET
			seq = CASE WHEN old.expires <= statement_timestamp() THEN excluded.seq ELSE old.seq END,
			created = CASE WHEN old.expires <= statement_timestamp() THEN excluded.created ELSE old.created END,
			fence = excluded.fence, lease_until = excluded.lease_until, expires = excluded.expires, finished = NULL,
			client = excluded.client, method = excluded.method, route = excluded.route, key = excluded.key,
			fingerprint = excluded.fingerprint, status = 0, omitted = false, header = '', body = ''
		WHERE old.expires <= statement_timestamp()
			OR old.finished IS NULL AND old.fence = $10::bigint AND old.lease_until <= statement_timestamp()`
	renewSQL = `UPDATE {schema}.idempotency SET lease_until = statement_timestamp() + $3::bigint * interval '1 microsecond',
			expires = greatest(expires, statement_timestamp() + $3::bigint * interval '1 microsecond')
		WHERE name = $1::bytea AND fence = $2::bigint AND finished IS NULL AND expires > statement_timestamp()`
	finishSQL = `UPDATE {schema}.idempotency SET finished = statement_timestamp(), expires = statement_timestamp() + $3::bigint * interval '1 microsecond',
			status = $4::integer, header = $5::bytea, body = $6::bytea, omitted = $7::boolean, fingerprint = coalesce($8::bytea, fingerprint)
		WHERE name = $1::bytea AND fence = $2::bigint AND finished IS NULL AND expires > statement_timestamp()`
	finishedSQL = `SELECT count(*) FROM {schema}.idempotency
		WHERE name = $1::bytea AND fence = $2::bigint AND finished IS NOT NULL AND expires > statement_timestamp()`
	releaseSQL = `DELETE FROM {schema}.idempotency
		WHERE name = $1::bytea AND fence = $2::bigint AND (finished IS NOT NULL) = $3::boolean AND expires > statement_timestamp()`
	lookSQL = `SELECT ` + columns + `, header, body FROM {schema}.idempotency
		WHERE name = $1::bytea AND expires > statement_timestamp()`
	sweepSQL = `DELETE FROM {schema}.idempotency WHERE seq IN (
		SELECT seq FROM {schema}.idempotency WHERE expires <= statement_timestamp() ORDER BY expires LIMIT $1::integer FOR UPDATE SKIP LOCKED)`
)

// maxTurns bounds how often a claim meets a record that is gone when it is looked
// at.
const maxTurns = 10

// Claim implements store.Keys.
func (s *Store) Claim(ctx context.Context, _ time.Time, c store.Claim) (store.Claimed, error) {
	if err := c.Check(); err != nil {
		return store.Claimed{}, err
	}
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return store.Claimed{}, err
	}
	defer leave()
	l := &c.Label
	for range maxTurns {
		n, err := s.exec(ctx, again, s.statements.claim, c.Name[:], c.Fence, c.Lease.Microseconds(), c.TTL.Microseconds(),
			text(l.Client), text(l.Method), text(l.Route), text(l.Key), orEmpty(c.Fingerprint), c.Over)
		if err != nil || n > 0 {
			return store.Claimed{Granted: err == nil}, err
		}
		r, err := s.find(ctx, c.Name)
		switch {
		case errors.Is(err, store.ErrNotFound): // it ended between the two
		case err != nil:
			return store.Claimed{}, err
		case r.Fence == c.Fence && r.State != store.Finished: // asked again
			return store.Claimed{Granted: true}, nil
		default:
			return store.Claimed{Record: r}, nil
		}
	}
	return store.Claimed{}, fmt.Errorf("%w: the record came and went %d times", ErrUnavailable, maxTurns)
}

// orEmpty is for columns that are not null.
func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (s *Store) find(ctx context.Context, n store.Name) (store.Record, error) {
	var r store.Record
	err := s.retry(ctx, again, func() (err error) {
		_, r, err = scan(s.pool.QueryRow(ctx, s.statements.look, n[:]), true)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return store.Record{}, fmt.Errorf("pgstore: %w", store.ErrNotFound)
	}
	return r, explain(err)
}

// Look implements store.Keys.
func (s *Store) Look(ctx context.Context, _ time.Time, n store.Name) (store.Record, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return store.Record{}, err
	}
	defer leave()
	return s.find(ctx, n)
}

var errLost = fmt.Errorf("pgstore: %w", store.ErrLost)

// lostIfNone is the error of a change that found nothing to change.
func lostIfNone(n int, err error) error {
	if err == nil && n == 0 {
		return errLost
	}
	return err
}

// Renew implements store.Keys.
func (s *Store) Renew(ctx context.Context, _ time.Time, h store.Hold, lease time.Duration) error {
	if err := store.CheckLease(lease); err != nil {
		return err
	}
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return lostIfNone(s.exec(ctx, again, s.statements.renew, h.Name[:], h.Fence, lease.Microseconds()))
}

// Finish implements store.Keys. A record that is finished by the same hold stays
// as it is.
func (s *Store) Finish(ctx context.Context, _ time.Time, h store.Hold, f store.Finish) error {
	if err := f.Check(); err != nil {
		return err
	}
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	a := &f.Answer
	n, err := s.exec(ctx, again, s.statements.finish, h.Name[:], h.Fence, f.TTL.Microseconds(),
		a.Status, orEmpty(a.Header), orEmpty(a.Body), a.Omitted, f.Fingerprint)
	if err != nil || n > 0 {
		return err
	}
	err = s.retry(ctx, again, func() error {
		return s.pool.QueryRow(ctx, s.statements.finished, h.Name[:], h.Fence).Scan(&n)
	})
	return lostIfNone(n, explain(err))
}

// Release implements store.Keys.
func (s *Store) Release(ctx context.Context, _ time.Time, h store.Hold, finished bool) error {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	// A second try would find nothing of what the first one did.
	return lostIfNone(s.exec(ctx, once, s.statements.release, h.Name[:], h.Fence, finished))
}

// Sweep implements store.Keys.
func (s *Store) Sweep(ctx context.Context, _ time.Time, limit int) (int, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	return s.exec(ctx, again, s.statements.sweep, limit)
}
