package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

const (
	schemaFile    = "../../docs/config.schema.json"
	referenceFile = "../../docs/configuration.md"
)

// comments holds the comment of each field of the configuration, by type and
// field. The reference and the schema describe a key by the words that a reader
// of the code reads.
func comments(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		record, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		for _, f := range record.Fields.List {
			for _, name := range f.Names {
				found[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
			}
		}
		return true
	})
	return found
}

type generator struct {
	t        *testing.T
	comments map[string]string
}

func (g generator) meaning(s *schema) string {
	c := g.comments[s.owner.Name()+"."+s.field.Name]
	if c == "" {
		g.t.Errorf("%v.%s has no comment: the reference would say nothing", s.owner, s.field.Name)
	}
	return c
}

func (g generator) schema(s *schema, path string) map[string]any {
	switch s.kind {
	case kindList:
		list := map[string]any{"type": []any{"array", "null"}, "items": g.schema(s.elem, path+"[]")}
		switch {
		case s.elem.short:
			return anyOf(newShorthand(s.elem.typ).shortSchema(), list)
		case s.rule.single:
			return anyOf(g.schema(s.elem, path+"[]"), list)
		}
		return list
	case kindTable:
		return map[string]any{"type": []any{"object", "null"}, "additionalProperties": g.schema(s.elem, path)}
	case kindRecord:
		record := g.record(s, path)
		if s.short {
			return anyOf(newShorthand(s.typ).shortSchema(), record)
		}
		return record
	}
	one := s.scalar.schema(&s.rule)
	if reflect.DeepEqual(one["type"], "string") && one["pattern"] == nil {
		return one
	}
	return anyOf(one, variableSchema())
}

func anyOf(schemas ...any) map[string]any { return map[string]any{"anyOf": schemas} }

func (g generator) record(s *schema, path string) map[string]any {
	properties, required := map[string]any{}, []any{}
	for _, f := range s.fields {
		p := join(path, f.key)
		one := g.schema(f, p)
		one["description"] = g.meaning(f)
		if f.rule.hasDefault {
			var value any
			if err := yaml.Unmarshal([]byte(f.rule.fallback), &value); err != nil {
				g.t.Error(err)
			}
			if f.kind == kindScalar && f.rule.fallback == "" {
				value = ""
			}
			one["default"] = value
		} else if f.kind == kindScalar {
			required = append(required, f.key)
		}
		properties[f.key] = one
	}
	g.later(properties, path)
	record := map[string]any{"type": []any{"object", "null"}, "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		record["required"] = required
	}
	if s.rest != nil {
		record["additionalProperties"] = g.schema(s.rest.elem, path)
	}
	return record
}

// later adds the keys of later versions, closed to everything but off.
func (g generator) later(properties map[string]any, path string) {
	const why = "Not available in this version."
	for key, off := range laterKeys {
		section, last := "", key
		if i := strings.LastIndexByte(key, '.'); i >= 0 {
			section, last = key[:i], key[i+1:]
		}
		one := map[string]any{"description": why}
		switch off {
		case "off", "false":
			one["enum"] = []any{"off", false}
		case "0":
			one["const"] = 0
		default:
			one["const"] = off
		}
		switch {
		case section == path:
			properties[last] = one
		case path == "" && root().child(section) == nil:
			properties[section] = map[string]any{
				"description": why, "type": []any{"object", "null"},
				"properties": map[string]any{last: one}, "additionalProperties": false,
			}
		}
	}
}

func document(t *testing.T) map[string]any {
	t.Helper()
	g := generator{t, comments(t)}
	doc := g.schema(root(), "")
	doc["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	doc["title"] = "comporta.yaml"
	doc["description"] = "The configuration of comporta; docs/configuration.md explains it."
	// A round through JSON, so that the values are what a reader of the file sees.
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	var plain map[string]any
	if err := json.Unmarshal(data, &plain); err != nil {
		t.Fatal(err)
	}
	return plain
}

// The schema that editors use is made from the table that the loader uses.
func TestSchemaFile(t *testing.T) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(document(t)); err != nil {
		t.Fatal(err)
	}
	golden(t, schemaFile, b.String())
}

// The schema accepts what the loader accepts, and refuses the mistakes that a
// schema can know.
func TestSchemaAgreesWithTheLoader(t *testing.T) {
	doc := document(t)
	for _, name := range files(t, "testdata/good/*.yaml") {
		if why := violates(doc, yamlFile(t, name), ""); why != "" {
			t.Errorf("%s: the schema refuses it: %s", name, why)
		}
	}
	refused := 0
	for _, name := range files(t, "testdata/bad/*.yaml") {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if yaml.Unmarshal(data, &value) == nil && violates(doc, value, "") != "" {
			refused++
		}
	}
	for _, name := range []string{
		"unknown_key", "unknown_section", "fraction", "percent", "word", "bool", "size_unit", "int_range", "scalar_for_section", "list_for_scalar",
		"null_scalar", "listen_without_addr", "tls_without_key", "tls_version", "capacity_zero", "route_without_match", "idempotency_values", "upstream_health",
		"rate_without_name", "rate_class", "upstream_breaker", "identify_network_bits", "streams", "duration_without_unit",
	} {
		if violates(doc, yamlFile(t, "testdata/bad/"+name+".yaml"), "") == "" {
			t.Errorf("%s: the schema accepts it", name)
		}
	}
	t.Logf("the schema alone refuses %d of the mistakes", refused)
}

