package live

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// ErrNotLoopback says that a connection would have left this machine.
var ErrNotLoopback = errors.New("live: not on loopback")

// NewTransport returns the connections of a population. They repeat nothing, follow
// nothing and go through no proxy. Unless anywhere, an address off loopback is
// refused when it is dialled, whatever name it was found by.
func NewTransport(anywhere bool) *http.Transport {
	dialer := net.Dialer{Timeout: time.Second}
	if !anywhere {
		dialer.Control = loopbackOnly
	}
	return &http.Transport{
		MaxConnsPerHost: MaxConnections, MaxIdleConnsPerHost: MaxConnections,
		DisableCompression: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if tcp, ok := c.(*net.TCPConn); ok && err == nil {
				// A client that runs out of time hangs up hundreds of times a
				// second. A reset leaves no port behind in TIME_WAIT.
				err = tcp.SetLinger(0)
			}
			return c, err
		},
	}
}

func loopbackOnly(_, address string, _ syscall.RawConn) error {
	if a, err := netip.ParseAddrPort(address); err != nil || !a.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%w: %s", ErrNotLoopback, address)
	}
	return nil
}
