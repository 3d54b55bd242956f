package main

import (
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/config"
)

// keysAnew tells the routes of old, by their labels, whose idempotency keys have
// other names under c, and what was changed to that effect. A key is named by its
// client and by the pattern of its route, see idempotency.Scope. A route that only
// stops keeping keys is told by keysDropped.
func keysAnew(old, c *config.Config) (routes, changed []string) {
	before, after := keyRoutesOf(old), keyRoutesOf(c)
	moved := map[*keyRoute]bool{}
	for _, r := range slices.Concat(before.list[1:], after.list[1:]) {
		sample := r.sample()
		was, is := before.of(sample), after.of(sample)
		if was.kept && was.match != is.match && !(&comporta.Request{Method: sample.Method}).Safe() {
			moved[was] = true
		}
	}
	if len(moved) > 0 {
		changed = append(changed, "routes")
	}
	others := !reflect.DeepEqual(namingSources(old), namingSources(c))
	for _, r := range before.list {
		stays := func(is *keyRoute) bool { return r.kept && is.kept && is.match == r.match }
		switch {
		case others && slices.ContainsFunc(after.list, stays):
			if !slices.Contains(changed, "clients.identify") {
				changed = append(changed, "clients.identify")
			}
			fallthrough
		case moved[r]:
			routes = append(routes, r.label)
		}
	}
	return routes, changed
}

// keysDropped tells the routes of old, by their labels, that stay under c, and keep
// keys no more.
func keysDropped(old, c *config.Config) (routes []string) {
	after := keyRoutesOf(c)
	for _, r := range keyRoutesOf(old).list {
		stays := func(is *keyRoute) bool { return !is.kept && is.match == r.match }
		if r.kept && slices.ContainsFunc(after.list, stays) && !comporta.SafeMethod(r.sample().Method) {
			routes = append(routes, r.label)
		}
	}
	return routes
}

// namingSources are the sources of identity, without what names no client: where
// an issuer's keys are fetched, and the network as it is when none is listed.
func namingSources(c *config.Config) []config.Source {
	var list []config.Source
	for _, s := range c.Clients.Identify {
		if s.JWT != nil {
			jwt := *s.JWT
			jwt.JWKSURL = nil
			s.JWT = &jwt
		}
		if s.Network == nil || *s.Network != (config.Network{IPv4: 32, IPv6: 64}) {
			list = append(list, s)
		}
	}
	return list
}

// keyRoute is a route as far as its keys go. It is a handler for the mux to find.
type keyRoute struct {
	match, label string
	kept         bool
}

// ServeHTTP is never called.
func (*keyRoute) ServeHTTP(http.ResponseWriter, *http.Request) {}

// keyRoutes are the routes of a configuration; the first is what matches none.
type keyRoutes struct {
	list []*keyRoute
	mux  *http.ServeMux
}

func keyRoutesOf(c *config.Config) keyRoutes {
	k := keyRoutes{list: []*keyRoute{{label: "other", kept: c.KeyPolicy("other") != nil}}, mux: http.NewServeMux()}
	for i := range c.Routes {
		label := c.Routes[i].Label()
		r := &keyRoute{match: c.Routes[i].Match, label: label, kept: c.KeyPolicy(label) != nil}
		k.mux.Handle(r.match, r) // which Load has tried
		k.list = append(k.list, r)
	}
	return k
}

// of returns the route of a request.
func (k *keyRoutes) of(req *http.Request) *keyRoute {
	h, _ := k.mux.Handler(req)
	if r, ok := h.(*keyRoute); ok {
		return r
	}
	return k.list[0] // also where the mux would redirect, which the gate does not
}

// sample is a request that the route's pattern matches.
func (r *keyRoute) sample() *http.Request {
	method, rest, found := strings.Cut(r.match, " ")
	if !found {
		method, rest = http.MethodPost, r.match
	}
	host, path, _ := strings.Cut(strings.TrimLeft(rest, " \t"), "/")
	segments := strings.Split(path, "/")
	for i, s := range segments {
		switch {
		case s == "{$}":
			segments[i] = ""
		case strings.HasPrefix(s, "{"):
			segments[i] = "*" // no name of a route's own
		}
	}
	path = "/" + strings.Join(segments, "/")
	u, err := url.ParseRequestURI(path)
	if err != nil {
		u = &url.URL{Path: path} // no escapes, then, to the mux either
	}
	return &http.Request{Method: method, Host: host, URL: u}
}
