//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlitestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// oneName refuses a file that can have another name: the lock and the log lie
// beside each name, so that two processes that come by two names would not know
// of each other, and damage the file. No file is fine, and what is no regular
// file is refused elsewhere.
func oneName(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sqlitestore: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
		return fmt.Errorf("%w: %s is one of %d hard links to one file: remove the others", ErrNames, path, st.Nlink)
	}
	mounted, err := mountPoint(path)
	if err != nil {
		return fmt.Errorf("sqlitestore: %s: is it a mount point: %w", path, err)
	}
	if mounted {
		return fmt.Errorf("%w: %s is mounted as a single file: mount its directory, not the file", ErrNames, path)
	}
	return nil
}

// otherDevice reports whether a file lies on another device than its directory,
// which makes it a mount point. A mount of the same device does not show.
func otherDevice(path string) (bool, error) {
	var file, dir syscall.Stat_t
	if err := syscall.Stat(path, &file); err != nil {
		return false, err
	}
	if err := syscall.Stat(filepath.Dir(path), &dir); err != nil {
		return false, err
	}
	return file.Dev != dir.Dev, nil
}
