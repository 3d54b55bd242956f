package config

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// checkPatterns registers all routes with one http.ServeMux, which knows when
// two patterns are the same and when neither is more specific.
func (l *loader) checkPatterns() {
	mux := http.NewServeMux()
	for i := range l.c.Routes {
		path := fmt.Sprintf("routes[%d].match", i)
		pattern := l.c.Routes[i].Match
		if pattern == "" || !l.sound(path) || register(mux, pattern) == "" {
			continue
		}
		l.conflict(path, i)
	}
}

// conflict finds the route that the pattern of route i disagrees with.
func (l *loader) conflict(path string, i int) {
	pattern := l.c.Routes[i].Match
	for j, other := range l.c.Routes[:i] {
		pair := http.NewServeMux()
		if other.Match == "" || register(pair, other.Match) != "" || register(pair, pattern) == "" {
			continue
		}
		if other.Match == pattern {
			l.wrongf(path, "remove one", "routes[%d] has the same pattern", j)
		} else {
			l.wrongf(path, "make one of them more specific in every part", "some requests match this and routes[%d], %q, and neither is more specific", j, other.Match)
		}
		return
	}
}

func (l *loader) checkIdentify() {
	seen := map[string]int{}
	last := -1 // the network source, after which nothing is asked
	for i := range l.c.Clients.Identify {
		path := fmt.Sprintf("clients.identify[%d]", i)
		s := &l.c.Clients.Identify[i]
		if !l.sound(path) {
			continue
		}
		kinds := s.kinds()
		if len(kinds) != 1 {
			l.wrongf(path, "each entry is one of header, cookie, basic, jwt, mtls, network", "has %s", count(kinds))
			continue
		}
		if last >= 0 {
			l.wrongf(path, "put the network last", "is never asked: every request has a network, and identify[%d] takes it", last)
		}
		if first, ok := seen[kinds[0]]; ok {
			l.wrongf(path, "remove one", "the same as identify[%d]", first)
		}
		seen[kinds[0]] = i
		if s.Network != nil {
			last = i
		}
		l.checkSource(path, s)
	}
	if l.sound("clients.identify") {
		l.adviseIdentify()
	}
}

// adviseIdentify tells of identities that change while their users stay.
func (l *loader) adviseIdentify() {
	sources, keyed := l.c.Clients.Identify, l.c.KeepsKeys() && l.sound("idempotency")
	if keyed && !slices.ContainsFunc(sources, func(s Source) bool { return s.Network == nil }) {
		l.warnf("clients.identify", "name what tells users apart: {cookie: NAME}, {header: NAME}, {jwt: …}",
			"clients are known by their network alone, and their idempotency keys by all of Authorization and Cookie too: a repeat from another network, or with any cookie changed, is carried out again")
		return
	}
	only := -1 // the source of all that users are told apart by
	for i := range sources {
		switch s := &sources[i]; {
		case s.Network != nil || s.Shared:
		case only >= 0:
			return
		default:
			only = i
		}
	}
	if only < 0 {
		return
	}
	again := "slots, fairness and rate limits start again"
	if keyed {
		again += ", and what was done under an idempotency key is done again when it is repeated"
	}
	switch path, name := fmt.Sprintf("clients.identify[%d]", only), sources[only].Header; {
	case strings.EqualFold(name, "Authorization"):
		l.warnf(path, "name users by {jwt: …}, {cookie: NAME} or a key of their own", "a bearer token changes when it is refreshed, and then its user is somebody new: %s", again)
	case strings.EqualFold(name, "Cookie"):
		l.warnf(path, "{cookie: NAME}", "the header changes with any cookie, and then its user is somebody new: %s", again)
	}
}

// kinds names what the source is; exactly one is right.
func (s *Source) kinds() []string {
	var kinds []string
	if s.Header != "" {
		kinds = append(kinds, "header "+strings.ToLower(s.Header))
	}
	if s.Cookie != "" {
		kinds = append(kinds, "cookie "+s.Cookie)
	}
	if s.Basic != nil {
		kinds = append(kinds, "basic")
	}
	if s.JWT != nil {
		kinds = append(kinds, "jwt")
	}
	if s.MTLS != nil {
		kinds = append(kinds, "mtls")
	}
	if s.Network != nil {
		kinds = append(kinds, "network")
	}
	return kinds
}

func count(kinds []string) string {
	if len(kinds) == 0 {
		return "no place to look for an identity"
	}
	return strings.Join(kinds, " and ")
}

func (l *loader) checkSource(path string, s *Source) {
	if s.MTLS != nil && l.sound("listen") && !l.asksCertificates() {
		l.wrongf(path, "set tls.client_ca_file on a listener", "no listener asks for client certificates")
	}
	if s.Network != nil && !s.Shared {
		l.wrongf(path+".shared", "remove it", "a network is always shared")
	}
}

func (l *loader) asksCertificates() bool {
	return slices.ContainsFunc(l.c.Listen, func(ln Listener) bool { return ln.TLS != nil && ln.TLS.ClientCAFile != "" })
}

// checkNames refuses prefixes of which one begins another: a credential would
// have two names.
func (l *loader) checkNames() {
	if !l.sound("clients.names") {
		return
	}
	type entry struct{ name, prefix string }
	entries := make([]entry, 0, len(l.c.Clients.Names))
	for name, prefix := range l.c.Clients.Names {
		entries = append(entries, entry{name, prefix})
	}
	// Sorted by prefix, whatever begins with a prefix follows it at once.
	slices.SortFunc(entries, func(a, b entry) int {
		return strings.Compare(a.prefix+" "+a.name, b.prefix+" "+b.name)
	})
	for i := 1; i < len(entries); i++ {
		if a, b := entries[i-1], entries[i]; strings.HasPrefix(b.prefix, a.prefix) {
			l.wrongf("clients.names."+b.name, "give more digits, or remove one", "begins as that of %s does, so a credential would have two names", a.name)
		}
	}
}

func (l *loader) checkProxies() {
	if !l.sound("clients.trusted_proxies") {
		return
	}
	for i, p := range l.c.Clients.TrustedProxies {
		if p.Bits() == 0 {
			l.warnf(fmt.Sprintf("clients.trusted_proxies[%d]", i), "list the proxies that stand in front", "%v trusts everybody: any client can claim any address", p)
		}
	}
}
