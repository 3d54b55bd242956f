//go:build unix

package measure

import (
	"syscall"
	"time"
)

// cpuTime is what the process has used of the CPU, user and system; 0 if that
// cannot be told.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
