//go:build unix && (!linux || !(amd64 || arm64) || race)

package socket

import (
	"io"
	"syscall"
)

const supported = true

// Receive reads what has come, at most len(p) bytes, which must not be 0.
func Receive(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), p)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Silent reports whether there is nothing to read, not even the end. It takes
// nothing.
func Silent(fd uintptr) bool {
	var p [1]byte
	for {
		_, _, err := syscall.Recvfrom(int(fd), p[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err != syscall.EINTR {
			return err == syscall.EAGAIN
		}
	}
}

// Send writes p, or as much of it as the system takes at once.
func Send(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}
