package target

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// cases/proxy.md G 50 and 51, A 11.
func TestCase_Proxy_G50_CanonicalPath(t *testing.T) {
	tests := []struct {
		raw  string
		want string
		err  error
	}{
		{"/", "/", nil},
		{"/a/b", "/a/b", nil},
		{"/a/b/", "/a/b/", nil},
		{"/a/b?x=/../y", "/a/b", nil},
		{"*", "*", nil},
		{"/orders/a:b@c;v=1,2", "/orders/a:b@c;v=1,2", nil},
		{"/.well-known/x", "/.well-known/x", nil},
		{"/a/...", "/a/...", nil},
		{"/a/.b/c..", "/a/.b/c..", nil},

		{"//", "/", nil},
		{"//a///b//", "/a/b/", nil},
		{"/%61%2D%7e", "/a-~", nil},
		{"/%28%21%29", "/(!)", nil},
		{"/a%2fb", "/a%2Fb", nil},
		{"/a%20b%e4", "/a%20b%E4", nil},
		{"/a b|c", "/a%20b%7Cc", nil},
		{"/a%252e%252e/b", "/a%252e%252e/b", nil}, // decoded once, and only once
		{"/%3F%23%25", "/%3F%23%25", nil},

		{"/a/%2e%2e/admin", "", ErrDotSegment},
		{"/a//../admin", "", ErrDotSegment},
		{"/a/..", "", ErrDotSegment},
		{"/./a", "", ErrDotSegment},
		{"/a/.%2E/b", "", ErrDotSegment},
		{"/a/..;/admin", "", ErrDotSegment},
		{"/a/..%3Bx/admin", "", ErrDotSegment},
		{"/a/..%2fadmin", "", ErrDotSegment},
		{"/a/x%2F..", "", ErrDotSegment},
		{"/a/..%5cadmin", "", ErrDotSegment},
		{"/a/..\\admin", "", ErrDotSegment},
		{"/a%00b", "", ErrControl},
		{"/a%0d%0ab", "", ErrControl},
		{"/a%7f", "", ErrControl},
		{"/p#/admin", "", ErrFragment},
		{"/p?q#/admin", "", ErrFragment},
		{"a/b", "", ErrRelative},
		{"", "", ErrRelative},
		{"mailto:a", "", ErrRelative},
		{"http://host", "", ErrRelative},
		{"http://host/a//b", "/a/b", nil},
	}
	for _, tt := range tests {
		u, err := url.ParseRequestURI(tt.raw)
		if err != nil {
			u = &url.URL{Path: tt.raw} // what a face of our own might make of it
		}
		got, err := Canonical(u)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("Canonical(%q) = %q, %v; want %q, %v", tt.raw, got, err, tt.want, tt.err)
		}
	}
}

// A path that a middleware rewrote counts, not the bytes that once arrived.
func TestCanonicalFollowsThePath(t *testing.T) {
	u, err := url.ParseRequestURI("/api/a%2Fb")
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/a/b"
	if got, err := Canonical(u); got != "/a/b" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := rewrite("/a%2"); !errors.Is(err, ErrEscape) {
		t.Errorf("got %v", err)
	}
	if _, err := rewrite("/%zz"); !errors.Is(err, ErrEscape) {
		t.Errorf("got %v", err)
	}
}

func TestCanonicalDoesNotAllocate(t *testing.T) {
	u, err := url.ParseRequestURI("/api/v1/orders/8f14e45f?x=1;y=2")
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = Canonical(u) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// segments is the plain definition of what Canonical keeps.
func segments(raw string) ([]string, error) {
	var out []string
	for s := range strings.SplitSeq(raw, "/") {
		if s == "" {
			continue
		}
		d, err := url.PathUnescape(s)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"/", "//a//", "/a%2Fb", "/%2e%2e", "/a b", "/..;", "*", "/a%", "/é", "/p#x", "/a\\..", "/%C3%A9?;"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.ParseRequestURI(raw)
		if err != nil {
			return
		}
		got, err := Canonical(u)
		if err != nil || got == "*" {
			return
		}
		want, err := segments(u.EscapedPath())
		if err != nil {
			t.Fatalf("accepted %q: %v", raw, err)
		}
		have, err := segments(got)
		if err != nil || !slices.Equal(have, want) {
			t.Fatalf("%q: segments %q of %q, want %q (%v)", raw, have, got, want, err)
		}
		if slices.ContainsFunc(want, func(s string) bool { return s == "." || s == ".." }) {
			t.Fatalf("accepted the dot segment in %q", raw)
		}
		again, err := url.ParseRequestURI(got)
		if err != nil {
			t.Fatalf("the canonical form %q of %q is no target: %v", got, raw, err)
		}
		if twice, err := Canonical(again); err != nil || twice != got {
			t.Fatalf("%q becomes %q becomes %q (%v)", raw, got, twice, err)
		}
	})
}
