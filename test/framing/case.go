package framing

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// What becomes of a connection.
const (
	ThenClose = "close"
	ThenKeep  = "keep"
	ThenAny   = "any"
)

// StatusNone stands for a connection that is closed without an answer.
const StatusNone = 0

// Case is one file of the corpus; the package comment says what its keys mean.
type Case struct {
	Name    string // of the file, without .txt
	ID      string
	About   string
	Source  string
	Send    []byte
	Refuse  []int
	Serve   *Message // nil: it must not be served
	Without []string
	Reply   []byte
	Answer  []int
	Then    string // empty: by the outcome
	InBody  bool   // the fault lies in the body
	Unlink  bool   // the connection to the service must be closed
}

// Message is how the service should see a request.
type Message struct {
	Line   string   // method, target and version
	Fields []string // "Name: value"
	Body   string
}

//go:embed *.txt
var files embed.FS

// Cases returns the corpus, sorted by the names of the files.
func Cases() ([]Case, error) {
	names, err := fs.Glob(files, "*.txt")
	if err != nil {
		return nil, err
	}
	cases := make([]Case, 0, len(names))
	var problems []error
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		c, err := Parse(strings.TrimSuffix(path.Base(name), ".txt"), string(text))
		if err != nil {
			problems = append(problems, err)
		}
		cases = append(cases, c)
	}
	return cases, errors.Join(problems...)
}

// Parse reads one case. The error names every problem with its line.
func Parse(name, text string) (Case, error) {
	p := parser{c: Case{Name: name}, seen: map[string]int{}}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if err := p.line(n, strings.TrimSuffix(line, "\n")); err != nil {
			p.problems = append(p.problems, fmt.Errorf("%s.txt:%d: %w", name, n, err))
		}
	}
	if err := p.finish(); err != nil {
		p.problems = append(p.problems, fmt.Errorf("%s.txt: %w", name, err))
	}
	return p.c, errors.Join(p.problems...)
}

// parser reads a case line by line.
type parser struct {
	c        Case
	seen     map[string]int // the line of each key
	bytes    *[]byte        // where lines of bytes go
	serve    []byte
	problems []error
}

func (p *parser) line(n int, line string) error {
	switch {
	case line == "" || line[0] == '#':
		return nil
	case line[0] == '>':
		if p.bytes == nil {
			return errors.New("bytes without a key before them: begin with `send:`")
		}
		text, err := literal(line)
		*p.bytes = append(*p.bytes, text...)
		return err
	}
	key, value, ok := strings.Cut(line, ":")
	if !ok {
		return fmt.Errorf("%q is neither `key: value`, nor bytes after >, nor a comment", line)
	}
	if before := p.seen[key]; before > 0 {
		return fmt.Errorf("%s stands in line %d already", key, before)
	}
	p.seen[key] = n
	return p.key(key, strings.TrimSpace(value))
}

// literal reads a line of bytes.
func literal(line string) ([]byte, error) {
	times := 1
	rest, ok := strings.CutPrefix(line, "> ")
	if !ok {
		count, after, found := strings.Cut(strings.TrimPrefix(line, ">*"), " ")
		n, err := strconv.Atoi(count)
		if !found || err != nil || n < 1 || n > 100_000 {
			return nil, fmt.Errorf("%q: write `> bytes`, or `>*N bytes` with N up to 100,000", line)
		}
		times, rest = n, after
	}
	text, err := strconv.Unquote(`"` + rest + `"`)
	if err != nil {
		return nil, fmt.Errorf("%q: a quote or an escape is not written as in a Go string", rest)
	}
	return []byte(strings.Repeat(text, times)), nil
}

func (p *parser) key(key, value string) (err error) {
	p.bytes = nil
	blocks := map[string]*[]byte{"send": &p.c.Send, "serve": &p.serve, "reply": &p.c.Reply}
	texts := map[string]*string{"case": &p.c.ID, "about": &p.c.About, "source": &p.c.Source}
	switch {
	case blocks[key] != nil:
		p.bytes = blocks[key]
		if value != "" {
			return fmt.Errorf("%s: its bytes stand in the lines below, after >", key)
		}
	case value == "":
		return fmt.Errorf("%s: a value is missing, or %[1]s is no key", key)
	case texts[key] != nil:
		*texts[key] = value
	case key == "refuse":
		p.c.Refuse, err = statuses(value)
	case key == "answer":
		p.c.Answer, err = statuses(value)
	case key == "without":
		p.c.Without = strings.Fields(value)
	case key == "then" && slices.Contains([]string{ThenClose, ThenKeep, ThenAny}, value):
		p.c.Then = value
	case key == "fault" && (value == "head" || value == "body"):
		p.c.InBody = value == "body"
	case key == "link" && value == ThenClose:
		p.c.Unlink = true
	default:
		return fmt.Errorf("%q is no key, or %q none of its values", key, value)
	}
	return err
}

func statuses(value string) ([]int, error) {
	var all []int
	for word := range strings.FieldsSeq(value) {
		if word == "none" {
			all = append(all, StatusNone)
			continue
		}
		n, err := strconv.Atoi(word)
		if err != nil || n < 200 || n > 599 {
			return nil, fmt.Errorf("%q is no final status: write a number from 200 to 599, or none", word)
		}
		all = append(all, n)
	}
	return all, nil
}

// finish checks what only the whole file shows.
func (p *parser) finish() error {
	var problems []error
	missing := func(condition bool, what string) {
		if condition {
			problems = append(problems, errors.New(what))
		}
	}
	missing(p.c.ID == "", "case is missing: the id")
	missing(p.c.About == "", "about is missing: a sentence")
	missing(len(p.c.Send) == 0, "send is missing: the bytes")
	missing(p.c.Refuse == nil && p.serve == nil, "refuse or serve is missing: what may come of it")
	missing(p.serve == nil && (p.c.Answer != nil || p.c.Reply != nil || p.c.Without != nil), "answer, reply and without speak of a request that was served: serve is missing")
	if p.serve != nil {
		head, body, ok := strings.Cut(string(p.serve), "\r\n\r\n")
		missing(!ok, `serve has no end of the head: a line \r\n`)
		lines := strings.Split(head, "\r\n")
		p.c.Serve = &Message{Line: lines[0], Fields: lines[1:], Body: body}
		if p.c.Answer == nil {
			p.c.Answer = []int{200}
		}
	}
	return errors.Join(problems...)
}

// IDs are the cases of the project's list that the corpus is for. Chunks, which the
// list does not count, stand with A3.
var IDs = []string{"A1", "A2", "A3", "A4", "A6", "A7", "A8", "A9", "A11", "A12", "A13", "A14", "A16", "G50"}
