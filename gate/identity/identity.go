package identity

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/comporta/comporta"
)

// Identifier says who asks. It is immutable; its methods may be called from many
// goroutines. Use New.
type Identifier struct {
	key         [16]byte
	trusted     prefixSet
	sources     []source
	credentials []string // canonical names of the headers that identify
	innocents   innocents
	networks    networks
	names       *names
	floor       floor
	proven      *Proven // nil: nobody is ever proven
}

// IdentifyAt writes r.Client. It reads r.Remote, r.Header and r.TLS, and
// allocates nothing but for a client with a configured name that it meets for
// the first time.
//
// Afterwards Client.Key and Client.Network are never 0: what has no identity has
// its network's, and what has no address the one key of all such requests.
func (id *Identifier) IdentifyAt(now time.Time, r *comporta.Request) {
	id.NameAt(now, r)
	id.RankAt(now, r)
}

// NameAt is the first half of IdentifyAt: all of r.Client but the network's name,
// and whether the client is proven, which lies in a large table. It has the place
// fetched, so that a caller with something else to do between the halves does not
// wait for it.
func (id *Identifier) NameAt(now time.Time, r *comporta.Request) {
	addr := id.ClientAddr(r.Remote, r.Header)
	c := &r.Client
	*c = comporta.Client{Addr: addr}
	for i := range id.sources {
		s := &id.sources[i]
		if !s.identify(now, r, id.names) {
			continue
		}
		c.Shared = s.shared
		if c.Class == comporta.ClassAnonymous {
			id.proven.prepare(c.Key)
		}
		return
	}
	c.Key, c.Shared = id.networks.identity(addr), true
}

// RankAt is the second half: it names the network, for which nobody has waited so
// far, and says whether the client is proven. A network has no credential, is never
// proven, and so is never found.
func (id *Identifier) RankAt(now time.Time, r *comporta.Request) {
	c := &r.Client
	c.Network = id.networks.aggregate(c.Addr)
	if c.Class == comporta.ClassAnonymous && id.proven.ProvenAt(now, c.Key) {
		c.Class = comporta.ClassProven
	}
}

// ProveAt remembers for a day that the service honoured the credential of r.
// Call it when r was answered below 400 on a route that is not public. It does
// nothing for networks, which carry no credential, and for verified identities,
// which need no proof.
//
// A later 401 does not forget: when an identity provider fails, it answers 401
// to everybody, and demoting all known clients is the last thing an incident
// needs. A revoked key ends with its day, or by [Proven.Forget].
func (id *Identifier) ProveAt(now time.Time, r *comporta.Request) {
	switch c := &r.Client; {
	case c.Class > comporta.ClassProven, c.Key == 0:
	case c.Class == comporta.ClassProven, c.Key != id.networks.identity(c.Addr):
		id.proven.ProveAt(now, c.Key)
	}
}

// Trusted reports whether addr is one of the trusted proxies.
func (id *Identifier) Trusted(addr netip.Addr) bool { return id.trusted.contains(plain(addr)) }

// ClientAddr returns the address of the client: remote, or behind trusted
// proxies the right-most hop of X-Forwarded-For or Forwarded that is none.
// Addresses come without zone, IPv4 never mapped into IPv6.
//
// A hop that cannot be read (malformed, unknown, obfuscated) ends the walk at
// the hop before, the one that reported it.
func (id *Identifier) ClientAddr(remote netip.Addr, h http.Header) netip.Addr {
	remote = plain(remote)
	if len(id.trusted.ranges) == 0 || !id.trusted.contains(remote) {
		return remote
	}
	xff, forwarded := h[headerXFF], h[headerForwarded]
	switch {
	case len(forwarded) == 0:
		return walk(&id.trusted, remote, xff, cutXFF)
	case len(xff) == 0:
		return walk(&id.trusted, remote, forwarded, cutForwarded)
	}
	a, b := walk(&id.trusted, remote, xff, cutXFF), walk(&id.trusted, remote, forwarded, cutForwarded)
	if a == b {
		return a
	}
	// A proxy that writes one of the two passes on what the client put into the
	// other; which one it writes is not known here.
	return remote
}

// plain returns the address under which an address is known here.
func plain(a netip.Addr) netip.Addr {
	if a.Is4() {
		return a
	}
	return a.Unmap().WithZone("")
}
