package pgstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/comporta/comporta/store"
)

// Store is a store.Keys in PostgreSQL. Methods may be called from many
// goroutines.
type Store struct {
	pool       *pgxpool.Pool
	schema     string
	timeout    time.Duration
	conns      int // at most
	secret     []byte
	statements statements

	// life is held for reading by every call, so that Close waits for them.
	life   sync.RWMutex
	closed bool
}

var _ store.Keys = (*Store)(nil)

// statements are those that calls use, with the schema filled in.
type statements struct {
	claim, renew, finish, finished, release, look, sweep, list, names, health string
}

// Open connects, and makes the tables or brings them up to date. Apart from that
// it takes no longer than the timeout.
func Open(ctx context.Context, c Config) (*Store, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	config, err := c.pool()
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	s := &Store{schema: c.Schema, timeout: c.Timeout, conns: c.Conns}
	s.statements = statements{
		s.sql(claimSQL), s.sql(renewSQL), s.sql(finishSQL), s.sql(finishedSQL), s.sql(releaseSQL),
		s.sql(lookSQL), s.sql(sweepSQL), s.sql(listSQL), s.sql(namesSQL), s.sql(healthSQL),
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, explain(err)
	}
	if err = s.migrate(ctx); err == nil {
		s.secret, err = s.readSecret(ctx)
	}
	if err != nil {
		s.pool.Close()
		return nil, explain(err)
	}
	return s, nil
}

// sql fills the schema in. Its name has been checked to need no quotes.
func (s *Store) sql(text string) string {
	return strings.ReplaceAll(text, "{schema}", `"`+s.schema+`"`)
}

// enter begins a call, which has the timeout; leave ends it.
func (s *Store) enter(ctx context.Context) (within context.Context, leave func(), err error) {
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return nil, nil, fmt.Errorf("pgstore: %w", store.ErrClosed)
	}
	within, cancel := context.WithTimeout(ctx, s.timeout)
	return within, func() { cancel(); s.life.RUnlock() }, nil
}

// Whether a statement may be sent again when its connection broke under it, and
// it was done or not.
const (
	once  = false
	again = true
)

// retry calls do, and once more for each connection that turns out to be dead: a
// server that has started anew leaves as many as the pool holds.
func (s *Store) retry(ctx context.Context, mayRepeat bool, do func() error) error {
	for n := 0; ; n++ {
		err := do()
		if !dropped(err) || n > s.conns || ctx.Err() != nil || !mayRepeat && !pgconn.SafeToRetry(err) {
			return err
		}
	}
}

// exec runs a statement and returns how many rows it changed.
func (s *Store) exec(ctx context.Context, mayRepeat bool, sql string, args ...any) (n int, err error) {
	err = s.retry(ctx, mayRepeat, func() error {
		tag, err := s.pool.Exec(ctx, sql, args...)
		n = int(tag.RowsAffected())
		return err
	})
	return n, explain(err)
}

// Secret implements store.Keys.
func (s *Store) Secret(context.Context) ([]byte, error) {
	s.life.RLock()
	defer s.life.RUnlock()
	if s.closed {
		return nil, fmt.Errorf("pgstore: %w", store.ErrClosed)
	}
	return slices.Clone(s.secret), nil
}

// Close implements store.Keys.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if !s.closed {
		s.closed = true
		s.pool.Close()
	}
	return nil
}
