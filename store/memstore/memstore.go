package memstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/comporta/comporta/store"
)

// The bounds of a store whose Config sets none.
const (
	DefaultMaxRecords = 100_000
	DefaultMaxBytes   = 256 << 20
)

// Config bounds a store. The zero value sets the defaults.
type Config struct {
	MaxRecords int   // 0 means DefaultMaxRecords
	MaxBytes   int64 // of labels, headers and bodies; 0 means DefaultMaxBytes
}

// Store is a store.Keys in memory. Methods may be called from many goroutines.
type Store struct {
	secret     []byte
	clock      store.Steady
	maxRecords int
	maxBytes   int64

	mu      sync.Mutex // guards what follows
	records map[store.Name]*record
	bytes   int64
	closed  bool
}

var _ store.Keys = (*Store)(nil)

// record is a record with the end of its lease instead of what is left of it.
type record struct {
	store.Record

	leaseEnds time.Time
}

// New returns an empty store.
func New(c Config) *Store {
	s := &Store{
		secret: store.NewSecret(), clock: store.SteadyFrom(time.Now()),
		maxRecords: c.MaxRecords, maxBytes: c.MaxBytes,
		records: make(map[store.Name]*record),
	}
	if s.maxRecords <= 0 {
		s.maxRecords = DefaultMaxRecords
	}
	if s.maxBytes <= 0 {
		s.maxBytes = DefaultMaxBytes
	}
	return s
}

// enter takes the lock for a call; the caller leaves by s.mu.Unlock if it got it.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: %w", context.Cause(ctx))
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return fmt.Errorf("memstore: %w", store.ErrClosed)
	}
	return nil
}

// Secret implements store.Keys.
func (s *Store) Secret(ctx context.Context) ([]byte, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return append([]byte(nil), s.secret...), nil
}

// Health implements store.Keys.
func (s *Store) Health(ctx context.Context) (store.Health, error) {
	h := store.Health{Engine: "memory", Loss: "everything is lost when the process ends"}
	if err := s.enter(ctx); err != nil {
		return h, err
	}
	defer s.mu.Unlock()
	h.Records, h.Bytes = int64(len(s.records)), s.bytes
	return h, nil
}

// Close implements store.Keys.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.records, s.bytes = nil, 0
	return nil
}

// live returns the record of a name, if its time is not over.
func (s *Store) live(now time.Time, n store.Name) *record {
	r := s.records[n]
	if r != nil && !now.Before(r.Expires) {
		s.drop(r)
		return nil
	}
	return r
}

func (s *Store) drop(r *record) {
	delete(s.records, r.Name)
	s.bytes -= size(r)
}

// size is what a record counts against MaxBytes.
func size(r *record) int64 {
	const fixed = 256
	l := &r.Label
	return fixed + int64(len(l.Client)+len(l.Method)+len(l.Route)+len(l.Key)+
		len(r.Fingerprint)+len(r.Answer.Header)+len(r.Answer.Body))
}

// sweep removes at most limit records whose time is over.
func (s *Store) sweep(now time.Time, limit int) (n int) {
	for _, r := range s.records {
		if n >= limit {
			break
		}
		if !now.Before(r.Expires) {
			s.drop(r)
			n++
		}
	}
	return n
}

// Sweep implements store.Keys.
func (s *Store) Sweep(ctx context.Context, now time.Time, limit int) (int, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	return s.sweep(s.clock.At(now), limit), nil
}
