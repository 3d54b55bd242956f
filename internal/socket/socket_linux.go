//go:build linux && (amd64 || arm64) && !race

package socket

import (
	"io"
	"syscall"
	"unsafe"
)

const supported = true

// Receive reads what has come, at most len(p) bytes, which must not be 0.
func Receive(fd uintptr, p []byte) (int, error) {
	n, errno := receive(fd, p, syscall.MSG_DONTWAIT)
	switch {
	case errno != 0:
		return 0, errno
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Silent reports whether there is nothing to read, not even the end. It takes
// nothing.
func Silent(fd uintptr) bool {
	var p [1]byte
	_, errno := receive(fd, p[:], syscall.MSG_DONTWAIT|syscall.MSG_PEEK)
	return errno == syscall.EAGAIN
}

func receive(fd uintptr, p []byte, flags uintptr) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), flags, 0, 0) //nolint:gosec // p outlives the call
		if errno != syscall.EINTR {
			return int(n), errno
		}
	}
}

// Send writes p, or as much of it as the system takes at once.
func Send(fd uintptr, p []byte) (int, error) {
	const flags = syscall.MSG_DONTWAIT | syscall.MSG_NOSIGNAL
	for {
		n, _, errno := syscall.Syscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), flags, 0, 0) //nolint:gosec // p outlives the call
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
