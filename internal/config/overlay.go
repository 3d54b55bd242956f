package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

const envPrefix = "COMPORTA_"

// envKeys maps the names of variables to the paths that they set.
var envKeys = sync.OnceValue(func() map[string]string {
	keys := map[string]string{}
	root().walk("", func(path string, _ *schema) { keys[envName(path)] = path })
	for path := range laterKeys {
		if !strings.Contains(path, "[]") { // entries of lists are for the file
			keys[envName(path)] = path
		}
	}
	return keys
})

func envName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// serviceLink matches the variables that Kubernetes sets in every pod of a
// namespace with a Service named comporta or comporta-…; nobody wrote them for us.
var serviceLink = regexp.MustCompile(`^COMPORTA_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)?)$`)

// foreign reports whether a variable is none of the configuration's.
func foreign(name string) bool {
	return !strings.HasPrefix(name, envPrefix) ||
		strings.HasPrefix(name, envPrefix+"CHECK_") || strings.HasPrefix(name, envPrefix+"TEST_")
}

// readEnv lays the environment over v. Names are taken in their order: a section
// in short form (…_CAPACITY) comes before its keys (…_CAPACITY_MAX).
func (l *loader) readEnv(v reflect.Value) {
	names := make([]string, 0, 8)
	for name := range l.env {
		if !foreign(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		value := l.env[name]
		src := &source{kind: fromEnv, name: name, text: name + "=" + value, shift: utf8.RuneCountInString(name) + 1}
		path, known := envKeys()[name]
		switch {
		case known:
			l.overlay(src, path, value, v)
		case serviceLink.MatchString(name):
		case laterEnv(name):
			l.problem(origin{src: src}, "", notYet, "unset it")
		default:
			src.shift = 0 // the name is what is wrong
			l.problem(origin{src: src}, "", "sets no key", envMeant(name))
		}
	}
}

// laterEnv reports whether a variable belongs to a section of a later version, or
// lies within a key of one.
func laterEnv(name string) bool {
	for key := range laterKeys {
		section, _, _ := strings.Cut(key, ".")
		if root().child(section) == nil && (name == envName(section) || strings.HasPrefix(name, envName(section)+"_")) ||
			strings.HasPrefix(name, envName(key)+"_") {
			return true
		}
	}
	return false
}

func envMeant(name string) string {
	names := make([]string, 0, 64)
	for n := range envKeys() {
		names = append(names, n)
	}
	slices.Sort(names)
	if near := nearest(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	return envPrefix + "A_B sets a.b; other variables need another prefix"
}

func (l *loader) readFlags(flags []Flag, v reflect.Value) {
	for _, f := range flags {
		text := "-" + f.Name + " "
		src := &source{kind: fromFlag, name: "-" + f.Name, text: text + f.Value, shift: utf8.RuneCountInString(text)}
		l.overlay(src, f.Path, f.Value, v)
	}
}

// overlay sets one key from text.
func (l *loader) overlay(src *source, path, text string, v reflect.Value) {
	r := &reader{l, src}
	scalar := &yaml.Node{Kind: yaml.ScalarNode, Value: text, Column: 1}
	if isLater(path) {
		r.readLater(scalar, path)
		return
	}
	s, v := locate(path, v)
	if s == nil {
		r.fail(scalar, path, "there is no such key", "comporta config prints them all")
		return
	}
	l.repair(path)
	if s.rule.secret {
		src.text = src.text[:src.shift] + strings.Repeat("*", utf8.RuneCountInString(text))
	}
	n := scalar
	switch {
	case s.kind == kindList && (s.elem.kind == kindScalar || s.elem.short):
		n = splitList(text)
	case s.kind == kindTable || s.rest != nil:
		n = r.splitTable(text, path)
	case s.kind == kindScalar || s.short:
	case s.kind == kindRecord:
		r.fail(scalar, path, "is a section", "set one of its keys: "+envName(join(path, s.fields[0].key)))
		return
	default:
		r.fail(scalar, path, "cannot be set by a variable or a flag", "its entries are sections: write them in the file")
		return
	}
	r.read(s, n, path, v)
}

// repair takes back what was said of a value that is replaced now; the problem
// itself stays: the file is wrong, whoever overrides it.
func (l *loader) repair(path string) {
	for p := range l.broken {
		if under(p, path) {
			delete(l.broken, p)
		}
	}
}

func locate(path string, v reflect.Value) (*schema, reflect.Value) {
	s := root()
	for key := range strings.SplitSeq(path, ".") {
		if s = s.child(key); s == nil {
			return nil, v
		}
		v = v.FieldByIndex(s.field.Index)
	}
	return s, v
}

// parts yields what stands between commas, trimmed, with the character at which
// it begins.
func parts(text string) func(func(part string, col int) bool) {
	return func(yield func(string, int) bool) {
		col := 1
		for part := range strings.SplitSeq(text, ",") {
			trimmed := strings.TrimLeft(part, " \t")
			at := col + len(part) - len(trimmed)
			if !yield(strings.TrimRight(trimmed, " \t"), at) {
				return
			}
			col += utf8.RuneCountInString(part) + 1
		}
	}
}

func splitList(text string) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode, Column: 1}
	if strings.TrimSpace(text) == "" {
		return list
	}
	for part, col := range parts(text) {
		list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: part, Column: col})
	}
	return list
}

// splitTable reads name=value,name=value.
func (r *reader) splitTable(text, path string) *yaml.Node {
	table := &yaml.Node{Kind: yaml.MappingNode, Column: 1}
	if strings.TrimSpace(text) == "" {
		return table
	}
	for part, col := range parts(text) {
		name, value, ok := strings.Cut(part, "=")
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: name, Column: col}
		if !ok {
			r.fail(key, path, "an entry is not name=value", "name=value,name=value")
			continue
		}
		at := col + utf8.RuneCountInString(name) + 1
		table.Content = append(table.Content, key, &yaml.Node{Kind: yaml.ScalarNode, Value: value, Column: at})
	}
	return table
}
