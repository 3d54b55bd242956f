package config

import (
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// fault is what is wrong with one value, before it is known where it stands.
type fault struct {
	message string
	hint    string
}

// scalarType is how values of one Go type are written in a configuration.
type scalarType struct {
	name   string // in the reference: duration, size, …
	hint   string // when neither the key nor the fault has a better one
	parse  func(text string, r *rule) (any, *fault)
	print  func(v reflect.Value) string
	schema func(r *rule) map[string]any
	// quoted values are text, and are quoted where YAML would read something else.
	quoted bool
}

// scalars are the types that a key may have.
var scalars = map[reflect.Type]*scalarType{
	reflect.TypeFor[string]():        stringType,
	reflect.TypeFor[bool]():          boolType,
	reflect.TypeFor[int]():           intType,
	reflect.TypeFor[float64]():       fractionType,
	reflect.TypeFor[time.Duration](): durationType,
	reflect.TypeFor[Size]():          sizeType,
	reflect.TypeFor[*url.URL]():      urlType,
	reflect.TypeFor[netip.Prefix]():  prefixType,
	reflect.TypeFor[RedisURL]():      redisURLType,
	reflect.TypeFor[StoreURL]():      storeURLType,
	reflect.TypeFor[TLSVersion]():    tlsVersionType,
}

var stringType = &scalarType{
	name:   "text",
	quoted: true,
	parse: func(text string, r *rule) (any, *fault) {
		if len(r.oneOf) > 0 {
			return parseWord(text, r.oneOf)
		}
		// An empty default means none, and saying so is allowed.
		if text == "" && r.hasDefault && r.fallback == "" {
			return text, nil
		}
		if r.check != nil {
			if f := r.check(text); f != nil {
				return nil, f
			}
		}
		return text, nil
	},
	print: func(v reflect.Value) string { return v.String() },
	schema: func(r *rule) map[string]any {
		if len(r.oneOf) == 0 {
			return map[string]any{"type": "string"}
		}
		words := make([]any, 0, len(r.oneOf)+1)
		for _, w := range r.oneOf {
			words = append(words, w)
			if b, ok := boolOf(w); ok {
				words = append(words, b)
			}
		}
		return map[string]any{"enum": words}
	},
}

// parseWord reads one of a few words. YAML 1.1 tools turn off into false and on
// into true, so those are read back.
func parseWord(text string, words []string) (any, *fault) {
	b, isBool := boolOf(text)
	for _, w := range words {
		if text == w {
			return w, nil
		}
		if wb, ok := boolOf(w); ok && isBool && wb == b {
			return w, nil
		}
	}
	f := &fault{message: fmt.Sprintf("%s is not one of %s", show(text), strings.Join(words, ", "))}
	if near := nearest(text, words); near != "" {
		f.hint = "did you mean " + near + "?"
	}
	return nil, f
}

var boolType = &scalarType{
	name: "true | false",
	hint: "true or false",
	parse: func(text string, _ *rule) (any, *fault) {
		b, ok := boolOf(text)
		if !ok {
			return nil, &fault{message: show(text) + " is neither true nor false"}
		}
		return b, nil
	},
	print:  func(v reflect.Value) string { return strconv.FormatBool(v.Bool()) },
	schema: func(*rule) map[string]any { return map[string]any{"enum": []any{true, false, "on", "off"}} },
}

func boolOf(text string) (value, ok bool) {
	switch strings.ToLower(text) {
	case "true", "on":
		return true, true
	case "false", "off":
		return false, true
	}
	return false, false
}

var intType = &scalarType{
	name: "number",
	parse: func(text string, r *rule) (any, *fault) {
		if r.zero != "" && text == r.zero {
			return 0, nil
		}
		n, f := parseInt(text)
		if f != nil {
			return nil, f
		}
		return n, r.within(float64(n), text)
	},
	print: func(v reflect.Value) string { return strconv.FormatInt(v.Int(), 10) },
	schema: func(r *rule) map[string]any {
		s := map[string]any{"type": "integer"}
		r.bound(s)
		if r.zero != "" {
			return map[string]any{"anyOf": []any{map[string]any{"const": r.zero}, s}}
		}
		return s
	},
}

// parseInt reads decimal digits only: 010 is eight to some tools and ten to
// others, 1_000 and 1e3 are not numbers to all of them.
func parseInt(text string) (int, *fault) {
	n, err := strconv.Atoi(text)
	digits := strings.TrimLeft(text, "+-")
	switch {
	case err != nil || digits == "":
		return 0, &fault{message: show(text) + " is not a whole number"}
	case digits[0] == '0' && digits != "0":
		return 0, &fault{show(text) + " is not a whole number", "without leading zeros: some tools read them as octal"}
	}
	return n, nil
}

var fractionType = &scalarType{
	name: "fraction",
	parse: func(text string, r *rule) (any, *fault) {
		x, err := strconv.ParseFloat(text, 64)
		if percent, ok := strings.CutSuffix(text, "%"); ok {
			if p, err := strconv.ParseFloat(percent, 64); err == nil && p >= 0 && p <= 100 {
				return nil, &fault{show(text) + " is not a fraction", "write it as " + strconv.FormatFloat(p/100, 'g', 6, 64)}
			}
		}
		if err != nil || math.IsNaN(x) || x < 0 || x > 1 {
			return nil, &fault{message: show(text) + " is not a fraction"}
		}
		return x, r.within(x, text)
	},
	print: func(v reflect.Value) string { return strconv.FormatFloat(v.Float(), 'g', -1, 64) },
	schema: func(r *rule) map[string]any {
		s := map[string]any{"type": "number"}
		r.bound(s)
		return s
	},
}

var durationType = &scalarType{
	name: "duration",
	hint: "a number with its unit: 500ms, 8s, 5m, 24h",
	parse: func(text string, r *rule) (any, *fault) {
		d, err := time.ParseDuration(text)
		if err != nil {
			f := &fault{message: show(text) + " is not a duration"}
			if _, bare := parseInt(text); bare == nil {
				f.hint = "with its unit: " + text + "s, or " + text + "ms?"
			}
			return nil, f
		}
		return d, r.within(float64(d), text)
	},
	print: func(v reflect.Value) string { return printDuration(time.Duration(v.Int())) },
	schema: func(*rule) map[string]any {
		// The only number without a unit is 0.
		return map[string]any{"type": []any{"string", "integer"}, "pattern": durationPattern, "minimum": 0, "maximum": 0}
	},
}

// printDuration drops the zero parts that Duration.String keeps: 10m, not 10m0s.
func printDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

var sizeType = &scalarType{
	name: "size",
	hint: "a whole number of bytes, or one with KiB, MiB or GiB",
	parse: func(text string, r *rule) (any, *fault) {
		s, f := parseSize(text)
		if f != nil {
			return nil, f
		}
		return s, r.within(float64(s), text)
	},
	print: func(v reflect.Value) string { return Size(v.Int()).String() },
	schema: func(*rule) map[string]any {
		return map[string]any{"type": []any{"string", "integer"}, "pattern": sizePattern}
	},
}

func parseSize(text string) (Size, *fault) {
	digits := strings.TrimRight(text, "BKMGTikbmgt ")
	unit := strings.TrimSpace(text[len(digits):])
	n, bad := parseInt(digits)
	if bad != nil {
		return 0, &fault{message: show(text) + " is not a size"}
	}
	if unit == "" {
		return Size(n), nil
	}
	for _, u := range sizeUnits {
		if u.name != unit {
			continue
		}
		if int64(n) > math.MaxInt64/int64(u.bytes) || n < 0 {
			return 0, &fault{message: show(text) + " is not a size"}
		}
		return Size(n) * u.bytes, nil
	}
	f := &fault{message: show(text) + " is not a size"}
	for _, u := range sizeUnits {
		if strings.EqualFold(unit[:1], u.name[:1]) {
			f.hint = digits + u.name + "? units are powers of 1024 and written KiB, MiB, GiB"
		}
	}
	return 0, f
}

var urlType = &scalarType{
	name: "URL",
	parse: func(text string, r *rule) (any, *fault) {
		if r.check != nil {
			if f := r.check(text); f != nil {
				return nil, f
			}
		}
		u, err := url.Parse(text)
		if err != nil {
			// The error repeats the URL, and with it its credentials.
			return nil, &fault{message: show(text) + " is not a URL"}
		}
		return u, nil
	},
	print: func(v reflect.Value) string {
		u, _ := reflect.TypeAssert[*url.URL](v)
		if u.User == nil {
			return u.String()
		}
		anonymous := *u
		anonymous.User = nil
		return strings.Replace(anonymous.String(), "://", "://"+redacted+"@", 1)
	},
	schema: func(*rule) map[string]any { return map[string]any{"type": "string"} },
}

// redacted stands in the effective configuration where a credential stood.
const redacted = "REDACTED"

var prefixType = &scalarType{
	name: "network",
	hint: "an address with the length of its prefix: 10.0.0.0/8",
	parse: func(text string, _ *rule) (any, *fault) {
		if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
			a = a.Unmap()
			return netip.PrefixFrom(a, a.BitLen()), nil
		}
		p, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			return nil, &fault{message: show(text) + " is not a network"}
		case p.Addr().Is4In6():
			return nil, &fault{show(text) + " is an IPv4 network in the clothes of IPv6", "write the IPv4 network: addresses are unwrapped before they are compared"}
		case p != p.Masked():
			return nil, &fault{show(text) + " is not a network: it has bits beyond its prefix", "did you mean " + p.Masked().String() + ", or the one address " + p.Addr().String() + "?"}
		}
		return p, nil
	},
	print:  func(v reflect.Value) string { p, _ := reflect.TypeAssert[netip.Prefix](v); return p.String() },
	schema: func(*rule) map[string]any { return map[string]any{"type": "string"} },
}

var tlsVersionType = &scalarType{
	name:   "1.2 | 1.3",
	hint:   `"1.2" or "1.3"`,
	quoted: true,
	parse: func(text string, _ *rule) (any, *fault) {
		for _, v := range []TLSVersion{0x0303, 0x0304} {
			if v.String() == text {
				return v, nil
			}
		}
		return nil, &fault{message: show(text) + " is not a version of TLS that is spoken here"}
	},
	print:  func(v reflect.Value) string { p, _ := reflect.TypeAssert[TLSVersion](v); return p.String() },
	schema: func(*rule) map[string]any { return map[string]any{"enum": []any{"1.2", "1.3", 1.2, 1.3}} },
}

const (
	durationPattern = `^([+]?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+|0)$`
	sizePattern     = `^[0-9]+ ?(B|KiB|MiB|GiB|TiB)?$`
)

// variableSchema admits ${VAR} where a number or a word is wanted.
func variableSchema() map[string]any {
	return map[string]any{"type": "string", "pattern": `\$\{`}
}
