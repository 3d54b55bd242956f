package identity

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ownPrefix begins the headers that only the gateway itself may write.
const ownPrefix = "comporta-"

// forwardingPrefixes and forwardingNames are the headers by which proxies and
// content networks tell a service who the client is or which URL it asked for.
// Via is not among them: it names proxies, and no policy reads it.
var (
	forwardingPrefixes = [...]string{"x-forwarded-", "x-original-"}

	forwardingNames = byLength(
		"x-real-ip", "x-client-ip", "x-client-id", "x-forwarded", "x-rewrite-url", "x-cluster-client-ip",
		"x-remote-ip", "x-remote-addr", "x-originating-ip", "x-proxyuser-ip", "x-envoy-external-address",
		"x-azure-clientip", "x-azure-socketip", "x-appengine-user-ip", "x-via", "x-scheme", "x-url-scheme",
		"forwarded", "forwarded-for", "front-end-https", "client-ip", "true-client-ip", "fastly-client-ip",
		"fly-client-ip", "cf-connecting-ip", "cf-connecting-ipv6", "cf-pseudo-ipv4",
	)
)

// maxForwardingName bounds the names of forwardingNames, in bytes.
const maxForwardingName = 24

// innocents tells nearly every header of a request apart by its first letter and
// length: for each letter, a bit for every length of which no name begins like that
// which Unfit has to read. Of names of 64 bytes and more all are read.
type innocents [32]uint64

func (s *innocents) has(name string) bool { return s[name[0]&31]>>len(name)&1 != 0 }

// remove removes names of one length, or if it is a prefix of any from there on.
// The lower five bits of a letter are the same in both cases.
func (s *innocents) remove(name string, prefix bool) {
	lengths := uint64(1) << len(name)
	if prefix {
		lengths = -lengths // this bit and all above it
	}
	s[name[0]&31] &^= lengths
	if name[0] == '-' || name[0] == '_' {
		s['-'&31] &^= lengths
		s['_'&31] &^= lengths
	}
}

// innocentsBut are all names but those that may be unfit: the gateway's own, those
// of proxies, and other spellings of the configured credentials.
func innocentsBut(credentials []string) (s innocents) {
	for i := range s {
		s[i] = ^uint64(0)
	}
	s.remove(ownPrefix, true)
	for _, prefix := range forwardingPrefixes {
		s.remove(prefix, true)
	}
	for i := range forwardingNames {
		for _, name := range forwardingNames[i] {
			s.remove(name, false)
		}
	}
	for _, name := range credentials {
		s.remove(name, false)
	}
	return s
}

// byLength sorts names by their length, so that a name is held against few.
func byLength(names ...string) (sorted [maxForwardingName + 1][]string) {
	for _, n := range names {
		sorted[len(n)] = append(sorted[len(n)], n)
	}
	return sorted
}

// Clean deletes from h what the peer has no right to say. Call it after
// DropNominated and before any policy reads h. It allocates nothing.
//
// From everybody go Comporta-*, and spellings with underscores of a forwarding
// header or of a configured credential: CGI and WSGI fold them onto the true
// name, and no proxy writes them. From a peer that is not trusted go all
// forwarding headers: X-Forwarded-*, X-Original-*, Forwarded, X-Real-Ip and
// their aliases. A header that is configured as a credential stays.
func (id *Identifier) Clean(h http.Header, trusted bool) {
	for name := range h {
		if id.Unfit(name, trusted) {
			delete(h, name)
		}
	}
}

// Innocent reports, without a call and for nearly every header, that Unfit would
// say no, whoever the peer is.
func (id *Identifier) Innocent(name string) bool { return name == "" || id.innocents.has(name) }

// Unfit reports whether Clean would delete a header of that name, for a caller
// that walks over the header anyway.
func (id *Identifier) Unfit(name string, trusted bool) bool {
	if id.Innocent(name) {
		return false
	}
	underscored := strings.IndexByte(name, '_') >= 0
	switch {
	case name[0]|0x20 == 'c' && hasFoldedPrefix(name, ownPrefix):
		return true
	case underscored && id.aliasOfCredential(name):
		return true
	}
	return (underscored || !trusted) && forwarding(name) && !id.isCredential(name)
}

