// Package pathpattern holds paths against the path patterns of net/http.ServeMux
// without allocating. Whether a pattern is well formed is for the mux to judge:
// see Register.
package pathpattern

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/comporta/comporta/internal/target"
)

// Pattern is a path pattern, a segment for each part between slashes. Safe for
// concurrent use; the zero value meets no path.
type Pattern []Segment

// Segment is one part of a Pattern.
type Segment struct {
	Kind Kind
	text string // of a Literal
}

// Kind is what a segment is met by.
type Kind uint8

// The kinds, the most specific first.
const (
	Literal Kind = iota
	Single       // {name}: one segment that is not empty
	End          // {$}: the path ends with a slash here
	Rest         // {name...} or a trailing slash: whatever follows
)

// Register adds a pattern to a mux and turns the mux's panics (syntax, two
// patterns that overlap without one being more specific) into errors.
func Register(mux *http.ServeMux, pattern string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return nil
}

// Parse reads the path of a pattern that the mux accepted, so it begins with a
// slash. Literals may be escaped or not, as for the mux; they are kept in the
// spelling of target.Canonical. One that no canonical path can hold is an error.
func Parse(path string) (Pattern, error) {
	var p Pattern
	for part := range strings.SplitSeq(path[1:], "/") {
		s, err := parseSegment(part)
		if err != nil {
			return nil, fmt.Errorf("%q is met by no path: %w", part, err)
		}
		p = append(p, s)
	}
	return p, nil
}

func parseSegment(s string) (Segment, error) {
	switch {
	case s == "" || strings.HasPrefix(s, "{") && strings.HasSuffix(s, "...}"):
		return Segment{Kind: Rest}, nil
	case s == "{$}":
		return Segment{Kind: End}, nil
	case strings.HasPrefix(s, "{"):
		return Segment{Kind: Single}, nil
	}
	plain, err := url.PathUnescape(s)
	if err != nil {
		plain = s // the mux takes it as it stands
	}
	text, err := target.Canonical(&url.URL{Path: "/" + plain, RawPath: "/" + url.PathEscape(plain)})
	return Segment{Kind: Literal, text: strings.TrimPrefix(text, "/")}, err
}

// Matches reports whether a path in the spelling of target.Canonical meets the
// pattern.
func (p Pattern) Matches(path string) bool {
	path, more := strings.TrimPrefix(path, "/"), true
	for i := range p {
		s := &p[i]
		if s.Kind == Rest {
			return more
		}
		if !more {
			return false
		}
		var part string
		part, path, more = strings.Cut(path, "/")
		switch {
		case s.Kind == Literal && part != s.text,
			s.Kind == Single && part == "",
			s.Kind == End && (part != "" || more):
			return false
		}
	}
	return !more
}
