//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sqlitestore

import (
	"errors"
	"fmt"
	"os"
)

// lock fails: without a lock two processes would carry out everything twice.
func lock(name string) (*os.File, error) {
	return nil, fmt.Errorf("sqlitestore: lock %s: %w", name, errors.ErrUnsupported)
}
