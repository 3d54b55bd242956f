package sqlitestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// place is the file of a store, with the lock on it.
type place struct {
	path     string // absolute, without symbolic links
	lock     *os.File
	volatile string // the name of the filesystem if it lies in memory
	files    []named
}

// takePlace finds the file, or makes an empty one, and locks it.
//
// The database itself is opened by nobody but SQLite while SQLite has it: the
// kernel would drop SQLite's record locks with the first descriptor that is
// closed.
func takePlace(c *Config, filesystem func(path string) (unfitName, volatileName string, err error)) (*place, error) {
	path, err := resolve(c.Path)
	if err != nil {
		return nil, err
	}
	p := &place{path: path}
	for _, at := range []string{filepath.Dir(path), path} { // a file can be mounted from elsewhere
		unfit, volatile, err := filesystem(at)
		if at == path && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if unfit != "" && !c.AnyFilesystem {
			return nil, fmt.Errorf("%w: %s lies on %s, where SQLite's locks do not hold: use a disk of this machine, or PostgreSQL", ErrFilesystem, at, unfit)
		}
		if volatile != "" {
			p.volatile = volatile
		}
	}
	if err := oneName(path); err != nil {
		return nil, err
	}
	if p.lock, err = lock(path + ".lock"); err != nil {
		return nil, err
	}
	if err = private(path); err == nil {
		err = p.keep(path)
	}
	if err != nil {
		return nil, errors.Join(err, p.lock.Close())
	}
	return p, nil
}

// resolve returns the one name of a file, so that two ways to it meet at one lock.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("sqlitestore: %w", err)
	}
	dir := filepath.Dir(abs)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("sqlitestore: the directory %s does not exist: make it, readable by this user only: %w", dir, err)
	case err != nil:
		return "", fmt.Errorf("sqlitestore: %w", err)
	case !info.IsDir():
		return "", fmt.Errorf("sqlitestore: %s is no directory: name a file within one", dir)
	}
	if strings.HasSuffix(path, string(filepath.Separator)) {
		return "", fmt.Errorf("sqlitestore: %s names a directory: name a file in it", path)
	}
	whole, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(abs); err == nil {
			return "", fmt.Errorf("sqlitestore: %s is a symbolic link to nothing: name the file itself", abs)
		}
		if dir, err = filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(dir, filepath.Base(abs)), nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("sqlitestore: %w", err)
	}
	return whole, nil
}

// private makes the file if there is none, and sees to it that nobody but its
// owner can read it. What SQLite puts beside it has the same mode.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("sqlitestore: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("sqlitestore: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("sqlitestore: %s is no file: name another path", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(path, 0o600); err != nil {
			return fmt.Errorf("sqlitestore: others can read %s, which holds answers: %w", path, err)
		}
	}
	return nil
}

// named is a file that must keep its name while it is in use.
type named struct {
	path string
	info os.FileInfo
}

// keep notes which file has the name: the database before SQLite opens it, so that
// another one shows, and the log when SQLite has made it. While SQLite has them no
// other file gets their numbers.
func (p *place) keep(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return moved(path, err)
	}
	p.files = append(p.files, named{path, info})
	return nil
}

// kept says whether they have their names still. It takes some microseconds.
func (p *place) kept() error {
	for _, f := range p.files {
		info, err := os.Stat(f.path)
		switch {
		case err != nil:
			return moved(f.path, err)
		case !os.SameFile(f.info, info):
			return fmt.Errorf("%w: %s is another file now: %s", ErrMoved, f.path, putBack)
		}
	}
	return nil
}

// putBack is the remedy.
const putBack = "stop, put the file that was there back together with its -wal, or a backup, and start again"

// moved explains that a file cannot be asked for by its name. Unless it is gone it may
// be there the next time.
func moved(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is not there any more: %s", ErrMoved, path, putBack)
	}
	return fmt.Errorf("is it the same file: %w", err)
}

func (p *place) leave() error { return p.lock.Close() }
