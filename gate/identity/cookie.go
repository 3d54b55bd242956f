package identity

import (
	"strings"

	"github.com/comporta/comporta"
)

const headerCookie = "Cookie"

const (
	// maxCookie is the longest value of a cookie, in bytes: what browsers keep of one.
	maxCookie = 4096
	// maxEquals bounds the search, in equals signs: browsers keep less than 200
	// cookies of one site, and their values have some of the signs.
	maxEquals = 1024
)

// cookieOf returns the value of the one cookie of a name, without quotes around it.
// It allocates nothing. Several lines are one list (RFC 9113, 8.2.3).
//
// It returns nothing where there is none, and where two readers of the header
// could see different values, since the service might honour the one that is not
// counted here:
//
//   - two cookies of the name, unless their values are one;
//   - a value that RFC 6265 (4.1.1) does not allow, or longer than maxCookie;
//   - the name in a spelling that some services take for it: in another case, with
//     a dot for an underscore, behind a comma or a quote, with a blank before the
//     equals sign.
//
// Other cookies are not judged: many are malformed, and they are nobody's credential.
func cookieOf(lines []string, name string) (value string) {
	found, left := false, maxEquals
	for _, line := range lines {
		for at := 0; ; {
			i := strings.IndexByte(line[at:], '=')
			if i < 0 {
				break
			}
			if left--; left < 0 {
				return ""
			}
			head := line[:at+i]
			at += i + 1
			named, plain := endsWithName(head, name)
			if !named {
				continue
			}
			if !plain {
				return ""
			}
			v, ok := cookieValue(line[at:])
			if !ok || found && v != value {
				return ""
			}
			value, found = v, true
		}
	}
	return value
}

// endsWithName reports whether head, what stands before an equals sign, ends with
// the name of a cookie in any spelling, and whether it does so for every reader.
func endsWithName(head, name string) (named, plain bool) {
	head, clean := cutDirt(head)
	start := len(head) - len(name)
	if start < 0 || !sameName(head[start:], name) {
		return false, false
	}
	plain = clean && head[start:] == name
	before := strings.TrimRight(head[:start], " \t")
	before, clean = cutDirt(before)
	switch {
	case before == "" || before[len(before)-1] == ';':
		return true, plain && clean
	case before[len(before)-1] == ',':
		return true, false
	}
	return false, false // the end of a longer name, or of a value
}

// sameName compares the names of two cookies of one length.
func sameName(a, b string) bool {
	for i := len(a) - 1; i >= 0; i-- { // most differ at their end
		if foldName(a[i]) != foldName(b[i]) {
			return false
		}
	}
	return true
}

// dirt is what some readers trim off a name, or take for its quotes: all that is
// not visible ASCII, and the double quote.
func dirt(c byte) bool { return c <= ' ' || c >= 0x7f || c == '"' }

// cutDirt cuts the dirt off the end, and reports whether there was none.
func cutDirt(s string) (cut string, clean bool) {
	n := len(s)
	for n > 0 && dirt(s[n-1]) {
		n--
	}
	return s[:n], n == len(s)
}

// foldName makes one of the letters that some service does not tell apart in the
// name of a cookie: ASP.NET ignores the case, PHP reads dots, blanks and opening
// brackets as underscores.
func foldName(c byte) byte {
	switch {
	case c == '.', c == ' ', c == '[':
		return '_'
	case c >= 'A' && c <= 'Z':
		return c | 0x20
	}
	return c
}

// cookieValue reads the value with which rest begins.
func cookieValue(rest string) (v string, ok bool) {
	if i := strings.IndexByte(rest, ';'); i >= 0 {
		rest = rest[:i]
	}
	v = strings.TrimRight(rest, " \t")
	if n := len(v); n >= 2 && v[0] == '"' && v[n-1] == '"' {
		v = v[1 : n-1]
	}
	if len(v) > maxCookie {
		return "", false
	}
	for i := range len(v) {
		if c := v[i]; dirt(c) || c == ',' || c == '\\' {
			return "", false
		}
	}
	return v, true
}

// session names a client by the value of its cookie. Escapes are read: nearly
// every framework takes %41 and A for one value, and a client could else have many
// identities with one cookie, all of them proven.
func (s *source) session(v string, c *comporta.Client, names *names) bool {
	switch {
	case v == "":
		return false
	case strings.IndexByte(v, '%') >= 0:
		s.escaped(v, c, names)
	default:
		c.Key = nonzero(s.hash.Sum64(v))
		c.Name = names.of(c.Key, v)
	}
	return true
}

// escaped is session for a value with escapes.
func (s *source) escaped(v string, c *comporta.Client, names *names) {
	var out [maxCookie]byte // on the stack: nothing of a credential stays behind
	plain := out[:unescape(out[:], v)]
	c.Key = nonzero(s.hash.SumBytes(plain))
	if name, known := names.cached(c.Key); known {
		c.Name = name
	} else {
		c.Name = names.learn(c.Key, string(plain))
	}
}

// unescape writes v with its escapes read to dst, which is at least as long. What
// is no escape stays as it is.
func unescape(dst []byte, v string) (n int) {
	for i := 0; i < len(v); i++ {
		dst[n] = v[i]
		if v[i] == '%' && i+2 < len(v) {
			if hi, lo := unhex(v[i+1]), unhex(v[i+2]); hi < 16 && lo < 16 {
				dst[n] = hi<<4 | lo
				i += 2
			}
		}
		n++
	}
	return n
}

// unhex returns the value of a hexadecimal digit, and 16 for any other byte.
func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 16
}