// forwarding reports whether name, in any case and with underscores for dashes,
// is a forwarding header.
func forwarding(name string) bool {
	if name[0]|0x20 == 'x' {
		for i := range forwardingPrefixes {
			if hasFoldedPrefix(name, forwardingPrefixes[i]) {
				return true
			}
		}
	}
	if len(name) > maxForwardingName {
		return false
	}
	for _, f := range forwardingNames[len(name)] {
		if hasFoldedPrefix(name, f) {
			return true
		}
	}
	return false
}

// isCredential reports whether name is configured as a source of identity.
func (id *Identifier) isCredential(name string) bool { return slices.Contains(id.credentials, name) }

// aliasOfCredential reports whether a CGI service would take name for a
// configured credential under another name.
func (id *Identifier) aliasOfCredential(name string) bool {
	if id.isCredential(name) {
		return false
	}
	for _, c := range id.credentials {
		if len(c) == len(name) && sameFolded(c, name) {
			return true
		}
	}
	return false
}

// hasFoldedPrefix reports whether s begins with prefix, which is lower case with
// dashes; s may have any case and underscores.
func hasFoldedPrefix(s, prefix string) bool {
	if len(s) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if fold(s[i]) != prefix[i] {
			return false
		}
	}
	return true
}

// sameFolded compares two names of one length.
func sameFolded(a, b string) bool {
	for i := range len(a) {
		if fold(a[i]) != fold(b[i]) {
			return false
		}
	}
	return true
}

func fold(c byte) byte {
	switch {
	case c == '_':
		return '-'
	case c >= 'A' && c <= 'Z':
		return c | 0x20
	}
	return c
}

// Hop is what the gateway knows of the hop before it.
type Hop struct {
	Remote  netip.Addr // the TCP peer
	Client  netip.Addr // Request.Client.Addr
	Trusted bool       // the peer is a trusted proxy
	Host    string     // the Host header as received, with its port
	TLS     bool       // the peer spoke TLS with us
}

// WriteForwarded writes the forwarding headers of a request that goes to the
// service: X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto and X-Real-Ip.
// Call it after the removal of hop-by-hop fields, or a client whose request did
// not pass DropNominated could name them in Connection and have them removed.
//
// A trusted peer's chain is continued, and its word on host and scheme kept; else
// all four begin here. Forwarded is never sent on: one story, told once. If it
// was all that a trusted peer sent, X-Forwarded-For begins with what it said of
// the client.
func WriteForwarded(h http.Header, p Hop) {
	remote, client := plain(p.Remote), plain(p.Client)
	peer := ""
	if remote.IsValid() {
		peer = remote.String()
	}
	who, chain := peer, peer
	if client.IsValid() && client != remote {
		who = client.String()
	}
	host, scheme := p.Host, "http"
	if p.TLS {
		scheme = "https"
	}
	if p.Trusted {
		chain = continued(h[headerXFF], who, peer)
		if v := single(h, "X-Forwarded-Host"); v != "" {
			host = v
		}
		if v := strings.ToLower(single(h, "X-Forwarded-Proto")); v == "http" || v == "https" {
			scheme = v
		}
	}
	delete(h, headerForwarded)
	values := []string{chain, host, scheme, who} // one allocation for the four
	for i, name := range rewritten[:len(values)] {
		if values[i] == "" {
			delete(h, name)
			continue
		}
		h[name] = values[i : i+1 : i+1]
	}
}

// rewritten are the headers that WriteForwarded writes or ends.
// Forwarded, which is ended, is the last.
var rewritten = [...]string{headerXFF, "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", headerForwarded}

// continued appends the peer to the chain that it sent.
func continued(lines []string, client, peer string) string {
	chain := strings.Trim(strings.Join(lines, ", "), " \t,")
	switch {
	case chain != "" && peer != "":
		return chain + ", " + peer
	case chain != "":
		return chain
	case client != peer:
		return client + ", " + peer
	}
	return peer
}
