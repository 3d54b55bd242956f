//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlitestore

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// lock takes the operating system's lock on the file beside the database, without
// waiting. It is not taken on the database itself: SQLite has record locks there,
// which some systems hold against ours, and which the kernel drops when any
// descriptor of the file is closed.
//
// The lock ends with the descriptor that is returned, so also with the process.
// The file is never removed: whoever removed it would let two processes lock two
// files of one name.
func lock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	switch {
	case err == nil:
		sign(f)
		return f, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = fmt.Errorf("%w: %s is held by %s: end that process, or give this one a file of its own", ErrInUse, name, holder(f))
	default:
		err = fmt.Errorf("sqlitestore: lock %s: %w", name, err)
	}
	return nil, errors.Join(err, f.Close())
}

// sign leaves a word for who is refused. The lock is what counts: that the word
// cannot be written is no reason to stop.
func sign(f *os.File) {
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	if f.Truncate(0) == nil {
		_, _ = fmt.Fprintf(f, "process %d on %s\n", os.Getpid(), host) // see above
	}
}

// holder reads that word.
func holder(f *os.File) string {
	b := make([]byte, 256)
	n, _ := f.ReadAt(b, 0) // at most an empty word
	word, _, _ := strings.Cut(string(b[:n]), "\n")
	if word == "" {
		return "another process"
	}
	return word
}
