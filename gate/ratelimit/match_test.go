package ratelimit

import (
	"net/http"
	"testing"

	"github.com/comporta/comporta"
)

func TestMatch(t *testing.T) {
	routes := []string{"other", "orders"}
	r := from("192.0.2.1")
	r.Host, r.Path, r.Method, r.Route = "api.example.com", "/orders/7", "POST", 1
	r.Header = http.Header{"X-Plan": {"free-trial"}}
	for _, tc := range []struct {
		name  string
		match Match
		want  bool
	}{
		{"everything", Match{}, true},
		{"route", Match{Routes: []string{"orders"}}, true},
		{"other route", Match{Routes: []string{"other"}}, false},
		{"host", Match{Hosts: []string{"x", "api.example.com"}}, true},
		{"below", Match{Hosts: []string{"*.example.com"}}, true},
		{"not below itself", Match{Hosts: []string{"*.api.example.com"}}, false},
		{"not by the end of a name", Match{Hosts: []string{"*.ample.com"}}, false},
		{"method", Match{Methods: []string{"GET", "POST"}}, true},
		{"other method", Match{Methods: []string{"GET"}}, false},
		{"class", Match{Classes: []comporta.Class{comporta.ClassAnonymous}}, true},
		{"other class", Match{Classes: []comporta.Class{comporta.ClassProven}}, false},
		{"header", Match{Headers: map[string]string{"x-plan": "free-trial"}}, true},
		{"header begins", Match{Headers: map[string]string{"x-plan": "free*"}}, true},
		{"header present", Match{Headers: map[string]string{"x-plan": ""}}, true},
		{"header absent", Match{Headers: map[string]string{"x-plan": "", "x-other": ""}}, false},
		{"header differs", Match{Headers: map[string]string{"x-plan": "free"}}, false},
		{"path", Match{Path: "/orders/{id}"}, true},
		{"path and method differ", Match{Path: "/orders/{id}", Methods: []string{"GET"}}, false},
	} {
		m, err := tc.match.compile(routes)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		} else if got := m.matches(r); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

var paths = []struct {
	pattern, path string
	want          bool
}{
	{"/", "/", true},
	{"/", "/a/b", true},
	{"/{$}", "/", true},
	{"/{$}", "/a", false},
	{"/a", "/a", true},
	{"/a", "/a/", false},
	{"/a/", "/a/b/c", true},
	{"/a/", "/a", false},
	{"/a/{x}/c", "/a/b/c", true},
	{"/a/{x}/c", "/a//c", false},
	{"/a/{rest...}", "/a/b/c", true},
	{"/%61b", "/ab", true}, // one spelling
	{"/a%2fb", "/a%2Fb", true},
	{"/a%2fb", "/a/b", false},
	{"/ü", "/%C3%BC", true},
	{"/a/{x}/{$}", "/a/b/", true},
	{"/a/{x}/{$}", "/a/b/c", false},
}

func TestPaths(t *testing.T) {
	for _, tc := range paths {
		p, err := parsePath(tc.pattern)
		if err != nil {
			t.Errorf("%s: %v", tc.pattern, err)
		} else if got := p.Matches(tc.path); got != tc.want {
			t.Errorf("%s against %s: %v, want %v", tc.pattern, tc.path, got, tc.want)
		}
	}
	for _, bad := range []string{"a", "GET /a", "/{x", "/{x...}/b", "/{}", "/{$}/a", "/a/%2e%2e"} {
		if _, err := parsePath(bad); err == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, tc := range paths {
		f.Add(tc.pattern, tc.path)
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		p, err := parsePath(pattern)
		if err != nil {
			return
		}
		if got := p.Matches(path); pattern == "/" && !got && path != "" {
			t.Errorf("/ does not meet %q", path)
		}
	})
}
