//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package queue

import (
	"errors"
	"fmt"
	"os"
)

// lock fails: without a lock two processes would send everything twice.
func lock(f *os.File) error {
	return fmt.Errorf("queue: lock %s: %w", f.Name(), errors.ErrUnsupported)
}
