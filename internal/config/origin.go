package config

import (
	"strconv"
	"strings"
)

// sourceKind says who speaks, in the order in which problems are told.
type sourceKind uint8

const (
	fromFile sourceKind = iota
	fromEnv
	fromFlag
	fromNobody // a default
)

// source is a file, a variable, a flag, or the table of defaults.
type source struct {
	kind  sourceKind
	name  string
	lines []string // of a file
	text  string   // NAME=value of a variable or a flag
	shift int      // characters of text before the value

	// The line last shown, made fit to show: many problems may stand in a long one.
	shownLine int
	shown     []rune
}

// show returns line n of a file, or the text of a variable or a flag when n is 0.
func (s *source) show(n int) []rune {
	if s.shown == nil || s.shownLine != n {
		text := s.text
		if n > 0 {
			text = s.lines[n-1]
		}
		s.shownLine, s.shown = n, []rune(printable(mask(text)))
	}
	return s.shown
}

// origin is the place of one value.
type origin struct {
	src       *source
	line, col int // from 1, in characters; within the value for variables and flags
}

var nobody = origin{src: &source{kind: fromNobody}}

// String names the origin as the effective configuration does.
func (o origin) String() string {
	switch o.src.kind {
	case fromFile:
		return o.src.name + ":" + strconv.Itoa(o.line)
	case fromEnv, fromFlag:
		return o.src.name
	case fromNobody:
	}
	return "default"
}

// problem tells of something at this place.
func (o origin) problem(path, message, hint string) Problem {
	p := Problem{Source: o.src.name, Path: path, Message: message, Hint: hint, rank: o.src.kind}
	switch o.src.kind {
	case fromFile:
		p.Line, p.Column = o.line, o.col
		if o.line >= 1 && o.line <= len(o.src.lines) {
			p.Text, p.Caret = excerpt(o.src.show(o.line), max(o.col, 1))
		}
	case fromEnv, fromFlag:
		p.Text, p.Caret = excerpt(o.src.show(0), o.src.shift+max(o.col, 1))
	case fromNobody:
	}
	return p
}

// origins are the places of all values that somebody gave, by path.
type origins map[string]origin

// of returns the place of the value of path: nobody's, if only things around it
// were given.
func (os origins) of(path string) origin {
	if o, ok := os[path]; ok {
		return o
	}
	return nobody
}

// at returns the place of a path, or of the nearest thing around it.
func (os origins) at(path string) origin {
	for {
		if o, ok := os[path]; ok {
			return o
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return nobody
		}
		path = path[:i]
	}
}

// forget drops a path and everything under it.
func (os origins) forget(path string) {
	for p := range os {
		if under(p, path) {
			delete(os, p)
		}
	}
}

// under reports whether p is path or lies within it.
func under(p, path string) bool {
	rest, ok := strings.CutPrefix(p, path)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// forgetUnder drops everything within a path, but not the path itself.
func (os origins) forgetUnder(path string) {
	o, ok := os[path]
	os.forget(path)
	if ok {
		os[path] = o
	}
}
