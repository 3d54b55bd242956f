// Package socket reads from and writes to sockets of streams, for those who know
// themselves when to wait.
//
// # Basics
//
// Of finds the socket behind a connection. Receive, Silent and Send are for the
// functions that its Read, Write and Control call with the descriptor. They never
// wait: where the system would, the error is syscall.EAGAIN. All else is as read(2)
// and write(2) have it, but for the end of what can be read, which is io.EOF.
//
// # Caveats
//
// On Linux the calls of sockets are used: those of files look at more on their way.
// Reading is hidden from Go's scheduler there, since it copies a buffer at most and
// returns; telling the scheduler would cost a tenth of the call. Writing is not: it
// takes a packet all the way to the network. Under the race detector the calls are those
// of package syscall, which tell it what happens before what.
package socket

import (
	"net"
	"os"
	"syscall"
)

// Of returns the socket of a TCP or Unix connection; nil for any other connection,
// whose own methods may do more than the system's, and where there is none to have.
func Of(conn net.Conn) syscall.RawConn {
	if !supported {
		return nil
	}
	var raw syscall.RawConn
	var err error
	switch c := conn.(type) {
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	}
	if err != nil {
		return nil
	}
	return raw
}

// Fault makes of the system's error what the method op of conn would return.
func Fault(conn net.Conn, op string, err error) error {
	return &net.OpError{
		Op: op, Net: conn.LocalAddr().Network(), Source: conn.LocalAddr(), Addr: conn.RemoteAddr(), Err: os.NewSyscallError(op, err),
	}
}
