package retryafter

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// MaxPeek is the largest body, in bytes, that is worth holding back to see
// whether it says that a repeat can help.
const MaxPeek = 16 << 10

// MayTell reports whether the body of an answer may say if a repeat can help: a
// failure in JSON, without a content coding.
func MayTell(h http.Header, status int) bool {
	if status < 400 || !isJSON(h.Get("Content-Type")) {
		return false
	}
	c := h.Get("Content-Encoding")
	return c == "" || strings.EqualFold(c, "identity")
}

// Peekable reports whether such a body may be held back in memory together with
// its head, by who stands between service and client: its length is declared, and
// up to MaxPeek.
func Peekable(h http.Header, status int) bool {
	if !MayTell(h, status) {
		return false
	}
	n, err := strconv.ParseUint(h.Get("Content-Length"), 10, 64)
	return err == nil && n > 0 && n <= MaxPeek
}

func isJSON(kind string) bool {
	kind, _, _ = strings.Cut(kind, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "application/json" || strings.HasSuffix(kind, "+json")
}

// SaysRetryable looks in a JSON object for a boolean named retryable or
// repetivel and returns it. Only keys of the object itself count; of several
// the last wins, as for most readers of JSON. found is false for a body that is
// not JSON, is longer than MaxPeek, or says nothing. It does not allocate, save
// for keys written with escapes.
func SaysRetryable(body []byte) (value, found bool) {
	if len(body) > MaxPeek || !mentions(body) || !json.Valid(body) {
		return false, false
	}
	depth, key := 0, false // key: the next string at depth 1 is a name
	named := false         // the coming value is that of one of the names
	for i := 0; i < len(body); {
		switch c := body[i]; c {
		case '{', '[':
			depth++
			key, named = depth == 1 && c == '{', false
			if depth == 1 && c == '[' {
				return false, false
			}
		case '}', ']':
			depth--
		case ',':
			key, named = depth == 1, false
		case '"':
			end := stringEnd(body, i)
			if depth == 1 && key {
				named, key = isVerdictName(body[i:end]), false
			}
			i = end
			continue
		case 't', 'f':
			if named {
				value, found = c == 't', true
			}
		}
		i++
	}
	return value, found
}

// mentions reports whether a cheap look finds anything that could be one of the
// names: most bodies are done here.
func mentions(body []byte) bool {
	return bytes.Contains(body, []byte("retryable")) || bytes.Contains(body, []byte("repetivel")) ||
		bytes.Contains(body, []byte(`\u`))
}

// stringEnd returns the index after the string that starts at i of valid JSON.
func stringEnd(body []byte, i int) int {
	for i++; i < len(body); i++ {
		switch body[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(body)
}

// isVerdictName reports whether a quoted key is one of the two names.
func isVerdictName(quoted []byte) bool {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		var name string
		return json.Unmarshal(quoted, &name) == nil && (name == "retryable" || name == "repetivel")
	}
	return string(quoted) == `"retryable"` || string(quoted) == `"repetivel"`
}
