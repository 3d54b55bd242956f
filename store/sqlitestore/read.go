package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/comporta/comporta/store"
)

// Look implements store.Keys.
func (s *Store) Look(ctx context.Context, now time.Time, n store.Name) (store.Record, error) {
	leave, err := s.enter()
	if err != nil {
		return store.Record{}, err
	}
	defer leave()
	at := s.at(now)
	r, err := find(ctx, s.look, n)
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil && !r.live(at):
		return store.Record{}, fmt.Errorf("sqlitestore: %w", store.ErrNotFound)
	case err != nil:
		return store.Record{}, explain(s.place.path, err)
	}
	return r.tell(at), nil
}

// List implements store.Keys. A cursor is the number of the row that ended the
// page before: rows are numbered in the order of their claims.
func (s *Store) List(ctx context.Context, now time.Time, q store.Query) (store.Page, error) {
	before := int64(math.MaxInt64)
	if q.Cursor != "" {
		var err error
		if before, err = strconv.ParseInt(q.Cursor, 10, 64); err != nil {
			return store.Page{}, fmt.Errorf("sqlitestore: %w: cursor %q", store.ErrInvalid, q.Cursor)
		}
	}
	leave, err := s.enter()
	if err != nil {
		return store.Page{}, err
	}
	defer leave()
	at, page := s.at(now), q.Page()
	state := -1
	if q.State != nil {
		state = int(*q.State)
	}
	rows, err := s.list.QueryContext(ctx, before, at, q.Client, q.Route, q.Key, state, page+1)
	if err != nil {
		return store.Page{}, explain(s.place.path, err)
	}
	defer func() { _ = rows.Close() }() // read to their end, or given up
	var p store.Page
	for last := int64(0); rows.Next(); {
		r, err := scan(rows, false)
		if err != nil {
			return store.Page{}, explain(s.place.path, err)
		}
		if len(p.Records) == page {
			p.Next = strconv.FormatInt(last, 10)
			break
		}
		p.Records, last = append(p.Records, r.tell(at)), r.seq
	}
	if err := rows.Err(); err != nil {
		return store.Page{}, explain(s.place.path, err)
	}
	return p, nil
}

// chunk is how many names Finished reads at a time: no read lasts long, which
// would keep the log from being reset.
const chunk = 1000

// Finished implements store.Keys.
func (s *Store) Finished(ctx context.Context, now time.Time, yield func(store.Name, time.Time) bool) error {
	at := s.at(now)
	before := int64(math.MaxInt64)
	for {
		names, ends, last, err := s.finishedBefore(ctx, before, at)
		if err != nil {
			return err
		}
		for i := range names {
			if !yield(names[i], now.Add(time.Duration(ends[i]-at)*time.Microsecond)) {
				return nil
			}
		}
		if len(names) < chunk {
			return nil
		}
		before = last
	}
}

func (s *Store) finishedBefore(ctx context.Context, before, at int64) (names []store.Name, ends []int64, last int64, err error) {
	leave, err := s.enter()
	if err != nil {
		return nil, nil, 0, err
	}
	defer leave()
	rows, err := s.finished.QueryContext(ctx, before, at, chunk)
	if err != nil {
		return nil, nil, 0, explain(s.place.path, err)
	}
	defer func() { _ = rows.Close() }() // read to their end, or given up
	for rows.Next() {
		var name []byte
		var end int64
		if err := rows.Scan(&last, &name, &end); err != nil {
			return nil, nil, 0, explain(s.place.path, err)
		}
		names, ends = append(names, store.Name(name)), append(ends, end)
	}
	return names, ends, last, explain(s.place.path, rows.Err())
}
