package overload

import (
	"strconv"
	"unicode/utf8"

	"github.com/comporta/comporta"
)

// appendProblem appends p as encoding/json would write it, byte for byte, without
// its reflection and its allocations: refusals are written when there is no time.
func appendProblem(b []byte, p *comporta.Problem) []byte {
	b = appendField(b, `{"type":`, p.Type)
	b = appendField(b, `,"title":`, p.Title)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(p.Status), 10)
	b = appendOptional(b, `,"detail":`, p.Detail)
	b = appendField(b, `,"code":`, p.Code)
	b = strconv.AppendBool(append(b, `,"retryable":`...), p.Retryable)
	b = appendCount(b, `,"retry_after_s":`, p.RetryAfterS)
	b = appendCount(b, `,"retry_after_ms":`, p.RetryAfterMs)
	b = appendCount(b, `,"observed_attempts":`, int64(p.ObservedAttempts))
	b = appendOptional(b, `,"outcome":`, p.Outcome)
	b = appendOptional(b, `,"minimum_version":`, p.MinimumVersion)
	if len(p.ViolatedPolicies) > 0 {
		b = appendStrings(append(b, `,"violated_policies":`...), p.ViolatedPolicies)
	}
	b = appendOptional(b, `,"request_id":`, p.RequestID)
	return append(b, '}')
}

func appendField(b []byte, name, value string) []byte {
	return appendString(append(b, name...), value)
}

func appendOptional(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendField(b, name, value)
}

func appendCount(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), n, 10)
}

func appendStrings(b []byte, list []string) []byte {
	for i, s := range list {
		c := byte(',')
		if i == 0 {
			c = '['
		}
		b = appendString(append(b, c), s)
	}
	return append(b, ']')
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. As encoding/json does, it escapes what
// would be live in HTML and the two line separators that are no JSON problem but
// end a line in JavaScript; bytes that are not UTF-8 become U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				b = append(append(b, s[start:i]...), `\ufffd`...)
				start = i + size
			case r == 0x2028 || r == 0x2029:
				b = append(append(b, s[start:i]...), `\u202`...)
				b = append(b, hexDigits[r&0xf])
				start = i + size
			}
			i += size
			continue
		}
		if plain(c) {
			i++
			continue
		}
		b = appendEscape(append(b, s[start:i]...), c)
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

// plain reports whether an ASCII byte stands for itself in a JSON string.
func plain(c byte) bool {
	return c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}
