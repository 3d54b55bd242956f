package config

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"
)

// reader reads nodes of one source into the values of a configuration.
type reader struct {
	*loader

	src *source
}

// read reads node n, which stands at path, into v.
func (r *reader) read(s *schema, n *yaml.Node, path string, v reflect.Value) {
	n, ok := r.resolve(n, path)
	if !ok {
		return
	}
	if s.optional {
		p := reflect.New(s.typ)
		setDefaults(s, p.Elem())
		v.Set(p)
		v = p.Elem()
	}
	if r.src.kind != fromNobody {
		r.origins[path] = r.at(n)
	}
	switch {
	case isNull(n) && s.kind != kindScalar:
		// A section whose keys are all commented out.
		r.required(s, nil, n, path)
	case s.kind == kindScalar:
		r.readScalar(s, n, path, v)
	case s.short && n.Kind == yaml.ScalarNode:
		r.readShort(s, n, path, v)
	case s.kind == kindList && (s.elem.short || s.rule.single) && n.Kind == yaml.ScalarNode:
		r.readList(s, &yaml.Node{Line: n.Line, Column: n.Column, Content: []*yaml.Node{n}}, path, v)
	case s.kind == kindList && n.Kind == yaml.SequenceNode:
		r.readList(s, n, path, v)
	case s.kind == kindTable && n.Kind == yaml.MappingNode:
		r.readTable(s, pairs(n), path, v)
	case s.kind == kindRecord && n.Kind == yaml.MappingNode:
		r.readRecord(s, n, path, v)
	default:
		r.wrongKind(s, n, path)
	}
}

func (r *reader) wrongKind(s *schema, n *yaml.Node, path string) {
	hint := ""
	switch {
	case s.kind == kindList && n.Kind == yaml.ScalarNode && s.elem.kind == kindScalar && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0:
		hint = "in brackets: [" + mask(n.Value) + "]"
	case s.kind == kindList && s.elem.kind == kindRecord:
		hint = "each entry is a line that begins with a dash: - " + s.elem.fields[0].key + ": …"
	case s.kind == kindRecord && len(s.fields) > 0:
		hint = "such as {" + s.fields[0].key + ": …}"
	case s.kind == kindScalar:
		hint = s.rule.advice(s.scalar)
	}
	r.fail(n, path, fmt.Sprintf("wants %s, not %s", s.name(), nodeName(n)), hint)
}

func nodeName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a section"
	default:
		return "a single value"
	}
}

func (r *reader) readScalar(s *schema, n *yaml.Node, path string, v reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		r.wrongKind(s, n, path)
		return
	}
	if isNull(n) {
		hint := "give it one"
		if s.rule.hasDefault {
			hint = "give it one, or remove the key to get the default, " + show(s.rule.fallback)
		}
		r.fail(n, path, "has no value", hint)
		return
	}
	text, ok := r.text(n, path)
	if !ok {
		return
	}
	value, f := s.scalar.parse(text, &s.rule)
	if f != nil {
		hint := f.hint
		if hint == "" {
			hint = s.rule.advice(s.scalar)
		}
		r.fail(n, path, f.message, hint)
		if s.rule.secret {
			r.problems[len(r.problems)-1].hide()
		}
		return
	}
	v.Set(reflect.ValueOf(value))
}

// advice is the hint of a value of which nothing better is known.
func (r *rule) advice(t *scalarType) string {
	switch {
	case r.hint != "":
		return r.hint
	case len(r.oneOf) > 0:
		return "one of " + strings.Join(r.oneOf, ", ")
	case t.hint != "":
		return t.hint
	case r.bounded && r.zero != "":
		return r.zero + ", or a number from " + r.span()
	case r.bounded:
		return "a number from " + r.span()
	}
	return ""
}

func (r *reader) readShort(s *schema, n *yaml.Node, path string, v reflect.Value) {
	text, ok := r.text(n, path)
	if !ok {
		return
	}
	v.SetZero()
	setDefaults(s, v)
	r.origins.forgetUnder(path)
	record := shorthandOf(v)
	if f := record.readShort(text); f != nil {
		r.fail(n, path, f.message, f.hint)
	}
	if key := record.shortKey(); key != "" && r.src.kind != fromNobody {
		r.origins[join(path, key)] = r.at(n)
	}
}

