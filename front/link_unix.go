//go:build unix

package front

import (
	"io"
	"net"
	"os"
	"syscall"
)

// rawOf returns the socket of a TCP connection. Reading from it directly tells
// whether a read would wait, before it does: only then deadlines are armed, and
// buffers given back.
func rawOf(conn net.Conn) syscall.RawConn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// try reads from the socket; false means that it must be waited for.
func (l *link) try(fd uintptr) bool {
	p := l.p
	if p == nil {
		p = l.lend()
	}
	for {
		n, err := syscall.Read(int(fd), p)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			if l.err = l.arm(); l.err != nil {
				return true
			}
			if l.p == nil {
				l.back()
			}
			return false
		case err != nil:
			l.err = &net.OpError{Op: "read", Net: "tcp", Source: l.conn.LocalAddr(), Addr: l.conn.RemoteAddr(), Err: os.NewSyscallError("read", err)}
		case n == 0:
			l.err = io.EOF
		default:
			l.n = n
		}
		return true
	}
}
