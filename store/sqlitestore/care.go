package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/comporta/comporta/store"
)

// maxFaults bounds what a check reports of a damaged file.
const maxFaults = 20

// Check reads a whole state, the answers too, and says what is damaged, as an
// [ErrCorrupt] with the first faults. A process
// may be using it, this one too: only the disk is in its way. It takes seconds a
// gigabyte. A file that can have another name is refused, as by Open: what is not in
// the database yet is in the log beside that name, and would not be seen.
func Check(ctx context.Context, path string) (err error) {
	db, path, err := openToRead(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	faults, err := faultsOfPages(ctx, db)
	if err == nil && len(faults) == 0 {
		faults, err = faultsOfRecords(ctx, db, path)
	}
	if err != nil {
		return explain(path, err)
	}
	if len(faults) > 0 {
		return damaged(path, errors.New(strings.Join(faults, "; ")))
	}
	return nil
}

// faultsOfPages asks SQLite, which knows whether its trees and indexes fit
// together, and not what a record should hold.
func faultsOfPages(ctx context.Context, db *sql.DB) (faults []string, err error) {
	rows, err := db.QueryContext(ctx, fmt.Sprintf(`PRAGMA integrity_check(%d)`, maxFaults))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // read to their end, or given up
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, err
		}
		if line != "ok" {
			faults = append(faults, line)
		}
	}
	return faults, rows.Err()
}

// faultsOfRecords reads every record with its answer, in parts, as Finished does.
// The tables are as they are found, perhaps of a version without sums.
func faultsOfRecords(ctx context.Context, db *sql.DB, path string) (faults []string, err error) {
	version, err := versionOf(ctx, db, path)
	if err != nil || version < sumsVersion {
		return nil, err
	}
	for after, n := int64(math.MinInt64), chunk; n == chunk && len(faults) < maxFaults; {
		var more []string
		if n, after, more, err = faultsAfter(ctx, db, after); err != nil {
			return nil, err
		}
		faults = append(faults, more...)
	}
	return faults[:min(len(faults), maxFaults)], nil
}

// faultsAfter checks up to chunk records and returns how many, and the last one.
func faultsAfter(ctx context.Context, db *sql.DB, after int64) (n int, last int64, faults []string, err error) {
	rows, err := db.QueryContext(ctx, `SELECT `+columns+answer+` FROM idempotency WHERE seq > ? ORDER BY seq LIMIT ?`, after, chunk)
	if err != nil {
		return 0, 0, nil, err
	}
	defer func() { _ = rows.Close() }() // read to their end, or given up
	for last = after; rows.Next(); n++ {
		r, err := scan(rows, true)
		if err != nil {
			return 0, 0, nil, err
		}
		if err := r.sound(); err != nil {
			faults = append(faults, err.Error())
		}
		last = r.seq
	}
	return n, last, faults, rows.Err()
}

// openToRead opens a state beside whoever uses it: SQLite's own locks suffice for
// reading.
func openToRead(ctx context.Context, path string) (db *sql.DB, found string, err error) {
	if path, err = resolve(path); err != nil {
		return nil, "", err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, "", fmt.Errorf("sqlitestore: %w", err)
	}
	if err := oneName(path); err != nil {
		return nil, "", err
	}
	if db, err = connect(path, &Config{Busy: DefaultBusy}, "ro"); err != nil {
		return nil, "", explain(path, err)
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, "", errors.Join(explain(path, err), db.Close())
	}
	version, err := versionOf(ctx, conn, path)
	if err == nil && version == 0 {
		err = fmt.Errorf("%w: %s is empty: name the file of a state", ErrForeign, path)
	}
	if err = errors.Join(err, conn.Close()); err != nil {
		return nil, "", errors.Join(err, db.Close())
	}
	return db, path, nil
}

// Backup writes the state of one instant to a new file. A process may be using it,
// this one too, and is not hindered. The copy is complete, on the disk, and readable
// by its owner only, before it has the name; a file that has the name already is an
// error, and so is a state that can have another name (see Check).
func Backup(ctx context.Context, path, to string) (err error) {
	db, path, err := openToRead(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("sqlitestore: backup: %s exists: name a new file", to)
	}
	part, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+".part-*") // mode 0600
	if err != nil {
		return fmt.Errorf("sqlitestore: backup: %w", err)
	}
	name := part.Name()
	// It reads one snapshot, and writes each page once.
	_, err = db.ExecContext(ctx, `VACUUM INTO ?`, name)
	err = explain(path, err)
	if err == nil {
		err = part.Sync() // SQLite does not, for a file that it writes at once
	}
	if err = errors.Join(err, part.Close()); err == nil {
		err = os.Link(name, to) // a rename would replace what has come meanwhile
	}
	err = errors.Join(err, os.Remove(name))
	if err == nil {
		err = syncDir(filepath.Dir(to))
	}
	if err != nil {
		return fmt.Errorf("sqlitestore: backup to %s: %w", to, err)
	}
	return nil
}

// syncDir makes a new name in the directory last.
func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Health implements store.Keys. After a commit that was in vain it tries another
// one.
func (s *Store) Health(ctx context.Context) (store.Health, error) {
	h := store.Health{Engine: "sqlite", Records: -1, Bytes: -1}
	if s.place.volatile != "" {
		h.Loss = fmt.Sprintf("%s lies in memory (%s): a restart of the machine loses everything", s.place.path, s.place.volatile)
	}
	leave, err := s.enter()
	if err != nil {
		return h, err
	}
	defer leave()
	if err := s.writer.broken.Load(); err != nil {
		return h, *err
	}
	if err := s.writer.explain(s.place.kept()); err != nil {
		return h, err
	}
	conn, err := s.reading.Conn(ctx)
	if err != nil {
		return h, explain(s.place.path, err)
	}
	defer func() { _ = conn.Close() }() // it goes back to the pool
	if h.Bytes, err = size(ctx, conn); err != nil {
		return h, explain(s.place.path, err)
	}
	if h.Bytes >= s.writer.bytes {
		return h, errFull
	}
	if s.writer.failed.Load() {
		return h, s.writer.do(ctx, 0, func(t *tables) error {
			_, err := t.probe.ExecContext(context.Background())
			return err
		})
	}
	return h, nil
}

// size is how many bytes of the file hold something.
func size(ctx context.Context, conn *sql.Conn) (int64, error) {
	var n int64
	err := conn.QueryRowContext(ctx, `SELECT (p.page_count - f.freelist_count) * s.page_size
		FROM pragma_page_count p, pragma_freelist_count f, pragma_page_size s`).Scan(&n)
	return n, err
}
