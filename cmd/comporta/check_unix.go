//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the program the head of a process group, so that what it starts
// can be ended with it, and asks the whole group to end at the limit.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// killGroup ends what is left of the group. Its number cannot have passed to
// others while a member lives; with none left there is nothing to kill.
func killGroup(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // ESRCH is the usual and the good case
}
