//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package queue

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock takes the operating system's lock on an open file, without waiting. It
// ends with the file's last descriptor, so also with the process, however that
// dies; Go opens files close-on-exec, so no child inherits it.
func lock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("%w: %s", ErrLocked, f.Name())
		default:
			return fmt.Errorf("queue: lock %s: %w", f.Name(), err)
		}
	}
}
