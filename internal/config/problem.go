package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Problem is one thing that is wrong, or worth a warning, with the place where
// it stands and what would put it right.
type Problem struct {
	// Source is the file's name, the environment variable, or the flag with its
	// dash; empty when the problem lies in what nobody said.
	Source string `json:"source,omitempty"`
	// Line and Column count from 1, in characters; 0 outside of files.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Path is the key, dotted: routes[2].share. Empty when no key is to blame.
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Text is the line that the problem points into, credentials masked, or the
	// part of it around Caret, the character in question, from 1. Empty and 0
	// when there is no line.
	Text  string `json:"text,omitempty"`
	Caret int    `json:"caret,omitempty"`

	rank sourceKind // files before variables before flags
}

// String writes the problem as the command line shows it: the place, the
// message, the line, and a caret with the hint.
func (p Problem) String() string {
	var b strings.Builder
	if p.Source != "" {
		b.WriteString(p.Source + ":")
		if p.Line > 0 {
			fmt.Fprintf(&b, "%d:%d:", p.Line, p.Column)
		}
		b.WriteByte(' ')
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Caret > 0 {
		number := ""
		if p.Line > 0 {
			number = fmt.Sprint(p.Line)
		}
		fmt.Fprintf(&b, "\n%5s | %s\n      | %s^", number, p.Text, p.pad())
		if p.Hint != "" {
			b.WriteString(" " + p.Hint)
		}
	} else if p.Hint != "" {
		b.WriteString("\n        " + p.Hint)
	}
	return b.String()
}

// Problems is every problem of a configuration, in the order of the file, then
// of the variables, then of the flags.
type Problems []Problem //nolint:errname // they are what a configuration has, and a report to people

// Error writes all of them, a line break between two.
func (ps Problems) Error() string {
	var b strings.Builder
	for i, p := range ps {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
	}
	return b.String()
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.rank, b.rank),
			strings.Compare(a.Source, b.Source),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			strings.Compare(a.Path, b.Path),
		)
	})
}

const (
	maxExcerpt = 120 // characters of a line that are shown
	maxShown   = 60  // characters of a value that a message repeats
)

// pad is what must stand before the caret: tabs stay tabs, so that both lines
// are equally wide.
func (p *Problem) pad() string {
	pad := make([]rune, max(p.Caret-1, 0))
	text := []rune(p.Text)
	for i := range pad {
		pad[i] = ' '
		if i < len(text) && text[i] == '\t' {
			pad[i] = '\t'
		}
	}
	return string(pad)
}

// excerpt cuts a long line to what surrounds the caret, and moves the caret.
func excerpt(line []rune, caret int) (string, int) {
	caret = min(caret, len(line)+1)
	if len(line) <= maxExcerpt {
		return string(line), caret
	}
	from := max(0, min(caret-maxExcerpt/2, len(line)-maxExcerpt))
	return string(line[from : from+maxExcerpt]), caret - from
}

// userinfo finds what stands between :// and the last @ of a URL. It would
// rather mask too much: passwords contain anything.
var userinfo = regexp.MustCompile(`://[^\s"',\]}]*@`)

// mask hides credentials in URLs, character by character, so that carets keep
// their place.
func mask(text string) string {
	return userinfo.ReplaceAllStringFunc(text, func(m string) string {
		return "://" + strings.Repeat("*", utf8.RuneCountInString(m)-4) + "@"
	})
}

// hide masks the line from the caret on.
func (p *Problem) hide() {
	runes := []rune(p.Text)
	for i := max(p.Caret-1, 0); i < len(runes); i++ {
		runes[i] = '*'
	}
	p.Text = string(runes)
}

// printable replaces what could drive a terminal, one character for one.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// show makes a value fit for a message: masked, cut, and quoted unless plain.
func show(value string) string {
	value = mask(value)
	if utf8.RuneCountInString(value) > maxShown {
		value = string([]rune(value)[:maxShown]) + "…"
	}
	plain := value != "" && !strings.ContainsFunc(value, func(r rune) bool {
		return r == ' ' || r == '"' || !unicode.IsPrint(r)
	})
	if plain {
		return value
	}
	return fmt.Sprintf("%q", value)
}
