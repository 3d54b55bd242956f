//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package sqlitestore

// mountPoint reports whether something is mounted at the path itself.
func mountPoint(path string) (bool, error) { return otherDevice(path) }
