//go:build !unix

package main

import "os/exec"

// ownGroup does nothing where there are no process groups: the limit ends the
// program alone.
func ownGroup(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}
