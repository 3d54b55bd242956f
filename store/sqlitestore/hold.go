package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/comporta/comporta/store"
)

// Claim implements store.Keys.
func (s *Store) Claim(ctx context.Context, now time.Time, c store.Claim) (store.Claimed, error) {
	if err := c.Check(); err != nil {
		return store.Claimed{}, err
	}
	leave, err := s.enter()
	if err != nil {
		return store.Claimed{}, err
	}
	defer leave()
	k := newClaiming(c, s.at(now))
	if err := s.writer.do(ctx, len(c.Fingerprint), k.run); err != nil {
		return store.Claimed{}, err
	}
	return k.claimed, k.err
}

// claiming is a claim before the writer.
type claiming struct {
	claim   store.Claim
	now     int64
	claimed store.Claimed
	err     error
}

func newClaiming(c store.Claim, now int64) *claiming {
	c.Fingerprint = append([]byte{}, c.Fingerprint...) // the writer may read it after the caller has left
	return &claiming{claim: c, now: now}
}

func (k *claiming) run(t *tables) error {
	k.claimed, k.err = store.Claimed{}, nil
	ctx := context.Background()
	old, err := k.find(ctx, t)
	if err != nil {
		return err
	}
	c := &k.claim
	switch {
	case old == nil && t.full:
		k.err = errFull
		return nil
	case old == nil:
		err = k.insert(ctx, t)
	case old.record.Fence == c.Fence && old.finished == nil: // asked again
	case c.Over != 0 && old.record.Fence == c.Over && old.state(k.now) == store.Lapsed:
		l := &c.Label
		_, err = t.take.ExecContext(ctx, c.Fence, k.now+c.Lease.Microseconds(), k.now+c.TTL.Microseconds(),
			l.Client, l.Method, l.Route, l.Key, c.Fingerprint, sumOf(c.Name, c.Fingerprint), old.seq)
	default:
		k.claimed.Record = old.tell(k.now)
		return nil
	}
	k.claimed.Granted = err == nil
	return err
}

// find returns what stands under the name, and removes it if its time is over.
func (k *claiming) find(ctx context.Context, t *tables) (*row, error) {
	old, err := find(ctx, t.find, k.claim.Name)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil //nolint:nilnil // that there is none is no error
	case err != nil:
		return nil, err
	case old.live(k.now):
		return old, nil
	}
	_, err = t.forget.ExecContext(ctx, old.seq)
	return nil, err
}

func (k *claiming) insert(ctx context.Context, t *tables) error {
	c := &k.claim
	l := &c.Label
	_, err := t.insert.ExecContext(ctx, c.Name[:], c.Fence, k.now, k.now+c.Lease.Microseconds(), k.now+c.TTL.Microseconds(),
		l.Client, l.Method, l.Route, l.Key, c.Fingerprint, sumOf(c.Name, c.Fingerprint))
	return err
}

var errLost = fmt.Errorf("sqlitestore: %w", store.ErrLost)

// change has the writer change at most one row.
func (s *Store) change(ctx context.Context, size int, run func(*tables) (int, error)) error {
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	var rows int
	err = s.writer.do(ctx, size, func(t *tables) (err error) {
		rows, err = run(t)
		return err
	})
	if err == nil && rows == 0 {
		return errLost
	}
	return err
}

// Renew implements store.Keys.
func (s *Store) Renew(ctx context.Context, now time.Time, h store.Hold, lease time.Duration) error {
	if err := store.CheckLease(lease); err != nil {
		return err
	}
	at := s.at(now)
	return s.change(ctx, 0, func(t *tables) (int, error) {
		return changed(context.Background(), t.renew, at+lease.Microseconds(), h.Name[:], h.Fence, at)
	})
}

// Finish implements store.Keys. A record that is finished by the same hold stays
// as it is. An answer is taken beyond MaxBytes as long as the disk holds it: the
// operation has been carried out.
func (s *Store) Finish(ctx context.Context, now time.Time, h store.Hold, f store.Finish) error {
	if err := f.Check(); err != nil {
		return err
	}
	at := s.at(now)
	a := f.Answer
	// Copies: the writer may read them after the caller has left.
	a.Header, a.Body = append([]byte{}, a.Header...), append([]byte{}, a.Body...)
	fingerprint := bytes.Clone(f.Fingerprint)
	end := at + f.TTL.Microseconds()
	sum := sumOfFinish(h, at, end, &a)
	var fingerprintSum *int64 // nil leaves it
	if fingerprint != nil {
		fingerprintSum = new(sumOf(h.Name, fingerprint))
	}
	return s.change(ctx, len(a.Header)+len(a.Body), func(t *tables) (int, error) {
		ctx := context.Background()
		n, err := changed(ctx, t.finish, at, end, a.Status, a.Header, a.Body, a.Omitted, sum,
			fingerprint, fingerprintSum, h.Name[:], h.Fence, at)
		if n > 0 || err != nil {
			return n, err
		}
		old, err := find(ctx, t.find, h.Name)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return 0, nil
		case err == nil && old.live(at) && old.record.Fence == h.Fence: // asked again
			return 1, nil
		}
		return 0, err
	})
}

// Release implements store.Keys.
func (s *Store) Release(ctx context.Context, now time.Time, h store.Hold, finished bool) error {
	at := s.at(now)
	return s.change(ctx, 0, func(t *tables) (int, error) {
		return changed(context.Background(), t.release, h.Name[:], h.Fence, at, finished)
	})
}

// Sweep implements store.Keys.
func (s *Store) Sweep(ctx context.Context, now time.Time, limit int) (int, error) {
	leave, err := s.enter()
	if err != nil {
		return 0, err
	}
	defer leave()
	at, n := s.at(now), 0
	err = s.writer.do(ctx, 0, func(t *tables) (err error) {
		n, err = changed(context.Background(), t.expire, at, limit)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
