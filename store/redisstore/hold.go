package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta/store"
)

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
	said, err := s.run(ctx, claimScript, s.keys(c.Name), c.Fence, c.Over, c.Lease.Microseconds(), c.TTL.Microseconds(),
		c.Name[:], l.Client, l.Method, l.Route, l.Key, c.Fingerprint)
	if err != nil {
		return store.Claimed{}, err
	}
	reply, ok := said.([]any)
	if !ok || len(reply) == 0 {
		return store.Claimed{}, fmt.Errorf("%w: %T", errReply, said)
	}
	if reply[0] == int64(1) {
		return store.Claimed{Granted: true}, nil
	}
	r, there, err := readAll(c.Name, reply[1:])
	if err == nil && !there {
		err = fmt.Errorf("%w: what stands in the way is not there", errReply)
	}
	return store.Claimed{Record: r}, err
}

// Look implements store.Keys.
func (s *Store) Look(ctx context.Context, _ time.Time, n store.Name) (store.Record, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return store.Record{}, err
	}
	defer leave()
	said, err := s.run(ctx, lookScript, s.keys(n)[:1])
	if err != nil {
		return store.Record{}, err
	}
	reply, ok := said.([]any)
	if !ok {
		return store.Record{}, fmt.Errorf("%w: %T", errReply, said)
	}
	r, there, err := readAll(n, reply)
	if err == nil && !there {
		err = fmt.Errorf("redisstore: %w", store.ErrNotFound)
	}
	return r, err
}

// change runs a script that says whether it found what it was to change.
func (s *Store) change(ctx context.Context, script *redis.Script, n store.Name, args ...any) error {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	said, err := s.run(ctx, script, s.keys(n), args...)
	switch {
	case err != nil:
		return err
	case said == int64(1):
		return nil
	case said == int64(0):
		return fmt.Errorf("redisstore: %w", store.ErrLost)
	}
	return fmt.Errorf("%w: %v", errReply, said)
}

// Renew implements store.Keys.
func (s *Store) Renew(ctx context.Context, _ time.Time, h store.Hold, lease time.Duration) error {
	if err := store.CheckLease(lease); err != nil {
		return err
	}
	return s.change(ctx, renewScript, h.Name, h.Fence, lease.Microseconds(), h.Name[:])
}

// Finish implements store.Keys. A record that is finished by the same hold stays
// as it is. An answer is taken beyond Redis's maxmemory: the operation has been
// carried out.
func (s *Store) Finish(ctx context.Context, _ time.Time, h store.Hold, f store.Finish) error {
	if err := f.Check(); err != nil {
		return err
	}
	a := &f.Answer
	args := []any{h.Fence, f.TTL.Microseconds(), h.Name[:], a.Status, a.Header, a.Body, a.Omitted}
	if f.Fingerprint != nil {
		args = append(args, f.Fingerprint)
	}
	return s.change(ctx, finishScript, h.Name, args...)
}

// Release implements store.Keys.
func (s *Store) Release(ctx context.Context, _ time.Time, h store.Hold, finished bool) error {
	return s.change(ctx, releaseScript, h.Name, h.Fence, finished, h.Name[:])
}
