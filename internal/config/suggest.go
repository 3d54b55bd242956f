package config

import "strings"

// nearest returns the word that was most likely meant, or nothing: at most two
// slips away, and fewer than half of the word.
func nearest(word string, words []string) string {
	best, least := "", min(3, (len(word)+1)/2+1)
	if len(word) > 64 {
		return ""
	}
	word = strings.ToLower(word)
	for _, w := range words {
		if d := distance(word, strings.ToLower(w)); d < least {
			best, least = w, d
		}
	}
	return best
}

// distance counts insertions, deletions, substitutions and swaps of neighbours
// (optimal string alignment, by dynamic programming over three rows).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// meant advises on a key that record s at path does not have: a key of its own
// that is spelled nearly so, or one of the same name elsewhere.
func meant(s *schema, path, key string) string {
	if path == "" || s.child(key) == nil {
		keys := make([]string, 0, len(s.fields))
		for _, f := range s.fields {
			keys = append(keys, f.key)
		}
		if near := nearest(strings.ReplaceAll(key, "-", "_"), keys); near != "" {
			return "did you mean " + near + "?"
		}
	}
	hint := ""
	root().walk("", func(p string, f *schema) {
		if f.key == key && hint == "" {
			hint = "did you mean " + p + "?"
		}
	})
	if hint != "" {
		return hint
	}
	keys := make([]string, 0, len(s.fields))
	for _, f := range s.fields {
		keys = append(keys, f.key)
	}
	if len(keys) == 0 {
		return "there are no keys here"
	}
	return "the keys here are " + strings.Join(keys, ", ")
}
