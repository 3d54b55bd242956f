package config

import (
	"regexp"
	"strings"
)

// maxExpanded bounds a scalar after expansion: a variable may be long, and may
// be named many times.
const maxExpanded = 64 << 10

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${VAR} and ${VAR:-x} in the text of one scalar; the fallback x
// also stands in for an empty variable, as in a shell. $${ is a plain ${. It
// works on scalars that are already parsed: a value can never change the
// structure, whatever it contains.
func expand(text string, env map[string]string) (string, *fault) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	var b strings.Builder
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			break
		}
		if i > 0 && text[i-1] == '$' {
			b.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		inner, rest, closed := strings.Cut(text[i+2:], "}")
		name, fallback, hasFallback := strings.Cut(inner, ":-")
		if !closed || !variableName.MatchString(name) {
			return "", &fault{show(text[i:]) + " is not a variable", "${VAR} or ${VAR:-fallback}; $${ stands for a plain ${"}
		}
		value, set := env[name]
		switch {
		case value == "" && hasFallback:
			value = fallback
		case !set:
			return "", &fault{"the variable " + name + " is not set", "set it, or write ${" + name + ":-fallback}"}
		}
		b.WriteString(text[:i] + value)
		if text = rest; b.Len() > maxExpanded {
			return "", &fault{"the value is longer than " + Size(maxExpanded).String() + " with its variables", "use a file"}
		}
	}
	b.WriteString(text)
	return b.String(), nil
}

// escape writes text so that expand gives it back.
func escape(text string) string { return strings.ReplaceAll(text, "${", "$${") }