func (r *reader) readList(s *schema, n *yaml.Node, path string, v reflect.Value) {
	r.origins.forgetUnder(path)
	v.Set(reflect.MakeSlice(v.Type(), 0, len(n.Content)))
	for i, item := range n.Content {
		if r.budget <= 0 {
			return
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		if s.elem.kind == kindRecord {
			setDefaults(s.elem, elem)
		}
		r.read(s.elem, item, fmt.Sprintf("%s[%d]", path, i), elem)
		v.Set(reflect.Append(v, elem))
	}
}

func (r *reader) readRecord(s *schema, n *yaml.Node, path string, v reflect.Value) {
	var rest []*yaml.Node
	given := map[string]bool{}
	for key, value := range pairs(n) {
		if r.budget <= 0 {
			return
		}
		if !r.keyFits(key, path, given) {
			continue
		}
		p := join(path, key.Value)
		child := s.child(key.Value)
		switch {
		case child != nil:
			r.read(child, value, p, v.FieldByIndex(child.field.Index))
		case isLater(p):
			r.readLater(value, p)
		case s.rest != nil:
			rest = append(rest, key, value)
		default:
			r.fail(key, p, "unknown key", meant(s, path, key.Value))
		}
	}
	if s.rest != nil {
		r.readTable(s.rest, pairs(&yaml.Node{Content: rest}), path, v.FieldByIndex(s.rest.field.Index))
	}
	r.required(s, given, n, path)
}

// keyFits refuses keys that are no single words, and those said twice.
func (r *reader) keyFits(key *yaml.Node, path string, given map[string]bool) bool {
	switch {
	case !r.spend(key, path):
		return false
	case key.Kind != yaml.ScalarNode || key.Tag == "!!null":
		r.fail(key, path, "a key is a single word", "remove it")
	case key.Tag == "!!merge":
		r.fail(key, join(path, "<<"), "merge keys are not read", "repeat the keys: YAML 1.2 has no merge keys, and tools disagree on them")
	case given[key.Value]:
		r.fail(key, join(path, key.Value), "said twice", "the later would win in silence: keep one")
	default:
		given[key.Value] = true
		return true
	}
	return false
}

// required reports the keys without a default that a record in a list needs.
func (r *reader) required(s *schema, given map[string]bool, n *yaml.Node, path string) {
	if s.kind != kindRecord {
		return
	}
	for _, f := range s.fields {
		if f.kind == kindScalar && !f.rule.hasDefault && !given[f.key] {
			r.fail(n, join(path, f.key), "is missing", "add "+f.key+": …")
		}
	}
}

func (r *reader) readTable(s *schema, each func(func(k, v *yaml.Node) bool), path string, v reflect.Value) {
	given := map[string]bool{}
	v.Set(reflect.MakeMap(v.Type()))
	for key, value := range each {
		if !r.keyFits(key, path, given) {
			continue
		}
		p := join(path, key.Value)
		if s.rule.checkKey != nil {
			if f := s.rule.checkKey(key.Value); f != nil {
				r.fail(key, p, f.message, f.hint)
				continue
			}
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		r.read(s.elem, value, p, elem)
		v.SetMapIndex(reflect.ValueOf(key.Value), elem)
	}
}

// text returns the text of a scalar, variables expanded.
func (r *reader) text(n *yaml.Node, path string) (string, bool) {
	switch n.Tag {
	case "", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp":
	default:
		r.fail(n, path, "the tag "+show(n.Tag)+" is not read here", "remove it")
		return "", false
	}
	if r.src.kind != fromFile {
		return n.Value, true
	}
	text, f := expand(n.Value, r.env)
	if f != nil {
		r.fail(n, path, f.message, f.hint)
		return "", false
	}
	return text, true
}

// resolve follows an alias, and counts: a file of aliases to aliases is small
// and means a lot.
func (r *reader) resolve(n *yaml.Node, path string) (*yaml.Node, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n, r.spend(n, path) && n != nil
}

// spend counts a key or a value, and reports whether there may be more.
func (r *reader) spend(n *yaml.Node, path string) bool {
	r.budget--
	if r.budget == 0 {
		r.fail(n, path, "too many values", fmt.Sprintf("aliases resolved, a configuration has at most %d keys and values", maxValues))
	}
	return r.budget > 0
}

func (r *reader) at(n *yaml.Node) origin { return origin{r.src, n.Line, n.Column} }

// fail reports a problem at a node, and marks the path, so that nothing else is
// concluded from its value.
func (r *reader) fail(n *yaml.Node, path, message, hint string) {
	if len(r.broken) < maxProblems {
		r.broken[path] = true
	} else {
		r.blind = true
	}
	r.problem(r.at(n), path, message, hint)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// pairs yields the keys and values of a mapping.
func pairs(n *yaml.Node) func(func(k, v *yaml.Node) bool) {
	return func(yield func(k, v *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}
