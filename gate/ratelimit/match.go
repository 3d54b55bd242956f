package ratelimit

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/pathpattern"
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
	path    pathpattern.Pattern
	headers []headerMatch
}

type headerMatch struct {
	name, value string
	prefix      bool
}

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

// parsePath reads a pattern; "" is none and meets every path. The standard mux
// judges it, so that there is one grammar of paths.
func parsePath(pattern string) (pathpattern.Pattern, error) {
	if pattern == "" {
		return nil, nil
	}
	if pattern[0] != '/' {
		return nil, fmt.Errorf("path %q does not begin with a slash: hosts and methods have fields of their own", pattern)
	}
	err := pathpattern.Register(http.NewServeMux(), pattern)
	if err != nil {
		return nil, fmt.Errorf("path %q: %w", pattern, err)
	}
	p, err := pathpattern.Parse(pattern)
	if err != nil {
		return nil, fmt.Errorf("path %q: %w", pattern, err)
	}
	return p, nil
}

func (m *matcher) matches(r *comporta.Request) bool {
	return (m.routes == nil || slices.Contains(m.routes, r.Route)) &&
		(m.Methods == nil || slices.Contains(m.Methods, r.Method)) &&
		(m.Classes == nil || slices.Contains(m.Classes, r.Client.Class)) &&
		(m.Hosts == nil || m.matchesHost(r.Host)) &&
		(m.path == nil || m.path.Matches(r.Path)) &&
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
