package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/comporta/comporta/store"
)

// maxFaults bounds what a check reports of a damaged file.
const maxFaults = 20

// Check reads the whole file and says what is damaged, as an [ErrCorrupt]. It
// takes seconds a gigabyte, and hinders nobody but by the disk.
func (s *Store) Check(ctx context.Context) error {
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	rows, err := s.reading.QueryContext(ctx, fmt.Sprintf(`PRAGMA integrity_check(%d)`, maxFaults))
	if err != nil {
		return explain(s.place.path, err)
	}
	defer func() { _ = rows.Close() }() // read to their end, or given up
	var faults []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return explain(s.place.path, err)
		}
		if line != "ok" {
			faults = append(faults, line)
		}
	}
	if err := rows.Err(); err != nil {
		return explain(s.place.path, err)
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %s: stop, keep the file, and put a backup in its place: %s", ErrCorrupt, s.place.path, strings.Join(faults, "; "))
	}
	return nil
}

// Backup writes the state of one instant to a new file, while the store is in
// use. The file is complete, on the disk, and readable by its owner only, before
// it has the name; a file that has the name already is an error.
func (s *Store) Backup(ctx context.Context, path string) error {
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("sqlitestore: backup: %s exists: name a new file", path)
	}
	part, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".part-*") // mode 0600
	if err != nil {
		return fmt.Errorf("sqlitestore: backup: %w", err)
	}
	name := part.Name()
	err = s.copyTo(ctx, name)
	if err == nil {
		err = part.Sync() // SQLite does not, for a file that it writes at once
	}
	if err = errors.Join(err, part.Close()); err == nil {
		err = os.Link(name, path) // a rename would replace what has come meanwhile
	}
	err = errors.Join(err, os.Remove(name))
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("sqlitestore: backup to %s: %w", path, err)
	}
	return nil
}

func (s *Store) copyTo(ctx context.Context, name string) error {
	conn, err := s.reading.Conn(ctx)
	if err != nil {
		return explain(s.place.path, err)
	}
	// VACUUM INTO reads one snapshot and writes each page once. The connection may
	// not write otherwise.
	_, err = conn.ExecContext(ctx, `PRAGMA query_only = 0`)
	if err == nil {
		_, err = conn.ExecContext(ctx, `VACUUM INTO ?`, name)
		_, back := conn.ExecContext(context.WithoutCancel(ctx), `PRAGMA query_only = 1`)
		err = errors.Join(err, back)
	}
	return errors.Join(err, conn.Close())
}

// syncDir makes a new name in the directory last.
func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Health implements store.Keys.
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
	conn, err := s.reading.Conn(ctx)
	if err != nil {
		return h, explain(s.place.path, err)
	}
	defer func() { _ = conn.Close() }() // it goes back to the pool
	if h.Bytes, err = size(ctx, conn); err != nil {
		return h, explain(s.place.path, err)
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
