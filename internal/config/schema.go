package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

type kind uint8

const (
	kindScalar kind = iota
	kindRecord      // a mapping with known keys
	kindList
	kindTable // a mapping whose keys are the user's
)

// schema is the compiled table of the configuration: one node for each key.
type schema struct {
	kind     kind
	key      string // within its record
	typ      reflect.Type
	owner    reflect.Type // the struct that has the field, for its comment
	field    reflect.StructField
	scalar   *scalarType
	rule     rule
	fields   []*schema // of a record, in the order of the struct
	rest     *schema   // of a record: the table that takes all other keys
	elem     *schema   // of a list or a table
	optional bool      // a pointer: absent unless written
	short    bool      // may be written as a scalar
}

// rule is what the tags of a field say.
type rule struct {
	hasDefault bool
	fallback   string // the default, as written
	oneOf      []string
	zero       string
	bounded    bool
	low, high  float64
	lowText    string
	highText   string
	hint       string
	single     bool // of a list: a single entry may stand without brackets
	secret     bool // never shown: who misreads the key puts a credential there
	check      func(string) *fault
	checkKey   func(string) *fault
}

// root is the whole table.
var root = sync.OnceValue(func() *schema {
	return compile(reflect.TypeFor[Config](), rule{})
})

// brokenf ends the program for a tag that makes no sense. Tags are constants: the
// first test that runs finds it, and no input can.
func brokenf(format string, args ...any) {
	panic("config: " + fmt.Sprintf(format, args...)) //nolint:forbidigo // a broken invariant of our own
}

func compile(t reflect.Type, r rule) *schema {
	s := &schema{typ: t, rule: r, short: reflect.PointerTo(t).Implements(reflect.TypeFor[shorthand]())}
	if st := scalars[t]; st != nil {
		s.scalar = st
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		s = compile(t.Elem(), r)
		s.optional = true
	case reflect.Slice:
		s.kind, s.elem = kindList, compile(t.Elem(), r)
	case reflect.Map:
		s.kind, s.elem = kindTable, compile(t.Elem(), r)
	case reflect.Struct:
		s.kind = kindRecord
		compileFields(s)
	default:
		brokenf("no key can be a %v", t)
	}
	return s
}

func compileFields(s *schema) {
	for f := range s.typ.Fields() {
		key, rest := strings.CutSuffix(f.Tag.Get("key"), ",rest")
		if key == "-" || !f.IsExported() {
			continue
		}
		c := compile(f.Type, ruleOf(f))
		c.key, c.owner, c.field = key, s.typ, f
		if rest {
			s.rest = c
		} else {
			s.fields = append(s.fields, c)
		}
	}
}

func ruleOf(f reflect.StructField) rule {
	r := rule{hint: f.Tag.Get("hint"), zero: f.Tag.Get("zero"), single: f.Tag.Get("single") == "true"}
	r.fallback, r.hasDefault = f.Tag.Lookup("default")
	if words := f.Tag.Get("oneof"); words != "" {
		r.oneOf = strings.Fields(words)
	}
	if name := f.Tag.Get("check"); name != "" {
		r.check, r.secret = named(name), slices.Contains(secretChecks, name)
	}
	if name := f.Tag.Get("keys"); name != "" {
		r.checkKey = named(name)
	}
	if span := f.Tag.Get("range"); span != "" {
		r.lowText, r.highText, _ = strings.Cut(span, "..")
		r.low, r.high = bound(f.Type, r.lowText), bound(f.Type, r.highText)
		r.bounded = true
	}
	return r
}

// secretChecks are those of values that are secrets, or may be one by mistake.
var secretChecks = []string{"cookie", "redis", "sha256", "storeurl"}

func named(name string) func(string) *fault {
	c := checks[name]
	if c == nil {
		brokenf("no check is named %s", name)
	}
	return c
}

func bound(t reflect.Type, text string) float64 {
	v, f := scalars[t].parse(text, &rule{})
	if f != nil {
		brokenf("range: %s", f.message)
	}
	return reflect.ValueOf(v).Convert(reflect.TypeFor[float64]()).Float()
}

// within reports a value outside of the range.
func (r *rule) within(x float64, text string) *fault {
	if !r.bounded || x >= r.low && x <= r.high {
		return nil
	}
	f := &fault{fmt.Sprintf("%s is outside %s", show(text), r.span()), r.hint}
	if f.hint == "" && r.hasDefault {
		f.hint = "the default is " + r.fallback
	}
	return f
}

func (r *rule) span() string { return r.lowText + " to " + r.highText }

// bound writes the range into a JSON schema.
func (r *rule) bound(s map[string]any) {
	if r.bounded {
		s["minimum"], s["maximum"] = r.low, r.high
	}
}

// child returns the schema of a key of a record, or nil.
func (s *schema) child(key string) *schema {
	for _, f := range s.fields {
		if f.key == key {
			return f
		}
	}
	return nil
}

// name says in words what the node wants.
func (s *schema) name() string {
	switch s.kind {
	case kindList:
		return "a list"
	case kindRecord, kindTable:
		return "a section of its own keys"
	case kindScalar:
	}
	return "a single value"
}

// form names the type for the reference.
func (s *schema) form() string {
	switch s.kind {
	case kindList:
		if s.rule.single {
			return s.elem.form() + " | list"
		}
		return "list of " + s.elem.form()
	case kindTable:
		return "table of " + s.elem.form()
	case kindRecord:
		if s.short {
			return newShorthand(s.typ).shortForm() + " | section"
		}
		return "section"
	case kindScalar:
	}
	if len(s.rule.oneOf) > 0 {
		return strings.Join(s.rule.oneOf, " | ")
	}
	if s.rule.zero != "" {
		return s.rule.zero + " | " + s.scalar.name
	}
	return s.scalar.name
}

// join adds a key to a path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// walk visits every key that has a path of its own, lists and tables closed:
// what the environment and the reference can name.
func (s *schema) walk(path string, visit func(path string, s *schema)) {
	for _, f := range s.fields {
		p := join(path, f.key)
		visit(p, f)
		if f.kind == kindRecord && !f.optional {
			f.walk(p, visit)
		}
	}
}
