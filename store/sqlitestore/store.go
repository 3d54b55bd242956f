package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"modernc.org/sqlite"

	"github.com/comporta/comporta/store"
)

// Store is a store.Keys in one file. Methods may be called from many goroutines.
type Store struct {
	place  *place
	clock  store.Steady
	secret []byte
	made   bool // Open found no state

	writing *sql.DB // one connection, which is the writer's
	reading *sql.DB
	writer  *writer

	look, list, finished *sql.Stmt

	// life is held for reading by every call, so that Close waits for them.
	life   sync.RWMutex
	closed bool
}

var (
	_ store.Keys = (*Store)(nil)
	_ store.Sole = (*Store)(nil)
)

// Open opens the state, or makes it.
func Open(ctx context.Context, c Config) (*Store, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	p, err := takePlace(&c, filesystem)
	if err != nil {
		return nil, err
	}
	s := &Store{place: p, clock: store.SteadyFrom(time.Now())}
	if err := s.open(ctx, &c); err != nil {
		return nil, errors.Join(err, s.shut())
	}
	go s.writer.run() // Close waits for it
	return s, nil
}

func (s *Store) open(ctx context.Context, c *Config) error {
	path := s.place.path
	if err := s.openWriting(ctx, c); err != nil {
		return explain(path, err)
	}
	w := s.writer
	var err error
	if s.made, err = prepare(ctx, w.conn, path); err != nil {
		return err
	}
	if s.secret, err = secretOf(ctx, w.conn, path); err != nil {
		return err
	}
	if err = w.tables.prepare(ctx, w.conn); err != nil {
		return explain(path, err)
	}
	// An eighth more is for the answers of those that run.
	_, err = w.conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA max_page_count = %d`, (c.MaxBytes+c.MaxBytes/8)/w.tables.pageSize))
	if err != nil {
		return explain(path, err)
	}
	if err := s.openReading(ctx, c); err != nil {
		return explain(path, err)
	}
	return explain(path, s.place.keep(path+"-wal"))
}

// source names the file to the driver, with the mode (rw or ro) and settings of
// every connection.
func source(path string, c *Config, mode string, settings ...string) string {
	q := url.Values{
		"mode":       {mode},
		"_pragma":    slices.Concat([]string{fmt.Sprintf("busy_timeout(%d)", c.Busy.Milliseconds())}, settings),
		"_defensive": {"1"},
		"_dqs":       {"0"},
		"_error_rc":  {"1"}, // no message of an earlier error beside this one's
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

func connect(path string, c *Config, mode string, settings ...string) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(source(path, c, mode, settings...))
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

func (s *Store) openWriting(ctx context.Context, c *Config) error {
	var err error
	s.writing, err = connect(s.place.path, c, "rw",
		fmt.Sprintf("wal_autocheckpoint(%d)", walPages),
		fmt.Sprintf("journal_size_limit(%d)", walPages*4096), // a log that grew beyond is cut back
		"cache_size(-16384)",                                 // KiB: the pages of the names' index, mostly
	)
	if err != nil {
		return err
	}
	s.writing.SetMaxOpenConns(1)
	conn, err := s.writing.Conn(ctx)
	if err == nil {
		s.writer = newWriter(s.place, conn, c.MaxBytes)
	}
	return err
}

func (s *Store) openReading(ctx context.Context, c *Config) error {
	var err error
	if s.reading, err = connect(s.place.path, c, "ro"); err != nil {
		return err
	}
	s.reading.SetMaxOpenConns(c.Readers)
	s.reading.SetMaxIdleConns(c.Readers)
	for _, q := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&s.look, `SELECT ` + columns + answer + ` FROM idempotency WHERE name = ?`},
		// ?2 is the instant; states are numbered as in package store.
		{&s.list, `SELECT ` + columns + ` FROM idempotency
			WHERE seq < ?1 AND expires > ?2 AND (?3 = '' OR client = ?3) AND (?4 = '' OR route = ?4) AND (?5 = '' OR key = ?5)
			AND (?6 < 0 OR ?6 = CASE WHEN finished IS NOT NULL THEN 2 WHEN lease_until > ?2 THEN 0 ELSE 1 END)
			ORDER BY seq DESC LIMIT ?7`},
		{&s.finished, `SELECT seq, name, expires FROM idempotency
			WHERE seq < ? AND expires > ? AND finished IS NOT NULL ORDER BY seq DESC LIMIT ?`},
	} {
		if *q.stmt, err = s.reading.PrepareContext(ctx, q.text); err != nil { //nolint:sqlclosecheck // shut does
			return err
		}
	}
	return nil
}

// File returns where the state lies, as an absolute path without symbolic links, and
// whether Open made it: a state that should have been there and was not knows no
// key.
func (s *Store) File() (path string, made bool) { return s.place.path, s.made }

// at is an instant as the tables have it.
func (s *Store) at(now time.Time) int64 { return s.clock.At(now).UnixMicro() }

// enter begins a call; leave ends it.
func (s *Store) enter() (leave func(), err error) {
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return nil, fmt.Errorf("sqlitestore: %w", store.ErrClosed)
	}
	return s.life.RUnlock, nil
}

// Sole implements store.Sole: the lock keeps everybody else out.
func (*Store) Sole() {}

// Secret implements store.Keys.
func (s *Store) Secret(context.Context) ([]byte, error) {
	leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	return slices.Clone(s.secret), nil
}

// Close implements store.Keys. What was accepted is on the disk already; the log
// is moved into the database, so that the file alone is the state.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.writer.stop()
	return s.shut()
}

// shut closes what is open, the lock last.
func (s *Store) shut() error {
	var errs []error
	for _, stmt := range []*sql.Stmt{s.look, s.list, s.finished} {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	if s.reading != nil {
		errs = append(errs, s.reading.Close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.tables.close(), s.writer.conn.Close())
	}
	if s.writing != nil {
		errs = append(errs, s.writing.Close())
	}
	return errors.Join(explain(s.place.path, errors.Join(errs...)), s.place.leave())
}
