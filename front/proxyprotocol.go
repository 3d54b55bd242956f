package front

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"
)

// The PROXY protocol, versions 1 and 2, as HAProxy's proxy-protocol.txt has it.
const (
	proxySignature1 = "PROXY "
	proxySignature2 = "\r\n\r\n\x00\r\nQUIT\n"
	maxProxyLine    = 107 // of version 1, with its end
	proxyHead2      = 16  // of version 2, before the addresses
	maxProxyHeader  = bufferSize
)

// proxyTime bounds the wait for a PROXY header where Limits.HeaderTimeout does not.
const proxyTime = 5 * time.Second

var errNoProxyHeader = errors.New("front: the connection does not begin with a valid PROXY protocol header")

// proxyHeader reads the header with which b begins. size is its length, 0 while more
// is needed; client is zero where the header leaves the peer's own address in
// force: LOCAL, UNKNOWN, and families without an address of the Internet.
func proxyHeader(b []byte) (client netip.AddrPort, size int, err error) {
	switch {
	case begins(b, proxySignature2):
		return proxyHeader2(b)
	case begins(b, proxySignature1):
		return proxyHeader1(b)
	}
	return netip.AddrPort{}, 0, errNoProxyHeader
}

// begins reports whether b begins with a signature, or may do so when more comes.
func begins(b []byte, signature string) bool {
	n := min(len(b), len(signature))
	return string(b[:n]) == signature[:n]
}

func proxyHeader1(b []byte) (client netip.AddrPort, size int, err error) {
	end := bytes.IndexByte(b[:min(len(b), maxProxyLine)], '\n')
	switch {
	case end < 0 && len(b) >= maxProxyLine:
		return client, 0, errNoProxyHeader
	case end < 0:
		return client, 0, nil
	case b[end-1] != '\r': // the signature stands before it
		return client, 0, errNoProxyHeader
	}
	words := strings.Split(string(b[:end-1]), " ")
	size = end + 1
	if words[1] == "UNKNOWN" {
		return client, size, nil // what follows is to be ignored
	}
	if len(words) != 6 {
		return client, 0, errNoProxyHeader
	}
	var ends [2]netip.AddrPort
	for i := range ends {
		addr, err := netip.ParseAddr(words[2+i])
		port, ok := decimal(words[4+i])
		family := words[1] == "TCP4" && addr.Is4() || words[1] == "TCP6" && addr.Is6() && addr.Zone() == ""
		if err != nil || !family || !ok || port > 0xffff || len(words[4+i]) > 1 && words[4+i][0] == '0' {
			return client, 0, errNoProxyHeader
		}
		ends[i] = netip.AddrPortFrom(addr.Unmap(), uint16(port))
	}
	return ends[0], size, nil
}

func proxyHeader2(b []byte) (client netip.AddrPort, size int, err error) {
	if len(b) < proxyHead2 {
		return client, 0, nil
	}
	version, command, family := b[12]>>4, b[12]&15, b[13]
	length := int(binary.BigEndian.Uint16(b[14:]))
	size = proxyHead2 + length
	if version != 2 || command > 1 || size > maxProxyHeader {
		return client, 0, errNoProxyHeader
	}
	if len(b) < size {
		return client, 0, nil
	}
	addresses := b[proxyHead2:size]
	switch {
	case command == 0, family == 0x00, family == 0x31, family == 0x32: // LOCAL; unspecified; a socket of UNIX
		return client, size, nil
	case family == 0x11 && length >= 12:
		addr := netip.AddrFrom4([4]byte(addresses[:4]))
		return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(addresses[8:])), size, nil
	case family == 0x21 && length >= 36:
		addr := netip.AddrFrom16([16]byte(addresses[:16])).Unmap()
		return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(addresses[32:])), size, nil
	}
	return client, 0, errNoProxyHeader // a datagram's, or too short; type-length-values behind are passed over
}

// introduce reads the PROXY header. It reports whether the connection may go on,
// under the address that it names.
func (c *conn) introduce() bool {
	limit := c.s.config.Limits.HeaderTimeout
	if limit == 0 {
		limit = proxyTime
	}
	c.x = c.s.acquire(c)
	in := &c.x.in
	c.link.wait(limit)
	for {
		n, err := c.link.read(in.free())
		if err != nil {
			return false
		}
		in.to += n
		client, size, err := proxyHeader(in.bytes())
		switch {
		case err != nil:
			c.s.config.Log.Debug(err.Error(), "remote", c.remote)
			return false
		case size > 0:
			in.discard(size)
			return c.become(client)
		case in.room() == 0:
			return false // cannot be: headers are shorter
		}
	}
}

// become makes the connection that of a client behind the peer.
func (c *conn) become(client netip.AddrPort) bool {
	addr := addrOf(c.socket.RemoteAddr())
	if client.IsValid() {
		addr, c.remote, c.peer = client.Addr(), client.String(), net.TCPAddrFromAddrPort(client)
	}
	if !c.place.found(addr) {
		c.turnAway()
		return false
	}
	return true
}
