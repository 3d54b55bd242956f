package pgstore

import (
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/comporta/comporta/store"
)

// columns is what [scan] reads, in its order. What is left of the lease is
// measured here, by the one clock that counts.
const columns = `seq, name, fence, created, (extract(epoch FROM lease_until - statement_timestamp()) * 1000000)::bigint,
	expires, finished, client, method, route, key, fingerprint, status, omitted, length(body)`

// scan reads the columns, and header and body if with says so.
func scan(from pgx.Row, with bool) (seq int64, r store.Record, err error) {
	var name []byte
	var left int64
	var finished *time.Time
	l, a := &r.Label, &r.Answer
	into := []any{
		&seq, &name, &r.Fence, &r.Created, &left, &r.Expires, &finished,
		&l.Client, &l.Method, &l.Route, &l.Key, &r.Fingerprint, &a.Status, &a.Omitted, &r.BodySize,
	}
	if with {
		into = append(into, &a.Header, &a.Body)
	}
	if err := from.Scan(into...); err != nil {
		return 0, store.Record{}, err
	}
	copy(r.Name[:], name)
	switch {
	case finished != nil:
		r.State, r.Finished = store.Finished, *finished
	case left > 0:
		r.State, r.LeaseLeft = store.Running, time.Duration(left)*time.Microsecond
	default:
		r.State = store.Lapsed
	}
	return seq, r, nil
}

// text is what PostgreSQL takes as text of what a client sent.
func text(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}
