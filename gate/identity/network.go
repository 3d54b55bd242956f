package identity

import (
	"encoding/binary"
	"net/netip"

	"github.com/comporta/comporta/gate/identity/internal/siphash"
)

// The aggregate of everything that is claimed in a network spans at least these
// prefixes: what one subscriber or one small provider can change at will.
const (
	aggregateIPv4 = 24
	aggregateIPv6 = 64
)

// networks names addresses by prefix.
type networks struct {
	nowhere  uint64 // requests without an address
	id4, id6 prefixName
	ag4, ag6 prefixName
}

// prefixName names the addresses of one family by a prefix.
type prefixName struct {
	hash   siphash.Hash
	hi, lo uint64 // mask
}

// compileNetworks takes the prefix lengths of the network source; 0 means the default.
func compileNetworks(key [16]byte, bits4, bits6 int) networks {
	if bits4 == 0 {
		bits4 = 32
	}
	if bits6 == 0 {
		bits6 = 64
	}
	n := networks{
		nowhere: nonzero(siphash.New(key).Word(wordNetwork).Sum64("")),
		id4:     newPrefixName(key, 4, bits4),
		id6:     newPrefixName(key, 6, bits6),
		ag4:     newPrefixName(key, 4, min(bits4, aggregateIPv4)),
		ag6:     newPrefixName(key, 6, min(bits6, aggregateIPv6)),
	}
	return n
}

func newPrefixName(key [16]byte, family, bits int) prefixName {
	p := prefixName{hash: siphash.New(key).Word(wordNetwork | uint64(family)<<8 | uint64(bits)<<16)}
	if family == 4 {
		p.hi = ^uint64(0) << (32 - bits) & 0xffffffff
		return p
	}
	p.hi = ^uint64(0) << max(64-bits, 0)
	p.lo = ^uint64(0) << min(128-bits, 64)
	return p
}

func (n *networks) identity(a netip.Addr) uint64  { return n.name(a, &n.id4, &n.id6) }
func (n *networks) aggregate(a netip.Addr) uint64 { return n.name(a, &n.ag4, &n.ag6) }

func (n *networks) name(a netip.Addr, v4, v6 *prefixName) uint64 {
	switch {
	case a.Is4():
		b := a.As4()
		return nonzero(v4.hash.SumUint32(binary.BigEndian.Uint32(b[:]) & uint32(v4.hi)))
	case a.Is6():
		b := a.As16()
		hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
		if v6.lo == 0 {
			return nonzero(v6.hash.SumWord(hi & v6.hi))
		}
		return nonzero(v6.hash.Word(hi).SumWord(lo & v6.lo))
	}
	return n.nowhere
}

func nonzero(n uint64) uint64 {
	if n == 0 {
		return 1
	}
	return n
}
