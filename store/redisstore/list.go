package redisstore

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/comporta/comporta/store"
)

const (
	// maxLooked bounds the records that one page looks at, chosen or not.
	maxLooked = 4 * store.MaxPage
	// maxBrief is how many of them one script reads.
	maxBrief = 200
)

// members returns the names of a bucket that come after a cursor, in order.
func (s *Store) members(ctx context.Context, bucket int, cursor string) ([]store.Name, error) {
	all, err := s.client.ZRange(ctx, s.index(bucket), 0, -1).Result()
	if err != nil {
		return nil, explain(err)
	}
	names := make([]store.Name, 0, len(all))
	for _, m := range all {
		var n store.Name
		if copy(n[:], m) == len(n) && hex.EncodeToString(n[:]) > cursor {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, func(a, b store.Name) int { return slices.Compare(a[:], b[:]) })
	return names, nil
}

// brief reads records of one bucket. Those that are gone are not told.
func (s *Store) brief(ctx context.Context, names []store.Name, tell func(now int64, r *store.Record)) error {
	keys := make([]string, len(names))
	for i := range names {
		keys[i] = s.keys(names[i])[0]
	}
	said, err := s.run(ctx, briefScript, keys)
	if err != nil {
		return err
	}
	reply, ok := said.([]any)
	if !ok || len(reply) != len(names)+1 {
		return fmt.Errorf("%w: %T for %d records", errReply, said, len(names))
	}
	now, err := micros(reply[0])
	if err != nil {
		return err
	}
	for i, name := range names {
		values, ok := reply[i+1].([]any)
		if !ok {
			return fmt.Errorf("%w: %T", errReply, reply[i+1])
		}
		r, there, err := readHead(name, now, values)
		if err != nil {
			return err
		}
		if there {
			tell(now, &r)
		}
	}
	return nil
}

// List implements store.Keys. A cursor is the name that was looked at last, or the
// beginning of a bucket: names go on in their order, which changes for nobody.
func (s *Store) List(ctx context.Context, _ time.Time, q store.Query) (store.Page, error) {
	bucket, err := bucketOf(q.Cursor)
	if err != nil {
		return store.Page{}, err
	}
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return store.Page{}, err
	}
	defer leave()
	var p store.Page
	cursor := q.Cursor
	for looked := 0; bucket < buckets; bucket++ {
		names, err := s.members(ctx, bucket, cursor)
		if err != nil {
			return store.Page{}, err
		}
		for len(names) > 0 {
			room := q.Page() - len(p.Records)
			if room == 0 || looked >= maxLooked {
				p.Next = cursor
				return p, nil
			}
			some := names[:min(len(names), room, maxBrief)]
			err := s.brief(ctx, some, func(_ int64, r *store.Record) {
				if q.Selects(r) {
					p.Records = append(p.Records, *r)
				}
			})
			if err != nil {
				return store.Page{}, err
			}
			names, looked = names[len(some):], looked+len(some)
			cursor = some[len(some)-1].String()
		}
		cursor = fmt.Sprintf("%02x", bucket+1)
	}
	return p, nil
}

// bucketOf returns the bucket in which a cursor stands.
func bucketOf(cursor string) (int, error) {
	if cursor == "" {
		return 0, nil
	}
	_, err := hex.DecodeString(cursor)
	if err != nil || len(cursor) != 2 && len(cursor) != hex.EncodedLen(len(store.Name{})) {
		return 0, fmt.Errorf("redisstore: %w: cursor %q", store.ErrInvalid, cursor)
	}
	n, err := strconv.ParseUint(cursor[:2], 16, 8)
	return int(n), err
}

// Finished implements store.Keys.
func (s *Store) Finished(ctx context.Context, now time.Time, yield func(store.Name, time.Time) bool) error {
	type ending struct {
		name store.Name
		left time.Duration
	}
	for bucket := range buckets {
		var found []ending
		err := s.inBucket(ctx, bucket, func(at int64, r *store.Record) {
			if r.State == store.Finished {
				found = append(found, ending{r.Name, time.Duration(r.Expires.UnixMicro()-at) * time.Microsecond})
			}
		})
		if err != nil {
			return err
		}
		for _, f := range found {
			if !yield(f.name, now.Add(f.left)) {
				return nil
			}
		}
	}
	return nil
}

// inBucket tells every record of a bucket.
func (s *Store) inBucket(ctx context.Context, bucket int, tell func(now int64, r *store.Record)) error {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	names, err := s.members(ctx, bucket, "")
	if err != nil {
		return err
	}
	for some := range slices.Chunk(names, maxBrief) {
		if err := s.brief(ctx, some, tell); err != nil {
			return err
		}
	}
	return nil
}
