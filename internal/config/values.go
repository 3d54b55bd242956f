package config

import (
	"fmt"
	"reflect"
	"strconv"
)

// Size is a number of bytes.
type Size int64

const (
	kib Size = 1 << 10
	mib Size = 1 << 20
	gib Size = 1 << 30
	tib Size = 1 << 40
)

// sizeUnits go from the largest to the smallest, as printing wants them.
var sizeUnits = []struct {
	name  string
	bytes Size
}{{"TiB", tib}, {"GiB", gib}, {"MiB", mib}, {"KiB", kib}, {"B", 1}}

// String writes the size in the largest unit that divides it: 64KiB, 0, 100B.
func (s Size) String() string {
	if s == 0 {
		return "0"
	}
	for _, u := range sizeUnits {
		if s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// TLSVersion is a protocol version as crypto/tls numbers them.
type TLSVersion uint16

// String writes the version as configured: 1.2.
func (v TLSVersion) String() string {
	// The wire numbers SSL 3.0 as 3.0 and TLS 1.0 as 3.1.
	return fmt.Sprintf("%d.%d", v>>8-2, v&0xff-1)
}

// Auto reports whether the capacity is learned.
func (c *Capacity) Auto() bool { return c.Static == 0 }

// Ceiling is the most that the capacity can ever be.
func (c *Capacity) Ceiling() int {
	if c.Auto() {
		return c.Max
	}
	return c.Static
}

// Label names the route in metrics and levers: its name, or else its pattern.
func (r *Route) Label() string {
	if r.Name != "" {
		return r.Name
	}
	return r.Match
}

// shorthand is a record that may also be written as a single scalar.
type shorthand interface {
	readShort(text string) *fault
	// shortKey is the key that the scalar sets; empty: the record as a whole.
	shortKey() string
	// printShort returns that scalar when it says all that the record says.
	printShort() (text string, ok bool)
	// shortSchema is its form in the JSON schema, shortForm the same in words.
	shortSchema() map[string]any
	shortForm() string
}

// shorthandOf returns a value of a type that has one, as schema.short says.
func shorthandOf(v reflect.Value) shorthand {
	s, _ := reflect.TypeAssert[shorthand](v.Addr())
	return s
}

// newShorthand returns a fresh one, to ask what it looks like.
func newShorthand(t reflect.Type) shorthand { return shorthandOf(reflect.New(t).Elem()) }

var (
	_ shorthand = (*Capacity)(nil)
	_ shorthand = (*Listener)(nil)
	_ shorthand = (*KeyedRoute)(nil)
)

const maxCapacity = 1_000_000

func (c *Capacity) readShort(text string) *fault {
	if text == "auto" {
		return nil
	}
	n, f := parseInt(text)
	const hint = "auto, a number of requests at once, or {initial: 32, min: 2, max: 1000}"
	switch {
	case f != nil:
		return &fault{show(text) + " is not a capacity", hint}
	case n == 0:
		return &fault{"0 would admit nothing", hint + "; there is no unlimited capacity"}
	case n < 0 || n > maxCapacity:
		return &fault{fmt.Sprintf("%s is outside 1 to %d", show(text), maxCapacity), hint}
	}
	c.Static = n
	return nil
}

func (c *Capacity) shortKey() string { return "" }

func (c *Capacity) printShort() (string, bool) {
	return strconv.Itoa(c.Static), !c.Auto()
}

func (c *Capacity) shortSchema() map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"const": "auto"},
		map[string]any{"type": "integer", "minimum": 1, "maximum": maxCapacity},
		variableSchema(),
	}}
}

func (c *Capacity) shortForm() string { return "auto or a number" }

func (l *Listener) readShort(text string) *fault {
	if f := checkAddr(text); f != nil {
		return f
	}
	l.Addr = text
	return nil
}

func (l *Listener) shortKey() string { return "addr" }

func (l *Listener) printShort() (string, bool) { return "", false }

func (l *Listener) shortSchema() map[string]any {
	return map[string]any{"type": "string", "minLength": 1}
}

func (l *Listener) shortForm() string { return "host:port" }
