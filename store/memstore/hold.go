package memstore

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/comporta/comporta/store"
)

// Claim implements store.Keys.
func (s *Store) Claim(ctx context.Context, now time.Time, c store.Claim) (store.Claimed, error) {
	if err := c.Check(); err != nil {
		return store.Claimed{}, err
	}
	if err := s.enter(ctx); err != nil {
		return store.Claimed{}, err
	}
	defer s.mu.Unlock()
	now = s.clock.At(now)
	old := s.live(now, c.Name)
	switch {
	case old == nil:
	case old.Fence == c.Fence && old.State != store.Finished: // asked again
		return store.Claimed{Granted: true}, nil
	case c.Over != 0 && old.Fence == c.Over && old.at(now) == store.Lapsed:
	default:
		return store.Claimed{Record: old.tell(now)}, nil
	}
	r := &record{
		Record: store.Record{
			Name: c.Name, Label: c.Label, State: store.Running, Fence: c.Fence,
			Fingerprint: bytes.Clone(c.Fingerprint), Created: now, Expires: now.Add(c.TTL),
		},
		leaseEnds: now.Add(c.Lease),
	}
	if old != nil {
		r.Created = old.Created
		s.drop(old)
	} else if err := s.room(now, size(r)); err != nil {
		return store.Claimed{}, err
	}
	s.records[c.Name], s.bytes = r, s.bytes+size(r)
	return store.Claimed{Granted: true}, nil
}

// room makes room for another record, if need be of those whose time is over.
func (s *Store) room(now time.Time, size int64) error {
	full := func() bool { return len(s.records) >= s.maxRecords || s.bytes+size > s.maxBytes }
	if full() {
		s.sweep(now, len(s.records))
	}
	if full() {
		return fmt.Errorf("memstore: %w: %d records of %d, %d bytes of %d", store.ErrFull, len(s.records), s.maxRecords, s.bytes, s.maxBytes)
	}
	return nil
}

// held returns the record of a hold.
func (s *Store) held(now time.Time, h store.Hold) (*record, error) {
	if r := s.live(now, h.Name); r != nil && r.Fence == h.Fence {
		return r, nil
	}
	return nil, fmt.Errorf("memstore: %w", store.ErrLost)
}

// Renew implements store.Keys.
func (s *Store) Renew(ctx context.Context, now time.Time, h store.Hold, lease time.Duration) error {
	if err := store.CheckLease(lease); err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now = s.clock.At(now)
	r, err := s.held(now, h)
	if err != nil {
		return err
	}
	if r.State == store.Finished {
		return fmt.Errorf("memstore: %w: it is finished", store.ErrLost)
	}
	r.leaseEnds = now.Add(lease)
	if r.Expires.Before(r.leaseEnds) {
		r.Expires = r.leaseEnds
	}
	return nil
}

// Finish implements store.Keys. A record that is finished by the same hold stays
// as it is. The bytes of an answer may go beyond MaxBytes: the operation has been
// carried out, and a store that is full takes no new claims.
func (s *Store) Finish(ctx context.Context, now time.Time, h store.Hold, f store.Finish) error {
	if err := f.Check(); err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now = s.clock.At(now)
	r, err := s.held(now, h)
	if err != nil || r.State == store.Finished {
		return err
	}
	s.bytes -= size(r)
	r.State, r.Finished, r.Expires = store.Finished, now, now.Add(f.TTL)
	r.Answer = store.Answer{
		Status: f.Answer.Status, Header: bytes.Clone(f.Answer.Header), Body: bytes.Clone(f.Answer.Body), Omitted: f.Answer.Omitted,
	}
	r.BodySize = len(f.Answer.Body)
	if f.Fingerprint != nil {
		r.Fingerprint = bytes.Clone(f.Fingerprint)
	}
	s.bytes += size(r)
	return nil
}

// Release implements store.Keys.
func (s *Store) Release(ctx context.Context, now time.Time, h store.Hold, finished bool) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	r, err := s.held(s.clock.At(now), h)
	if err != nil {
		return err
	}
	if finished != (r.State == store.Finished) {
		return fmt.Errorf("memstore: %w: it is %v", store.ErrLost, r.State)
	}
	s.drop(r)
	return nil
}
