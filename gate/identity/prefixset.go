package identity

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// prefixSet is a set of addresses as sorted ranges that do not touch, so that
// the published lists of large providers cost a binary search.
type prefixSet struct{ ranges []addrRange }

type addrRange struct{ from, to netip.Addr }

func newPrefixSet(prefixes []netip.Prefix) (prefixSet, error) {
	var problems []error
	ranges := make([]addrRange, 0, len(prefixes))
	for i, p := range prefixes {
		if p.IsValid() && p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		switch {
		case !p.IsValid():
			problems = append(problems, fmt.Errorf("identity: TrustedProxies[%d]: not a network; write one such as 10.0.0.0/8", i))
		case p.Bits() == 0:
			problems = append(problems, fmt.Errorf("identity: TrustedProxies[%d]: %v trusts everybody to name any client; list your proxies' networks", i, p))
		default:
			ranges = append(ranges, addrRange{p.Masked().Addr(), lastAddr(p)})
		}
	}
	slices.SortFunc(ranges, func(a, b addrRange) int { return a.from.Compare(b.from) })
	merged := ranges[:0]
	for _, r := range ranges {
		if n := len(merged); n > 0 && r.from.Compare(merged[n-1].to) <= 0 {
			if merged[n-1].to.Less(r.to) {
				merged[n-1].to = r.to
			}
			continue
		}
		merged = append(merged, r)
	}
	return prefixSet{merged}, errors.Join(problems...)
}

// lastAddr returns the highest address of a prefix.
func lastAddr(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr()
	b := a.AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(b) // 4 or 16 bytes, as AsSlice made them
	return last
}

// contains reports whether a, in plain form, is in the set.
func (t *prefixSet) contains(a netip.Addr) bool {
	if len(t.ranges) == 0 || !a.IsValid() {
		return false
	}
	lo, hi := 0, len(t.ranges)
	for lo < hi {
		if mid := (lo + hi) / 2; t.ranges[mid].to.Less(a) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(t.ranges) && t.ranges[lo].from.Compare(a) <= 0
}
