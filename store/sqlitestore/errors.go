package sqlitestore

import (
	"errors"
	"fmt"

	code "modernc.org/sqlite/lib"

	"github.com/comporta/comporta/store"
)

// The errors that a caller may want to tell apart, beside those of package store.
var (
	// ErrInUse: another process, or another Store of this one, has the file.
	ErrInUse = errors.New("sqlitestore: in use")
	// ErrFilesystem: SQLite cannot be trusted on the filesystem under the path.
	ErrFilesystem = errors.New("sqlitestore: unfit filesystem")
	// ErrNames: the file can have several names, and a lock and a log beside each: it
	// has hard links, or is mounted by itself.
	ErrNames = errors.New("sqlitestore: a file of several names")
	// ErrForeign: the file is something else than a state of this project, and was
	// left alone.
	ErrForeign = errors.New("sqlitestore: not a state of ours")
	// ErrNewer: the file was written by a later version, and was left alone.
	ErrNewer = errors.New("sqlitestore: written by a later version")
	// ErrCorrupt: the file is damaged.
	ErrCorrupt = errors.New("sqlitestore: damaged")
	// ErrMoved: the file, or its log, has lost its name while it was in use. What is
	// written there is not found by who opens it next.
	ErrMoved = errors.New("sqlitestore: removed, replaced or moved while in use")
	// ErrBroken: an fsync failed; what is on the disk is not known.
	ErrBroken = errors.New("sqlitestore: an fsync failed, and what is on the disk is not known")
)

// coded is an error of SQLite.
type coded interface {
	error
	Code() int
}

// explain says what an error of SQLite means for who runs the store.
func explain(path string, err error) error {
	if err == nil || lasting(err) { // which were explained when they were met
		return err
	}
	if _, ok := errors.AsType[*altered](err); ok {
		return damaged(path, err)
	}
	var e coded
	if !errors.As(err, &e) {
		return fmt.Errorf("sqlitestore: %s: %w", path, err)
	}
	switch e.Code() {
	case code.SQLITE_IOERR_FSYNC, code.SQLITE_IOERR_DIR_FSYNC:
		return fmt.Errorf("%w: %s: check the disk, then start again: %w", ErrBroken, path, err)
	}
	switch e.Code() & 0xff { // the primary code
	case code.SQLITE_FULL:
		return fmt.Errorf("sqlitestore: %w: %s: the disk is used up, or MaxBytes (store.max_bytes of a gateway): make room: %w", store.ErrFull, path, err)
	case code.SQLITE_CORRUPT:
		return damaged(path, err)
	case code.SQLITE_NOTADB:
		return fmt.Errorf("%w: %s is no SQLite file: name another path, or put a backup in its place: %w", ErrForeign, path, err)
	case code.SQLITE_BUSY, code.SQLITE_LOCKED:
		return fmt.Errorf("sqlitestore: %s: another program writes to the file and keeps it locked: end it (a shell of sqlite3?): %w", path, err)
	case code.SQLITE_READONLY, code.SQLITE_CANTOPEN, code.SQLITE_PERM:
		return fmt.Errorf("sqlitestore: %s: the file and its directory must be writable by this user: %w", path, err)
	}
	return fmt.Errorf("sqlitestore: %s: %w", path, err)
}

// lasting reports whether nothing may be written after an error until the store is
// opened anew.
func lasting(err error) bool { return errors.Is(err, ErrBroken) || errors.Is(err, ErrMoved) }

func damaged(path string, what error) error {
	return fmt.Errorf("%w: %s: stop, keep the file, and put a backup in its place: %w", ErrCorrupt, path, what)
}

// ofOne reports whether an error speaks of one statement, and not of the file,
// the disk or the transaction.
func ofOne(err error) bool {
	var e coded
	if !errors.As(err, &e) {
		return true
	}
	switch e.Code() & 0xff {
	case code.SQLITE_TOOBIG, code.SQLITE_CONSTRAINT, code.SQLITE_MISMATCH, code.SQLITE_RANGE, code.SQLITE_MISUSE, code.SQLITE_ERROR:
		return true
	}
	return false
}
