package config

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Input is where a configuration comes from.
type Input struct {
	// File is the path of the configuration file; empty: none.
	File string
	// Env holds NAME=value, as os.Environ returns it: for the keys that are set
	// by COMPORTA_… and for ${VAR} in the file. Of two values the later counts.
	Env []string
	// Flags are laid over everything else, in their order.
	Flags []Flag
	// WithoutUpstream accepts a configuration that names no service to protect:
	// to print one, or for the middleware.
	WithoutUpstream bool
}

// Flag is a key set on the command line.
type Flag struct {
	Name  string // as the user knows it, without dashes: upstream
	Path  string // the key: upstream.urls
	Value string // as in the environment: lists by commas
}

// Bounds on what a configuration may make of the loader.
const (
	maxValues   = 50_000 // keys and values, aliases resolved
	maxProblems = 500    // told; who has more needs no longer list
)

// Load makes the effective configuration. When anything is wrong it returns no
// Config and an error of type [Problems] that holds all of it. The warnings are
// about a configuration that works, and is likely not what was meant.
func Load(in Input) (c *Config, warnings []Problem, err error) {
	var data []byte
	l := newLoader(in)
	if in.File != "" {
		data, err = readFile(in.File)
		if err != nil {
			src := &source{kind: fromFile, name: in.File}
			l.problem(origin{src: src}, "", "cannot be read: "+reason(err), "")
			l.blind = true
		}
	}
	return l.load(in, data)
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	return data, errors.Join(err, f.Close())
}

// reason strips what the problem says already.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

type loader struct {
	c        *Config
	env      map[string]string
	origins  origins
	broken   map[string]bool // paths whose value is not what was meant
	budget   int
	blind    bool // too little is known of the file to look for contradictions
	problems Problems
	warnings Problems
}

func newLoader(in Input) *loader {
	l := &loader{
		c:       new(Config),
		env:     make(map[string]string, len(in.Env)),
		origins: origins{},
		broken:  map[string]bool{},
		budget:  maxValues,
	}
	for _, kv := range in.Env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			l.env[name] = value
		}
	}
	return l
}

func (l *loader) load(in Input, data []byte) (*Config, []Problem, error) {
	v := reflect.ValueOf(l.c).Elem()
	setDefaults(root(), v)
	if data != nil {
		src := &source{kind: fromFile, name: in.File}
		n := l.parse(src, data)
		l.blind = len(l.problems) > 0
		if n != nil {
			(&reader{l, src}).read(root(), n, "", v)
		}
	}
	l.readEnv(v)
	l.readFlags(in.Flags, v)
	l.derive()
	if !l.blind {
		l.contradictions(in)
	}
	l.problems.sort()
	l.warnings.sort()
	if len(l.problems) > 0 {
		return nil, l.warnings, l.problems
	}
	l.c.origins = l.origins
	return l.c, l.warnings, nil
}

func (l *loader) problem(at origin, path, message, hint string) {
	if len(l.problems) == maxProblems {
		return
	}
	if len(l.problems) == maxProblems-1 {
		path, message, hint = "", "there are more problems than these", "begin with the first"
	}
	l.problems = append(l.problems, at.problem(path, message, hint))
}

// setDefaults writes the defaults of a record and of all records in it.
func setDefaults(s *schema, v reflect.Value) {
	if s.kind != kindRecord {
		return
	}
	if s.rest != nil {
		rest := v.FieldByIndex(s.rest.field.Index)
		rest.Set(reflect.MakeMap(rest.Type()))
	}
	for _, f := range s.fields {
		fv := v.FieldByIndex(f.field.Index)
		switch {
		case f.rule.hasDefault:
			setDefault(f, fv)
		case f.kind == kindRecord && !f.optional:
			setDefaults(f, fv)
		}
	}
}

// setDefault reads a default as a file would be read. That it can be read is a
// property of this package, which its tests check.
func setDefault(f *schema, v reflect.Value) {
	if f.kind == kindScalar {
		value, bad := f.scalar.parse(f.rule.fallback, &f.rule)
		if bad != nil {
			brokenf("default of %s: %s", f.key, bad.message)
		}
		v.Set(reflect.ValueOf(value))
		return
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(f.rule.fallback), &doc); err != nil || len(doc.Content) != 1 {
		brokenf("default of %s is not YAML", f.key)
	}
	l := newLoader(Input{})
	(&reader{l, nobody.src}).read(f, doc.Content[0], f.key, v)
	if len(l.problems) > 0 {
		brokenf("default of %s: %v", f.key, l.problems)
	}
}
