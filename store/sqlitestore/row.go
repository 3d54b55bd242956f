package sqlitestore

import (
	"context"
	"database/sql"
	"time"

	"github.com/comporta/comporta/store"
)

// row is a record as the table has it. Instants are microseconds since 1970.
type row struct {
	seq        int64
	record     store.Record
	leaseUntil int64
	expires    int64
	finished   *int64
	sums       sums // if it was read with its answer
}

// scan reads columns, and those of answer if with says so.
func scan(from interface{ Scan(into ...any) error }, with bool) (*row, error) {
	var r row
	var name []byte
	var created int64
	l, a := &r.record.Label, &r.record.Answer
	into := []any{
		&r.seq, &name, &r.record.Fence, &created, &r.leaseUntil, &r.expires, &r.finished,
		&l.Client, &l.Method, &l.Route, &l.Key, &r.record.Fingerprint, &a.Status, &a.Omitted, &r.record.BodySize,
	}
	if with {
		into = append(into, &a.Header, &a.Body, &r.sums.fingerprint, &r.sums.finish)
	}
	if err := from.Scan(into...); err != nil {
		return nil, err
	}
	copy(r.record.Name[:], name)
	r.record.Created = time.UnixMicro(created)
	return &r, nil
}

// find reads the one record of a name, with its answer. One that is not what was
// written is an error, and not told.
func find(ctx context.Context, by *sql.Stmt, n store.Name) (*row, error) {
	r, err := scan(by.QueryRowContext(ctx, n[:]), true)
	if err != nil {
		return nil, err
	}
	if r.record.Name != n { // the index is damaged
		return nil, &altered{n, r.record.Label.Route}
	}
	if err := r.sound(); err != nil {
		return nil, err
	}
	return r, nil
}

// live reports whether the record's time is not over.
func (r *row) live(now int64) bool { return now < r.expires }

func (r *row) state(now int64) store.State {
	switch {
	case r.finished != nil:
		return store.Finished
	case now < r.leaseUntil:
		return store.Running
	}
	return store.Lapsed
}

// tell returns the record as of now.
func (r *row) tell(now int64) store.Record {
	told := r.record
	told.State = r.state(now)
	told.Expires = time.UnixMicro(r.expires)
	switch told.State {
	case store.Running:
		told.LeaseLeft = time.Duration(r.leaseUntil-now) * time.Microsecond
	case store.Finished:
		told.Finished = time.UnixMicro(*r.finished)
	}
	return told
}
