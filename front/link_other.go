//go:build !unix

package front

import (
	"net"
	"syscall"
)

func rawOf(net.Conn) syscall.RawConn { return nil }

func (*link) try(uintptr) bool { return true }
