package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// MaxFile is the largest configuration file, in bytes.
const MaxFile = 1 << 20

// parse reads the one document of a file. It returns nil when there is nothing
// to read, be it for a problem or because the file holds only comments.
func (l *loader) parse(src *source, data []byte) *yaml.Node {
	at := origin{src: src, line: 1, col: 1}
	if len(data) > MaxFile {
		src.lines = nil
		l.problem(origin{src: src}, "", fmt.Sprintf("the file is larger than %v", Size(MaxFile)), "a configuration is a page, not a library")
		return nil
	}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		src.lines = nil
		l.problem(at, "", "the file is UTF-16", "save it as UTF-8")
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	src.lines = strings.Split(strings.ToValidUTF8(string(data), "\uFFFD"), "\n")
	for i, line := range src.lines {
		src.lines[i] = strings.TrimSuffix(line, "\r")
	}
	if i := invalidUTF8(data); i >= 0 {
		at.line = 1 + bytes.Count(data[:i], []byte("\n"))
		at.col = 1 + utf8.RuneCount(data[bytes.LastIndexByte(data[:i], '\n')+1:i])
		l.problem(at, "", fmt.Sprintf("byte 0x%02x is not UTF-8", data[i]), "save the file as UTF-8")
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if !errors.Is(err, io.EOF) {
			l.syntax(src, err)
		}
		return nil
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		l.problem(origin{src, second.Line, second.Column}, "", "a second document begins", "one file is one document: remove the --- or the rest")
	case !errors.Is(err, io.EOF):
		l.syntax(src, err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil
	}
	return doc.Content[0]
}

func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return -1
}

// syntax tells why a file is no YAML. The parser stops at the first fault, so
// there is one such problem at most, and one for each line indented by a tab.
func (l *loader) syntax(src *source, err error) {
	tabs := 0
	for i, line := range src.lines {
		white := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if at := strings.IndexByte(white, '\t'); at >= 0 && white != line {
			tabs++
			l.problem(origin{src, i + 1, at + 1}, "", "a tab indents the line", "YAML indents with spaces")
		}
	}
	if tabs > 0 {
		return
	}
	at, message := origin{src: src, line: 1, col: 1}, strings.TrimPrefix(err.Error(), "yaml: ")
	if le, ok := errors.AsType[*yaml.LoadError](err); ok {
		message = le.Message
		if le.Mark.Line > 0 {
			at.line, at.col = le.Mark.Line, le.Mark.Column
		} else if line, col, ok := control(src.lines); ok {
			at.line, at.col = line, col
		}
		if strings.Contains(message, "end of stream") && le.ContextMark.Line > 0 {
			at.line, at.col = le.ContextMark.Line, le.ContextMark.Column
			message = "is never closed: " + message
		} else if le.ContextMark.Line > 0 && le.ContextMark.Line != le.Mark.Line {
			message += fmt.Sprintf(", %s that begins on line %d", le.ContextMsg, le.ContextMark.Line)
		}
	}
	hint := "the fault may lie in the line above"
	if at.line <= len(src.lines) {
		line := src.lines[at.line-1]
		switch {
		case strings.Contains(line, "${") && strings.ContainsAny(line, "{["):
			hint = `within { } and [ ] a variable is quoted: "${VAR}"`
		case strings.Contains(message, "mapping values"):
			hint = `a value that contains ": " is quoted`
		}
	}
	l.problem(at, "", message, hint)
}

// control finds the first control character, which the parser refuses without
// saying where.
func control(lines []string) (line, col int, ok bool) {
	for i, text := range lines {
		n := 0
		for _, r := range text {
			n++
			if r < ' ' && r != '\t' && r != '\r' || r == 0x7f {
				return i + 1, n, true
			}
		}
	}
	return 0, 0, false
}
