//go:build unix

package h1

import "syscall"

// silent reports whether there is nothing to read on a socket, not even its end.
// It takes nothing.
func silent(fd uintptr) bool {
	var p [1]byte
	for {
		_, _, err := syscall.Recvfrom(int(fd), p[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err != syscall.EINTR {
			return err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		}
	}
}
