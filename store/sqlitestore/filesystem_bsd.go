//go:build darwin || freebsd

package sqlitestore

import (
	"fmt"
	"syscall"
)

// mntLocal is MNT_LOCAL of sys/mount.h: the filesystem is stored locally.
const mntLocal = 0x1000

// filesystem returns the name of the filesystem that holds path if SQLite cannot
// be trusted there, and its name if it lies in memory.
func filesystem(path string) (unfitName, volatileName string, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return "", "", fmt.Errorf("sqlitestore: filesystem of %s: %w", path, err)
	}
	var name []byte
	for _, c := range st.Fstypename {
		if c == 0 {
			break
		}
		name = append(name, byte(c))
	}
	switch {
	case uint64(st.Flags)&mntLocal == 0:
		return string(name), "", nil
	case string(name) == "tmpfs":
		return "", "tmpfs", nil
	}
	return "", "", nil
}
