package config

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

// laterKeys are the keys of versions to come, each with the value that means
// off, which is accepted. Every other value, and every other key of their
// sections, is an error: a file must not believe in a protection that is not there.
// The keys of an entry of a list have [] for its index.
var laterKeys = map[string]string{
	"challenge.mode":          "off",
	"telemetry.otlp_endpoint": "",
}

const notYet = "not available in this version"

var listIndex = regexp.MustCompile(`\[\d+\]`)

// laterOff returns the value that means off for a key of the table.
func laterOff(path string) (off string, ok bool) {
	off, ok = laterKeys[listIndex.ReplaceAllString(path, "[]")]
	return off, ok
}

// isLater reports whether path belongs to a later version: a key of the table,
// a section around one, or a key within such a section.
func isLater(path string) bool {
	if _, ok := laterOff(path); ok {
		return true
	}
	section, _, _ := strings.Cut(path, ".")
	section, _, _ = strings.Cut(section, "[")
	if root().child(section) != nil {
		return false
	}
	for key := range laterKeys {
		if under(key, section) {
			return true
		}
	}
	return false
}

// readLater accepts what means off.
func (r *reader) readLater(n *yaml.Node, path string) {
	n, ok := r.resolve(n, path)
	if !ok {
		return
	}
	off, leaf := laterOff(path)
	switch {
	case !leaf && n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if !r.spend(key, path) {
				return
			}
			if p := join(path, key.Value); key.Kind == yaml.ScalarNode && isLeafLater(p) {
				r.readLater(n.Content[i+1], p)
			} else {
				r.fail(key, p, notYet, "remove it")
			}
		}
		return
	case !leaf && isNull(n):
		return
	case leaf && n.Kind == yaml.ScalarNode:
		if text, ok := r.text(n, path); !ok || meansOff(text, off) {
			return
		}
	}
	hint := "remove it"
	if leaf {
		hint = "remove it; only " + show(off) + " is accepted"
	}
	r.fail(n, path, notYet, hint)
}

func isLeafLater(path string) bool {
	_, ok := laterOff(path)
	return ok
}

func meansOff(text, off string) bool {
	b, isBool := boolOf(text)
	return text == off || (off == "off" || off == "false") && isBool && !b
}
