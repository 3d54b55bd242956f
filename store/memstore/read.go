package memstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/comporta/comporta/store"
)

// at is the state as of now.
func (r *record) at(now time.Time) store.State {
	if r.State == store.Running && !now.Before(r.leaseEnds) {
		return store.Lapsed
	}
	return r.State
}

// tell returns the record as its callers see it.
func (r *record) tell(now time.Time) store.Record {
	told := r.brief(now)
	told.Answer.Header, told.Answer.Body = bytes.Clone(r.Answer.Header), bytes.Clone(r.Answer.Body)
	return told
}

// brief is tell without the parts of the answer.
func (r *record) brief(now time.Time) store.Record {
	told := r.Record
	told.Fingerprint = bytes.Clone(r.Fingerprint)
	told.Answer.Header, told.Answer.Body = nil, nil
	if told.State = r.at(now); told.State == store.Running {
		told.LeaseLeft = r.leaseEnds.Sub(now)
	}
	return told
}

// Look implements store.Keys.
func (s *Store) Look(ctx context.Context, now time.Time, n store.Name) (store.Record, error) {
	if err := s.enter(ctx); err != nil {
		return store.Record{}, err
	}
	defer s.mu.Unlock()
	now = s.clock.At(now)
	if r := s.live(now, n); r != nil {
		return r.tell(now), nil
	}
	return store.Record{}, fmt.Errorf("memstore: %w", store.ErrNotFound)
}

// newestFirst orders records for listings.
func newestFirst(a, b store.Record) int {
	return cmp.Or(b.Created.Compare(a.Created), bytes.Compare(a.Name[:], b.Name[:]))
}

// List implements store.Keys. A cursor is the instant and name of the record that
// ended the page before.
func (s *Store) List(ctx context.Context, now time.Time, q store.Query) (store.Page, error) {
	var after store.Record
	if q.Cursor != "" {
		var nanos int64
		var name string
		if _, err := fmt.Sscanf(q.Cursor, "%d-%s", &nanos, &name); err != nil {
			return store.Page{}, fmt.Errorf("memstore: %w: cursor %q", store.ErrInvalid, q.Cursor)
		}
		n, err := store.ParseName(name)
		if err != nil {
			return store.Page{}, fmt.Errorf("memstore: %w: cursor %q", store.ErrInvalid, q.Cursor)
		}
		after.Created, after.Name = time.Unix(0, nanos), n
	}
	if err := s.enter(ctx); err != nil {
		return store.Page{}, err
	}
	defer s.mu.Unlock()
	now = s.clock.At(now)
	var all []store.Record
	for _, r := range s.records {
		if told := r.brief(now); now.Before(r.Expires) && q.Selects(&told) && (q.Cursor == "" || newestFirst(after, told) < 0) {
			all = append(all, told)
		}
	}
	slices.SortFunc(all, newestFirst)
	p := store.Page{Records: all}
	if size := q.Page(); len(all) > size {
		last := &all[size-1]
		p = store.Page{Records: all[:size], Next: fmt.Sprintf("%d-%s", last.Created.UnixNano(), last.Name)}
	}
	return p, nil
}

// Finished implements store.Keys.
func (s *Store) Finished(ctx context.Context, now time.Time, yield func(store.Name, time.Time) bool) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	steady := s.clock.At(now)
	var all []store.Record
	for _, r := range s.records {
		if r.State == store.Finished && steady.Before(r.Expires) {
			all = append(all, r.brief(steady))
		}
	}
	s.mu.Unlock()
	slices.SortFunc(all, newestFirst)
	for i := range all {
		if !yield(all[i].Name, now.Add(all[i].Expires.Sub(steady))) {
			break
		}
	}
	return nil
}
