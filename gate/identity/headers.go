package identity

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Headers by which proxies and content networks tell a service who the client
// is, which URL it asked for or what was in its certificate. Lower case, by first
// letter. Via is not among them: it names proxies, and no policy reads it.
var (
	forwardingPrefixes = []string{"x-forwarded-", "x-original-"}

	forwardingX = []string{
		"x-real-ip", "x-client-ip", "x-client-id", "x-forwarded", "x-rewrite-url", "x-cluster-client-ip",
		"x-remote-ip", "x-remote-addr", "x-originating-ip", "x-proxyuser-ip", "x-envoy-external-address",
		"x-azure-clientip", "x-azure-socketip", "x-appengine-user-ip", "x-via", "x-scheme", "x-url-scheme",
	}
	forwardingC = []string{"client-ip", "cf-connecting-ip", "cf-connecting-ipv6", "cf-pseudo-ipv4"}
	forwardingF = []string{"forwarded", "forwarded-for", "fastly-client-ip", "fly-client-ip", "front-end-https"}
	forwardingT = []string{"true-client-ip"}

	ownPrefix = "comporta-"
)

// Clean deletes from h what the peer has no right to say. Call it before any
// policy reads h. It allocates nothing.
//
// From everybody go Comporta-*, and spellings with underscores of a forwarding
// header or of a configured credential: CGI and WSGI fold them onto the true
// name, and no proxy writes them. From a peer that is not trusted go all
// forwarding headers: X-Forwarded-*, X-Original-*, Forwarded, X-Real-Ip and
// their aliases. A header that is configured as a credential stays.
func (id *Identifier) Clean(h http.Header, trusted bool) {
	for name := range h {
		if name == "" {
			continue
		}
		underscored := strings.IndexByte(name, '_') >= 0
		switch {
		case hasFoldedPrefix(name, ownPrefix):
		case underscored && id.aliasOfCredential(name):
		case (underscored || !trusted) && forwarding(name) && !id.isCredential(name):
		default:
			continue
		}
		delete(h, name)
	}
}

// forwarding reports whether name, in any case and with underscores for dashes,
// is a forwarding header.
func forwarding(name string) bool {
	var list []string
	switch name[0] | 0x20 {
	case 'x':
		for _, p := range forwardingPrefixes {
			if hasFoldedPrefix(name, p) {
				return true
			}
		}
		list = forwardingX
	case 'c':
		list = forwardingC
	case 'f':
		list = forwardingF
	case 't':
		list = forwardingT
	}
	for _, f := range list {
		if len(f) == len(name) && hasFoldedPrefix(name, f) {
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
// Call it after the removal of hop-by-hop fields, or a client could name them in
// Connection and have them removed.
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
	for i, name := range [4]string{headerXFF, "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"} {
		if values[i] == "" {
			delete(h, name)
			continue
		}
		h[name] = values[i : i+1 : i+1]
	}
}

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
