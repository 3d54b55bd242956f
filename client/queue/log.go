package queue

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// slack is what the file may hold beyond twice its items before it is written
// afresh, in bytes: a small queue must not be rewritten at every turn.
const slack = 64 << 10

// log is the file. It belongs to the Queue, under the Queue's lock.
type log struct {
	path    string
	file    *os.File
	marker  uint32
	size    int64 // where the next record goes
	scratch []byte
	broken  error // set once the file's content is no longer certain
}

// openLog opens or creates the file, takes its lock, hands its records to apply
// and cuts off a torn tail.
func openLog(path string, apply func(*record)) (*log, Recovery, error) {
	file, err := openLocked(path)
	if err != nil {
		return nil, Recovery{}, err
	}
	l := &log{path: path, file: file}
	var recovery Recovery
	// A compaction must replace the file, and not a symbolic link that leads to it.
	if l.path, err = filepath.EvalSymlinks(path); err == nil {
		recovery, err = l.recover(apply)
	}
	if err != nil {
		return nil, Recovery{}, errors.Join(err, file.Close())
	}
	return l, recovery, nil
}

// openLocked opens the file under the path and locks it. A compaction may have
// put another file there between the two, so it looks again.
func openLocked(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("queue: %w", err)
		}
		if err = lock(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		mine, err := f.Stat()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("queue: %w", err), f.Close())
		}
		if there, err := os.Stat(path); err == nil && os.SameFile(mine, there) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("queue: %w", err)
		}
	}
}

func (l *log) recover(apply func(*record)) (Recovery, error) {
	content, err := io.ReadAll(l.file)
	if err != nil {
		return Recovery{}, fmt.Errorf("queue: %w", err)
	}
	// The header is written to a file of another name, so a crash cannot tear
	// it: what is neither empty nor a queue is somebody else's file.
	if len(content) == 0 {
		return Recovery{}, l.rewrite(nil)
	}
	marker, ok := parseHeader(content)
	if !ok {
		return Recovery{}, fmt.Errorf("%w: %s", ErrNoQueue, l.path)
	}
	l.marker = marker
	end, skipped := replay(content[headerSize:], marker, apply)
	l.size = int64(headerSize + end)
	recovery := Recovery{Cut: int64(len(content)) - l.size, Skipped: int64(skipped)}
	if recovery.Cut > 0 {
		if err := errors.Join(l.file.Truncate(l.size), l.file.Sync()); err != nil {
			return Recovery{}, fmt.Errorf("queue: cut off a torn tail: %w", err)
		}
	}
	return recovery, nil
}

// append writes the records in one piece. With sync they, and all before them,
// are on the disk when it returns. After an error none of them counts: the file
// is cut back, or the log is broken.
func (l *log) append(sync bool, records ...record) error {
	if l.broken != nil {
		return l.broken
	}
	b := l.scratch[:0]
	for i := range records {
		b = records[i].appendTo(b, l.marker)
	}
	if cap(b) <= slack {
		l.scratch = b
	}
	if _, err := l.file.WriteAt(b, l.size); err != nil {
		if cut := l.file.Truncate(l.size); cut != nil {
			l.broken = fmt.Errorf("queue: %s must be opened anew: %w", l.path, errors.Join(err, cut))
			return l.broken
		}
		return fmt.Errorf("queue: %w", err)
	}
	if sync {
		if err := l.file.Sync(); err != nil {
			// What a failed fsync left on the disk, nobody knows, and a second one
			// may report success without having written it.
			l.broken = fmt.Errorf("queue: %s must be opened anew: %w", l.path, err)
			return l.broken
		}
	}
	l.size += int64(len(b))
	return nil
}

// rewrite replaces the file by one that holds the records only. The new file is
// complete, on the disk and locked before it takes the name, so that at no
// instant the name leads to less than everything.
func (l *log) rewrite(records []record) error {
	if l.broken != nil {
		return l.broken
	}
	var seed [4]byte
	_, _ = rand.Read(seed[:]) // documented never to fail
	marker := binary.LittleEndian.Uint32(seed[:])
	b := newHeader(marker)
	for i := range records {
		b = records[i].appendTo(b, marker)
	}
	file, err := l.replace(b)
	if err != nil {
		return fmt.Errorf("queue: write %s afresh: %w", l.path, err)
	}
	err = l.file.Close() // gives the old file's lock away; the new one is ours since before it had the name
	l.file, l.marker, l.size = file, marker, int64(len(b))
	if err == nil {
		err = syncDir(filepath.Dir(l.path))
	}
	if err != nil {
		l.broken = fmt.Errorf("queue: %s must be opened anew: %w", l.path, err)
	}
	return l.broken
}

// replace puts a new file with the content under the log's name.
func (l *log) replace(content []byte) (*os.File, error) {
	name := l.path + ".new"
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	err = lock(file)
	if err == nil {
		_, err = file.Write(content)
	}
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(name, l.path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(name))
	}
	return file, nil
}

func (l *log) close() error {
	if l.broken == ErrClosed { //nolint:errorlint // set below, never wrapped
		return ErrClosed
	}
	l.broken = ErrClosed
	return l.file.Close()
}

// syncDir makes a rename in the directory last.
func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
