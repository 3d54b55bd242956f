//go:build unix

package main

import "syscall"

// descriptors returns how many files and connections the process may have open; 0
// when that is not bounded.
func descriptors() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Cur > 1<<30 {
		return 0
	}
	return int(limit.Cur)
}
