package config

import (
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Render writes the effective configuration as YAML that Load accepts, each
// value with a comment that says where it came from. Credentials in URLs are
// replaced; other secrets are in files, and only their names are shown.
func (c *Config) Render(w io.Writer) error {
	p := printer{origins: c.origins}
	p.record(root(), reflect.ValueOf(c).Elem(), "", 0)
	return p.flush(w)
}

// printer collects lines, so that their comments can stand in one column.
type printer struct {
	origins origins
	lines   []renderedLine
	dash    bool // the next line begins an entry of a list
}

type renderedLine struct{ text, comment string }

const maxCommentColumn = 60

func (p *printer) flush(w io.Writer) error {
	column := 0
	for _, l := range p.lines {
		if n := utf8.RuneCountInString(l.text); l.comment != "" && n <= maxCommentColumn {
			column = max(column, n)
		}
	}
	var b strings.Builder
	for _, l := range p.lines {
		b.WriteString(l.text)
		if l.comment != "" {
			pad := max(column-utf8.RuneCountInString(l.text), 0)
			b.WriteString(strings.Repeat(" ", pad) + "  # " + printable(l.comment))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *printer) line(depth int, text, comment string) {
	indent := strings.Repeat("  ", depth)
	if p.dash {
		indent = indent[:len(indent)-2] + "- "
		p.dash = false
	}
	p.lines = append(p.lines, renderedLine{indent + text, comment})
}

func (p *printer) record(s *schema, v reflect.Value, path string, depth int) {
	for _, f := range s.fields {
		p.key(f, v.FieldByIndex(f.field.Index), join(path, f.key), depth)
	}
	if s.rest != nil {
		p.table(s.rest, v.FieldByIndex(s.rest.field.Index), path, depth)
	}
}

// key writes one key of a record with its value.
func (p *printer) key(s *schema, v reflect.Value, path string, depth int) {
	if s.optional {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	comment := p.origins.of(path).String()
	switch s.kind {
	case kindScalar:
		if absent(s, v) {
			return
		}
		p.line(depth, s.key+": "+plain(s, v), comment)
	case kindList:
		p.list(s, v, path, depth, comment)
	case kindTable:
		if v.Len() == 0 {
			p.line(depth, s.key+": {}", comment)
			return
		}
		p.line(depth, s.key+":", "")
		p.table(s, v, path, depth+1)
	case kindRecord:
		if s.short {
			if text, ok := shorthandOf(v).printShort(); ok {
				p.line(depth, s.key+": "+text, comment)
				return
			}
		}
		if len(s.fields) == 0 {
			p.line(depth, s.key+": {}", comment)
			return
		}
		p.line(depth, s.key+":", "")
		p.record(s, v, path, depth+1)
	}
}

// absent reports a text whose default is none and that nobody gave: in a list
// it would only be noise, and for one key of several it would be wrong.
func absent(s *schema, v reflect.Value) bool {
	return s.owner == reflect.TypeFor[Source]() && (s.key == "header" || s.key == "cookie") && v.Len() == 0
}

func (p *printer) list(s *schema, v reflect.Value, path string, depth int, comment string) {
	if s.elem.kind == kindScalar || v.Len() == 0 {
		items := make([]string, v.Len())
		for i := range items {
			items[i] = plain(s.elem, v.Index(i))
		}
		p.line(depth, s.key+": ["+strings.Join(items, ", ")+"]", comment)
		return
	}
	p.line(depth, s.key+":", "")
	for i := range v.Len() {
		p.dash = true
		p.record(s.elem, v.Index(i), fmt.Sprintf("%s[%d]", path, i), depth+2)
	}
}

func (p *printer) table(s *schema, v reflect.Value, path string, depth int) {
	entries, _ := reflect.TypeAssert[map[string]string](v)
	for _, k := range slices.Sorted(maps.Keys(entries)) {
		value := plain(s.elem, v.MapIndex(reflect.ValueOf(k)))
		p.line(depth, quote(k)+": "+value, p.origins.of(join(path, k)).String())
	}
}

// plain writes a scalar, quoted where YAML would read something else.
func plain(s *schema, v reflect.Value) string {
	text := s.scalar.print(v)
	if s.rule.zero != "" && v.IsZero() {
		text = s.rule.zero
	}
	if len(s.rule.oneOf) > 0 {
		return text
	}
	text = escape(text)
	if s.scalar.quoted && ambiguous.MatchString(text) {
		return strconv.Quote(text)
	}
	return quote(text)
}

// bare is what needs no quotes, in flow and in block, wherever it stands.
var bare = regexp.MustCompile(`^[A-Za-z0-9/][A-Za-z0-9_./+@%=~-]*(:[A-Za-z0-9_./+@%=~-]+)*$`)

// ambiguous is what is text here, and a number or a word to YAML.
var ambiguous = regexp.MustCompile(`^([-+.0-9].*|(?i:y|n|yes|no|on|off|true|false|null))$`)

// quote quotes what is not bare. The escapes of Go are all escapes of YAML.
func quote(text string) string {
	if bare.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}

// CheckFiles opens every file that the configuration names and returns
// [Problems] for those that cannot be read. Load does not: a configuration is
// often judged on another machine than the one it is for.
func (c *Config) CheckFiles() error {
	l := newLoader(Input{})
	l.origins = c.origins
	check := func(path, name string) {
		if name == "" {
			return
		}
		f, err := os.Open(name)
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			l.wrongf(path, "", "%s cannot be read: %s", show(name), reason(err))
		}
	}
	for i, ln := range c.Listen {
		if ln.TLS != nil {
			path := fmt.Sprintf("listen[%d].tls.", i)
			check(path+"cert_file", ln.TLS.CertFile)
			check(path+"key_file", ln.TLS.KeyFile)
			check(path+"client_ca_file", ln.TLS.ClientCAFile)
		}
	}
	check("admin.token_file", c.Admin.TokenFile)
	check("keys.file", c.Keys.File)
	check("redis.url_file", c.Redis.URLFile)
	check("redis.password_file", c.Redis.PasswordFile)
	check("redis.sentinel_password_file", c.Redis.SentinelPasswordFile)
	check("redis.ca_file", c.Redis.CAFile)
	check("store.url_file", c.Store.URLFile)
	check("retry_policy.file", c.RetryPolicy.File)
	if len(l.problems) == 0 {
		return nil
	}
	l.problems.sort()
	return l.problems
}
