package pgstore

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/comporta/comporta/store"
)

const (
	// States are numbered as in package store.
	listSQL = `SELECT ` + columns + ` FROM {schema}.idempotency
		WHERE seq < $1::bigint AND expires > statement_timestamp()
			AND ($2::text = '' OR client = $2::text) AND ($3::text = '' OR route = $3::text) AND ($4::text = '' OR key = $4::text)
			AND ($5::integer < 0 OR $5::integer = CASE WHEN finished IS NOT NULL THEN 2 WHEN lease_until > statement_timestamp() THEN 0 ELSE 1 END)
		ORDER BY seq DESC LIMIT $6::integer`
	namesSQL = `SELECT seq, name, (extract(epoch FROM expires - statement_timestamp()) * 1000000)::bigint FROM {schema}.idempotency
		WHERE seq < $1::bigint AND expires > statement_timestamp() AND finished IS NOT NULL ORDER BY seq DESC LIMIT $2::integer`
)

// List implements store.Keys. A cursor is the number of the row that ended the
// page before: rows are numbered in the order of their claims.
func (s *Store) List(ctx context.Context, _ time.Time, q store.Query) (store.Page, error) {
	before := int64(math.MaxInt64)
	if q.Cursor != "" {
		var err error
		if before, err = strconv.ParseInt(q.Cursor, 10, 64); err != nil {
			return store.Page{}, fmt.Errorf("pgstore: %w: cursor %q", store.ErrInvalid, q.Cursor)
		}
	}
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return store.Page{}, err
	}
	defer leave()
	state := -1
	if q.State != nil {
		state = int(*q.State)
	}
	var p store.Page
	err = s.retry(ctx, again, func() error {
		rows, err := s.pool.Query(ctx, s.statements.list, before, text(q.Client), text(q.Route), text(q.Key), state, q.Page()+1)
		if err != nil {
			return err
		}
		p, err = page(rows, q.Page())
		return err
	})
	return p, explain(err)
}

// page reads one page, and whether there is another.
func page(rows pgx.Rows, size int) (p store.Page, err error) {
	defer rows.Close()
	for last := int64(0); rows.Next(); {
		seq, r, err := scan(rows, false)
		if err != nil {
			return store.Page{}, err
		}
		if len(p.Records) == size {
			p.Next = strconv.FormatInt(last, 10)
			break
		}
		p.Records, last = append(p.Records, r), seq
	}
	rows.Close()
	return p, rows.Err()
}

// chunk is how many names Finished reads at a time.
const chunk = 1000

// Finished implements store.Keys.
func (s *Store) Finished(ctx context.Context, now time.Time, yield func(store.Name, time.Time) bool) error {
	before := int64(math.MaxInt64)
	for {
		names, lives, last, err := s.finishedBefore(ctx, before)
		if err != nil {
			return err
		}
		for i := range names {
			if !yield(names[i], now.Add(lives[i])) {
				return nil
			}
		}
		if len(names) < chunk {
			return nil
		}
		before = last
	}
}

func (s *Store) finishedBefore(ctx context.Context, before int64) (names []store.Name, lives []time.Duration, last int64, err error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, nil, 0, err
	}
	defer leave()
	err = s.retry(ctx, again, func() error {
		names, lives = names[:0], lives[:0]
		rows, err := s.pool.Query(ctx, s.statements.names, before, chunk)
		if err != nil {
			return err
		}
		var name []byte
		var left int64
		_, err = pgx.ForEachRow(rows, []any{&last, &name, &left}, func() error {
			names, lives = append(names, store.Name(name)), append(lives, time.Duration(left)*time.Microsecond)
			return nil
		})
		return err
	})
	return names, lives, last, explain(err)
}