func yamlFile(t *testing.T, name string) any {
	t.Helper()
	data, err := os.ReadFile(filepath.Clean(name))
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := yaml.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	// Through JSON: numbers become float64, as in the schema.
	plain, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	value = nil
	if err := json.Unmarshal(plain, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// violates checks a value against the few words of JSON Schema that ours uses,
// and fails on every other word.
func violates(s map[string]any, value any, path string) string {
	for word, arg := range s {
		if why := violation(s, word, arg, value, path); why != "" {
			return why
		}
	}
	return ""
}

func violation(s map[string]any, word string, arg, value any, path string) string {
	bad := false
	switch word {
	case "$schema", "title", "description", "default", "properties":
	case "const":
		bad = !reflect.DeepEqual(arg, value)
	case "enum":
		bad = !slices.ContainsFunc(arg.([]any), func(v any) bool { return reflect.DeepEqual(v, value) })
	case "type":
		types, ok := arg.([]any)
		if !ok {
			types = []any{arg}
		}
		bad = !slices.ContainsFunc(types, func(typ any) bool { return isType(typ, value) })
	case "pattern":
		text, ok := value.(string)
		bad = ok && !regexp.MustCompile(arg.(string)).MatchString(text)
	case "minimum", "maximum":
		x, ok := value.(float64)
		bad = ok && (word == "minimum" && x < arg.(float64) || word == "maximum" && x > arg.(float64))
	case "minLength":
		text, ok := value.(string)
		bad = ok && float64(len(text)) < arg.(float64)
	case "maxItems":
		list, _ := value.([]any)
		bad = float64(len(list)) > arg.(float64)
	case "maxProperties":
		m, _ := value.(map[string]any)
		bad = float64(len(m)) > arg.(float64)
	case "items":
		list, _ := value.([]any)
		for i, v := range list {
			if why := violates(arg.(map[string]any), v, fmt.Sprintf("%s[%d]", path, i)); why != "" {
				return why
			}
		}
	case "required":
		m, isObject := value.(map[string]any)
		for _, key := range arg.([]any) {
			_, has := m[key.(string)]
			bad = bad || isObject && !has
		}
	case "additionalProperties":
		return violatesProperties(s, arg, value, path)
	case "anyOf":
		bad = !slices.ContainsFunc(arg.([]any), func(one any) bool { return violates(one.(map[string]any), value, path) == "" })
	default:
		return "the schema says " + word + ", which this check does not know"
	}
	if bad {
		return fmt.Sprintf("%s: %v is against %s", path, value, word)
	}
	return ""
}

func violatesProperties(s map[string]any, rest, value any, path string) string {
	m, _ := value.(map[string]any)
	known, _ := s["properties"].(map[string]any)
	for key, v := range m {
		one, ok := known[key].(map[string]any)
		if !ok {
			if one, ok = rest.(map[string]any); !ok {
				return join(path, key) + ": unknown key"
			}
		}
		if why := violates(one, v, join(path, key)); why != "" {
			return why
		}
	}
	return ""
}

func isType(typ, value any) bool {
	switch v := value.(type) {
	case nil:
		return typ == "null"
	case string:
		return typ == "string"
	case bool:
		return typ == "boolean"
	case float64:
		return typ == "number" || typ == "integer" && v == float64(int64(v))
	case []any:
		return typ == "array"
	case map[string]any:
		return typ == "object"
	}
	return false
}

// The reference between its markers is made from the table.
func TestReference(t *testing.T) {
	data, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- keys: begin, written by go test ./internal/config -update -->\n", "<!-- keys: end -->\n"
	head, rest, ok := strings.Cut(string(data), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks its markers", referenceFile)
	}
	g := generator{t, comments(t)}
	var b strings.Builder
	for _, f := range root().fields {
		fmt.Fprintf(&b, "### %s\n\n", f.key)
		if f.kind == kindRecord {
			b.WriteString(g.meaning(f) + "\n\n")
		}
		b.WriteString("| key | form | default | range | meaning |\n|---|---|---|---|---|\n")
		g.rows(&b, f, f.key)
		b.WriteString("\n")
	}
	b.WriteString("### Keys of later versions\n\nOnly the value that means off is accepted.\n\n| key | accepted |\n|---|---|\n")
	for _, key := range slices.Sorted(maps.Keys(laterKeys)) {
		fmt.Fprintf(&b, "| `%s` | `%s` |\n", key, cmpOr(laterKeys[key], `""`))
	}
	golden(t, referenceFile, head+begin+b.String()+end+tail)
}

func cmpOr(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// rows writes the keys under s, and s itself where a value may stand for it.
func (g generator) rows(b *strings.Builder, s *schema, path string) {
	if s.kind != kindRecord || s.short || s.optional {
		g.row(b, s, path)
	}
	switch {
	case s.kind == kindRecord:
		for _, f := range s.fields {
			g.rows(b, f, path+"."+f.key)
		}
		if s.rest != nil {
			g.row(b, s.rest, path+".*")
		}
	case s.kind == kindList && s.elem.kind == kindRecord:
		for _, f := range s.elem.fields {
			g.rows(b, f, path+"[]."+f.key)
		}
	}
}

func (g generator) row(b *strings.Builder, s *schema, path string) {
	fallback, span := "", ""
	switch {
	case s.rule.hasDefault:
		fallback = "`" + cmpOr(s.rule.fallback, `""`) + "`"
	case s.kind == kindScalar:
		fallback = "required"
	}
	if s.rule.bounded {
		span = s.rule.span()
	}
	cell := strings.NewReplacer("|", `\|`).Replace
	fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", path, cell(s.form()), cell(fallback), span, cell(g.meaning(s)))
}
