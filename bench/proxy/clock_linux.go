package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what a process has used of the CPU so far: all threads, also those
// that are gone, user and system, to the nanosecond.
func cpuTime(pid int) (time.Duration, error) {
	const scheduler = 2 // CPUCLOCK_SCHED of the kernel: how clock ids name a process's clock
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|scheduler, &t); err != nil {
		return 0, fmt.Errorf("the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
