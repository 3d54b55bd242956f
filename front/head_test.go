package front

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// refused are heads that no handler may see, by case of cases/proxy.md, with the
// status of the answer.
var refused = map[string][]struct{ name, status, text string }{
	"A1": {
		{"length and coding", "400", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"coding and length", "400", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"},
	},
	"A2": {
		{"two lengths", "400", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef"},
		{"twice the same", "400", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nabcde"},
		{"list", "400", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nabcde"},
		{"sign", "400", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nabcde"},
		{"minus", "400", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\nabcde"},
		{"hexadecimal", "400", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nabcde"},
		{"inner space", "400", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n\r\nabcde"},
		{"empty", "400", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n"},
		{"too many digits", "400", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1234567890123456789\r\n\r\n"},
	},
	"A3": {
		{"chunked twice", "400", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"chunked, chunked", "400", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"},
		{"xchunked", "501", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"},
		{"gzip, chunked", "501", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
		{"identity", "501", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n"},
		{"empty", "501", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n"},
		{"parameter", "501", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"},
		{"vertical tab", "400", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"},
		{"space before the colon", "400", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n"},
	},
	"A6": {
		{"folded line", "400", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n"},
		{"folded by a tab", "400", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\t2\r\n\r\n"},
		{"first line folded", "400", "GET / HTTP/1.1\r\n Host: a\r\n\r\n"},
		{"empty folded line", "400", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n \r\n\r\n"},
	},
	"A7": {
		{"NUL in a value", "400", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\x002\r\n\r\n"},
		{"NUL in a long value", "400", "GET / HTTP/1.1\r\nHost: a\r\nX: 0123456789abcdef\x000123456789abcdef\r\n\r\n"},
		{"bare CR in a value", "400", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r2\r\n\r\n"},
		{"CR before the end", "400", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\r\n\r\n"},
		{"DEL in a value", "400", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\x7f2345678\r\n\r\n"},
		{"NUL in a name", "400", "GET / HTTP/1.1\r\nHost: a\r\nX\x00: 1\r\n\r\n"},
		{"control in the target", "400", "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"tab in the target", "400", "GET /\t HTTP/1.1\r\nHost: a\r\n\r\n"},
	},
	"A8": {
		{"line feeds only", "400", "GET / HTTP/1.1\nHost: a\n\n"},
		{"one bare line feed", "400", "GET / HTTP/1.1\r\nHost: a\n\r\n"},
		{"end by a line feed", "400", "GET / HTTP/1.1\r\nHost: a\r\n\n"},
		{"line feed first", "400", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"empty line first", "400", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"},
	},
	"A9": {
		{"no Host", "400", "GET / HTTP/1.1\r\n\r\n"},
		{"two Hosts", "400", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"},
		{"twice the same", "400", "GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n"},
		{"path", "400", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
		{"user", "400", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"},
		{"empty", "400", "GET / HTTP/1.1\r\nHost:\r\n\r\n"},
		{"port alone", "400", "GET / HTTP/1.1\r\nHost: :80\r\n\r\n"},
		{"port that is none", "400", "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n"},
		{"two ports", "400", "GET / HTTP/1.1\r\nHost: a:80:80\r\n\r\n"},
		{"list", "400", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"},
		{"open bracket", "400", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"},
		{"no IPv6", "400", "GET / HTTP/1.1\r\nHost: [a]\r\n\r\n"},
		{"two in HTTP/1.0", "400", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"},
		{"target of another host", "400", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"target of another port", "400", "GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"target with a user", "400", "GET http://a@a/ HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"target of another scheme", "400", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"},
	},
	"A11": {
		{"fragment", "400", "GET /p#/admin HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"in the query", "400", "GET /p?a#b HTTP/1.1\r\nHost: a\r\n\r\n"},
	},
	"A12": {{"coding in HTTP/1.0", "400", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}},
	"other": {
		{"method", "400", "G\"T / HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"no method", "400", " / HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"no target", "400", "GET  HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"no version", "400", "GET /\r\n\r\n"},
		{"two spaces", "400", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"space in the target", "400", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"relative target", "400", "GET a HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"raw octets in the target", "400", "GET /\xc3\xbc HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"broken escape", "400", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"asterisk", "400", "GET * HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"CONNECT", "405", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"},
		{"lower case version", "400", "GET / http/1.1\r\nHost: a\r\n\r\n"},
		{"HTTP/1.2", "505", "GET / HTTP/1.2\r\nHost: a\r\n\r\n"},
		{"HTTP/2.0", "505", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
		{"HTTP/11", "400", "GET / HTTP/11\r\nHost: a\r\n\r\n"},
		{"no colon", "400", "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n"},
		{"no name", "400", "GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n"},
		{"space in a name", "400", "GET / HTTP/1.1\r\nHost: a\r\nX Y: 1\r\n\r\n"},
		{"expectation", "417", "POST / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\nContent-Length: 1\r\n\r\n1"},
		{"two expectations", "417", "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue, tea\r\nContent-Length: 1\r\n\r\n1"},
		{"long target", "414", "GET /" + strings.Repeat("a", 9<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"target without end", "414", "GET /" + strings.Repeat("a", 64<<10)},
		{"large header", "431", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 40<<10) + "\r\n\r\n"},
		{"header without end", "431", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 128<<10)},
		{"many fields", "431", "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: 1\r\n", 200) + "\r\n"},
		{"TLS", "400", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"},
		{"trailer of framing", "400", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\n\r\n"},
	},
}

// refuses plays the heads of a case, whole and octet by octet. Nothing reaches the
// handler, not even what follows.
func refuses(t *testing.T, id string) {
	t.Helper()
	if len(refused[id]) == 0 {
		t.Fatal("no such case")
	}
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, c := range refused[id] {
		t.Run(c.name, func(t *testing.T) {
			config := Config{Handler: silent(t)}
			whole := play(t, config, c.text+smuggled)
			if status(whole) != c.status || !strings.Contains(whole, "\r\nConnection: close\r\n") || strings.Count(whole, "HTTP/1.1 ") != 1 {
				t.Errorf("%q\n→ %q, want %s that closes", c.text, whole, c.status)
			}
			if len(c.text) > 4<<10 {
				return
			}
			if slow := play(t, config, strings.Split(c.text+smuggled, "")...); status(slow) != c.status {
				t.Errorf("octet by octet: %q", slow)
			}
		})
	}
}

func TestCase_Proxy_A1_TwoFramings(t *testing.T)     { refuses(t, "A1") }
func TestCase_Proxy_A2_Lengths(t *testing.T)         { refuses(t, "A2") }
func TestCase_Proxy_A3_TransferCodings(t *testing.T) { refuses(t, "A3") }
func TestCase_Proxy_A6_FoldedLines(t *testing.T)     { refuses(t, "A6") }
func TestCase_Proxy_A7_ControlOctets(t *testing.T)   { refuses(t, "A7") }
func TestCase_Proxy_A8_LineFeeds(t *testing.T)       { refuses(t, "A8") }
func TestCase_Proxy_A9_Hosts(t *testing.T)           { refuses(t, "A9") }
func TestCase_Proxy_A11_Fragments(t *testing.T)      { refuses(t, "A11") }
func TestCase_Proxy_A12_OldWithCoding(t *testing.T)  { refuses(t, "A12") }
func TestRefusedHeads(t *testing.T)                  { refuses(t, "other") }

// cases/proxy.md A 4: a tab after chunked is blank space. What the handler sees has
// no trace of it.
func TestCase_Proxy_A4_TabAfterChunked(t *testing.T) {
	for _, value := range []string{"chunked\t", " \tchunked \t ", "ChUnKeD"} {
		got := play(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if len(r.Header["Transfer-Encoding"]) > 0 || len(r.TransferEncoding) != 1 || r.TransferEncoding[0] != "chunked" {
				t.Errorf("%v %q", r.Header, r.TransferEncoding)
			}
			echo(w, r)
		})}, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding:"+value+"\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
		if !strings.HasSuffix(got, `POST / a "abc" <nil>`) {
			t.Errorf("%q: %q", value, got)
		}
	}
}

// What must be accepted although it looks odd.
func TestAcceptedHeads(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"GET / HTTP/1.0\r\n\r\n", `GET / "" "" /`},
		{"GET / HTTP/1.1\r\nhOST: [2001:db8::1]:8080\r\n\r\n", `GET / "[2001:db8::1]:8080" "" /`},
		{"GET / HTTP/1.1\r\nHost: my_service.local\r\n\r\n", `GET / "my_service.local" "" /`},
		{"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", `OPTIONS * "a" "" *`},
		{"GET http://A:80/x?y HTTP/1.1\r\nHost: a\r\n\r\n", `GET http://A:80/x?y "a" "" /x`},
		{"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", `GET http://a "a" "" /`},
		{"GET //x/%2F?a=b&&c HTTP/1.1\r\nHost: a\r\n\r\n", `GET //x/%2F?a=b&&c "a" "" //x//`},
		{"BREW / HTTP/1.1\r\nHost: a\r\nX: \xff\r\n\r\n", `BREW / "a" "\xff" /`},
		{"GET / HTTP/1.1\r\nHost: a\r\nX:\t 1\t2 \t\r\n\r\n", `GET / "a" "1\t2" /`},
		{"GET / HTTP/1.0\r\nHost: a\r\nExpect: tea\r\n\r\n", `GET / "a" "" /`},
		{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", `GET / "a" "" /`},
	} {
		got := play(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s %q %q %s", r.Method, r.RequestURI, r.Host, r.Header.Get("X"), r.URL.Path)
		})}, c.text)
		if !strings.HasSuffix(got, "\r\n\r\n"+c.want) {
			t.Errorf("%q\n→ %q\nwant %s", c.text, got, c.want)
		}
	}
}
