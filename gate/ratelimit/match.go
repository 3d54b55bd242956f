package ratelimit

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/comporta/comporta"
)

// Match says which requests a rule is for: those that meet all that is set. The
// zero value meets every request.
type Match struct {
	Routes []string // names of the gate's routes, any of them
	// Hosts are names in lower case without port; "*.example.com" is every name
	// below example.com, not itself.
	Hosts   []string
	Methods []string // any of them, in upper case
	// Path is a path pattern as in net/http.ServeMux, without method and host:
	// "/orders/{id}", "/static/", "/{$}". It is held against the canonical path.
	Path string
	// Headers must all be there. The value "" is met by any value, one that ends
	// in * by any that begins so.
	Headers map[string]string
	Classes []comporta.Class // any of them
}

type matcher struct {
	Match
	routes  []int
	path    []segment
	headers []headerMatch
}

type headerMatch struct {
	name, value string
	prefix      bool
}

type segment struct {
	kind segmentKind
	text string
}

type segmentKind uint8

const (
	literal segmentKind = iota
	single              // {name}: one segment that is not empty
	last                // {$}: the path ends with a slash here
	rest                // {name...} or a trailing slash: whatever follows
)

// compile makes a Match ready; routes are the names of the routes by index.
func (m Match) compile(routes []string) (matcher, error) {
	c := matcher{Match: m}
	var problems []error
	for _, name := range m.Routes {
		i := slices.Index(routes, name)
		if i < 0 {
			problems = append(problems, fmt.Errorf("route %q is unknown: name one of %q", name, routes))
		}
		c.routes = append(c.routes, i)
	}
	for _, h := range m.Hosts {
		if name := strings.TrimPrefix(h, "*."); name == "" || strings.ContainsAny(name, "*:/ ") || name != strings.ToLower(name) {
			problems = append(problems, fmt.Errorf("host %q: write a name in lower case without port, or *.name", h))
		}
	}
	for _, s := range m.Methods {
		if s == "" || s != strings.ToUpper(s) || !validHeader(s) {
			problems = append(problems, fmt.Errorf("method %q: write it in upper case", s))
		}
	}
	for name, value := range m.Headers {
		if !validHeader(name) {
			problems = append(problems, fmt.Errorf("%q is no header name", name))
		}
		begin, prefix := strings.CutSuffix(value, "*")
		c.headers = append(c.headers, headerMatch{http.CanonicalHeaderKey(name), begin, prefix || value == ""})
	}
	var err error
	c.path, err = parsePath(m.Path)
	return c, errors.Join(append(problems, err)...)
}

// parsePath reads a pattern; "" is none and meets every path.
func parsePath(pattern string) ([]segment, error) {
	if pattern == "" {
		return nil, nil
	}
	if err := registrable(pattern); err != nil {
		return nil, err
	}
	var path []segment
	for s := range strings.SplitSeq(pattern[1:], "/") {
		switch {
		case s == "" || strings.HasSuffix(s, "...}"):
			path = append(path, segment{kind: rest})
		case s == "{$}":
			path = append(path, segment{kind: last})
		case s[0] == '{':
			path = append(path, segment{kind: single})
		default:
			path = append(path, segment{literal, s})
		}
	}
	return path, nil
}

// registrable lets the standard mux judge a pattern, so that there is one
// grammar of paths.
func registrable(pattern string) (err error) {
	if pattern[0] != '/' {
		return fmt.Errorf("path %q does not begin with a slash: hosts and methods have fields of their own", pattern)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("path %q: %v", pattern, p)
		}
	}()
	http.NewServeMux().Handle(pattern, http.NotFoundHandler())
	return nil
}

func (m *matcher) matches(r *comporta.Request) bool {
	return (m.routes == nil || slices.Contains(m.routes, r.Route)) &&
		(m.Methods == nil || slices.Contains(m.Methods, r.Method)) &&
		(m.Classes == nil || slices.Contains(m.Classes, r.Client.Class)) &&
		(m.Hosts == nil || m.matchesHost(r.Host)) &&
		(m.path == nil || matchesPath(m.path, r.Path)) &&
		m.matchesHeaders(r.Header)
}

func (m *matcher) matchesHost(host string) bool {
	for _, h := range m.Hosts {
		if h == host || h[0] == '*' && len(host) >= len(h) && strings.HasSuffix(host, h[1:]) {
			return true
		}
	}
	return false
}

func (m *matcher) matchesHeaders(h http.Header) bool {
	for i := range m.headers {
		want := &m.headers[i]
		met := slices.ContainsFunc(h[want.name], func(got string) bool {
			return got == want.value || want.prefix && strings.HasPrefix(got, want.value)
		})
		if !met {
			return false
		}
	}
	return true
}

func matchesPath(pattern []segment, path string) bool {
	path, more := strings.TrimPrefix(path, "/"), true
	for i := range pattern {
		s := &pattern[i]
		if s.kind == rest {
			return more
		}
		if !more {
			return false
		}
		var part string
		part, path, more = strings.Cut(path, "/")
		switch {
		case s.kind == literal && part != s.text,
			s.kind == single && part == "",
			s.kind == last && (part != "" || more):
			return false
		}
	}
	return !more
}
