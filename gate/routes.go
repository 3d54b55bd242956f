package gate

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/internal/pathpattern"
)

// RouteClass says what kind of callers a route has.
type RouteClass uint8

// The classes of routes.
const (
	RouteAPI      RouteClass = iota // programs: never asked for a challenge
	RoutePage                       // browsers
	RouteInternal                   // the platform's own callers
)

// Route is how the gate treats the requests that match a pattern. What matches
// no route belongs to the route "other", with the defaults.
type Route struct {
	// Match is a pattern of net/http.ServeMux: `[METHOD ][HOST]/path/{id}`. It is
	// held against the canonical path. Required.
	Match string
	Name  string // label in metrics and logs; required; patterns of one name share their Share
	Class RouteClass
	// Weight is the permits that one request takes; 0 means 1.
	Weight int
	// Share is the fraction of the capacity that the route may hold, 0 means 1: all of it.
	Share float64
	// Sheddable requests give way to the others of their route first.
	Sheddable bool
	// Public routes answer anybody, so an answer below 400 proves nothing about a credential.
	Public bool
	// Exempt routes bypass the gate: a load balancer's health path.
	Exempt bool
	// Timeout bounds the service's answer on this route; 0 leaves it to the proxy.
	Timeout time.Duration
	// Idempotency says what becomes of idempotency keys on the route; nil leaves
	// them to the service. Patterns of one name may differ in it.
	Idempotency *idempotency.Policy
}

const (
	maxRoutes  = 1023
	otherRoute = 0 // index of what matches nothing
)

// routes finds the route of a request without allocating. Index 0 is "other",
// the rest are the configured ones in their order.
type routes struct {
	list   []Route
	sorted []pattern // most specific first
}

type pattern struct {
	route        int
	method, host string
	path         pathpattern.Pattern
}

func newRoutes(configured []Route) (*routes, error) {
	rs := &routes{list: append([]Route{{Name: "other", Weight: 1, Share: 1}}, configured...)}
	if len(configured) > maxRoutes {
		return nil, fmt.Errorf("gate: %d routes are above the limit of %d", len(configured), maxRoutes)
	}
	var problems []error
	mux, shares := http.NewServeMux(), map[string]float64{"other": 1}
	for i := range rs.list[1:] {
		r := &rs.list[i+1]
		if r.Weight == 0 {
			r.Weight = 1
		}
		if r.Share == 0 {
			r.Share = 1
		}
		// Patterns of one name are one route to the counts: a critical and a
		// sheddable part of it share what it may hold.
		if share, taken := shares[r.Name]; r.Name == "" || taken && (share != r.Share || r.Name == "other") {
			problems = append(problems, fmt.Errorf("gate: route %q: the name %q is empty, reserved, or has another share", r.Match, r.Name))
		}
		shares[r.Name] = r.Share
		if r.Weight < 0 || r.Share < 0 || r.Share > 1 {
			problems = append(problems, fmt.Errorf("gate: route %q: weight %d must be positive and share %v within 0 and 1", r.Name, r.Weight, r.Share))
		}
		p, err := parsePattern(mux, i+1, r.Match)
		if err != nil {
			problems = append(problems, fmt.Errorf("gate: route %q: pattern %q: %w", r.Name, r.Match, err))
			continue
		}
		rs.sorted = append(rs.sorted, p)
	}
	slices.SortStableFunc(rs.sorted, moreSpecific)
	return rs, errors.Join(problems...)
}

// parsePattern has the mux judge the pattern first, so that what it refuses is an
// error here in the same words.
func parsePattern(mux *http.ServeMux, route int, match string) (p pattern, err error) {
	if err := pathpattern.Register(mux, match); err != nil {
		return p, err
	}
	p.route = route
	if method, tail, ok := strings.Cut(match, " "); ok {
		p.method, match = method, strings.TrimLeft(tail, " \t")
	}
	slash := strings.IndexByte(match, '/')
	p.host = match[:slash]
	p.path, err = pathpattern.Parse(match[slash:])
	return p, err
}

// moreSpecific orders patterns so that the first match is the mux's choice.
// Patterns that it accepted together overlap only where one is more specific,
// and such a pair differs first where one names what the other leaves open.
func moreSpecific(a, b pattern) int {
	if (a.host != "") != (b.host != "") {
		return cmp.Compare(len(b.host), len(a.host))
	}
	for i := range min(len(a.path), len(b.path)) {
		if c := cmp.Compare(a.path[i].Kind, b.path[i].Kind); c != 0 {
			return c
		}
	}
	if c := cmp.Compare(len(b.path), len(a.path)); c != 0 {
		return c
	}
	return -cmp.Compare(methodRank(a.method), methodRank(b.method))
}

// methodRank: GET also matches HEAD, so HEAD alone is more specific.
func methodRank(m string) int {
	switch m {
	case "":
		return 0
	case http.MethodGet:
		return 1
	}
	return 2
}

// find returns the index of the route.
func (rs *routes) find(method, host, path string) int {
	for i := range rs.sorted {
		if p := &rs.sorted[i]; p.matches(method, host, path) {
			return p.route
		}
	}
	return otherRoute
}

func (p *pattern) matches(method, host, path string) bool {
	if p.method != "" && p.method != method && (p.method != http.MethodGet || method != http.MethodHead) {
		return false
	}
	if p.host != "" && p.host != host {
		return false
	}
	return p.path.Matches(path)
}
