package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/comporta/comporta"
)

func TestCookieOf(t *testing.T) {
	long := strings.Repeat("v", maxCookie)
	for _, tc := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"alone", []string{"sid=abc"}, "abc"},
		{"first, between and last", []string{"sid=abc; a=1"}, "abc"},
		{"between", []string{"a=1; sid=abc; b=2"}, "abc"},
		{"last", []string{"a=1; sid=abc"}, "abc"},
		{"without blanks", []string{"a=1;sid=abc;b=2"}, "abc"},
		{"with many", []string{" \ta=1 ;\t  sid=abc\t ; b=2;"}, "abc"},
		{"quoted", []string{`a=1; sid="abc"; b=2`}, "abc"},
		{"equals signs are part of a value", []string{"sid=a=b==; x=y"}, "a=b=="},
		{"every byte that is allowed", []string{"sid=!#$%&'()*+-./09:<=>?@AZ[]^_`az{|}~"}, "!#$%&'()*+-./09:<=>?@AZ[]^_`az{|}~"},
		{"over several lines", []string{"a=1", "sid=abc", "b=2"}, "abc"},
		{"as long as browsers keep", []string{"sid=" + long + "; a=1"}, long},
		{"beside what is malformed", []string{`a; =b; c={"x":1, "y":2}; d="q; é=1; sid=abc; ;;; e`}, "abc"},

		{"nowhere", nil, ""},
		{"in no line", []string{"", "a=1", "b"}, ""},
		{"empty", []string{"sid=; a=1"}, ""},
		{"empty in quotes", []string{`sid=""`}, ""},
		{"no value", []string{"sid; a=1"}, ""},
		{"the end of another name", []string{"xsid=abc; my-sid=d; a.sid=e"}, ""},
		{"the beginning of another name", []string{"sid2=abc; sid.sig=d"}, ""},
		{"within another value", []string{"url=/login?sid=abc; a=b:sid=c; b=sid=d"}, ""},

		{"twice the same", []string{"sid=abc; a=1; sid=abc"}, "abc"},
		{"twice the same, once quoted", []string{`sid=abc; sid="abc"`}, "abc"},
		{"two values", []string{"sid=abc; sid=d"}, ""},
		{"two values over two lines", []string{"sid=abc", "sid=d"}, ""},
		{"two values, one empty", []string{"sid=abc; sid="}, ""},
		{"two values, one malformed", []string{"sid=abc; sid=a b"}, ""},
		{"a second value behind a comma", []string{"sid=abc; a=1,sid=d"}, ""},
		{"a second value in quotes", []string{`sid=abc; a="1; sid=d; b"`}, ""},
		{"another case", []string{"sid=abc; SID=d"}, ""},
		{"another case alone", []string{"Sid=abc"}, ""},

		{"behind a comma", []string{"a=1, sid=abc"}, ""},
		{"name in quotes", []string{`"sid"=abc`}, ""},
		{"behind a quote", []string{`a=1; "sid=abc`}, ""},
		{"behind what some trim", []string{"a=1; \xa0sid=abc"}, ""},
		{"before what some trim", []string{"sid\xa0=abc"}, ""},
		{"behind a control character", []string{"\x0bsid=abc"}, ""},
		{"before a blank", []string{"sid =abc"}, ""},
		{"value behind a blank", []string{"sid= abc"}, ""},
		{"value with a blank", []string{"sid=a b"}, ""},
		{"value with a comma", []string{"sid=a,b"}, ""},
		{"value with a quote", []string{`sid=a"b`}, ""},
		{"an open quote", []string{`sid="ab; a=1`}, ""},
		{"value with a backslash", []string{`sid="\141bc"`}, ""},
		{"value with a control character", []string{"sid=a\x00b"}, ""},
		{"value beyond ASCII", []string{"sid=abç"}, ""},
		{"too long", []string{"sid=" + long + "v"}, ""},
		{"behind too many", []string{strings.Repeat("a=;", maxEquals) + "sid=abc"}, ""},
		{"behind too many in lines", []string{strings.Repeat("=", maxEquals), "sid=abc"}, ""},
		{"behind nearly too many", []string{strings.Repeat("a=;", maxEquals-1) + "sid=abc"}, "abc"},
	} {
		if got := cookieOf(tc.lines, "sid"); got != tc.want {
			t.Errorf("%s: %.50q, want %.50q", tc.name, got, tc.want)
		}
	}
}

// What a service may take for the cookie's name is the name, and no plain one.
func TestSpellingsOfACookiesName(t *testing.T) {
	for _, spelling := range []string{"my.sid", "my sid", "my[sid", "MY_SID", "My.Sid"} {
		if got := cookieOf([]string{"my_sid=abc; " + spelling + "=d"}, "my_sid"); got != "" {
			t.Errorf("%s beside it: %q", spelling, got)
		}
		if got := cookieOf([]string{spelling + "=d"}, "my_sid"); got != "" {
			t.Errorf("%s alone: %q", spelling, got)
		}
	}
	for _, other := range []string{"my-sid", "mysid", "my_sid_"} {
		if got := cookieOf([]string{other + "=d; my_sid=abc"}, "my_sid"); got != "abc" {
			t.Errorf("%s beside it: %q", other, got)
		}
	}
	if got := cookieOf([]string{"__Host-sid=abc; sid=d"}, "__Host-sid"); got != "abc" {
		t.Errorf("a prefix: %q", got)
	}
}

func cookieSource(name string) *Config {
	return &Config{Identify: []Source{{Kind: KindCookie, Cookie: name}}}
}

// The one cookie is the identity: what else is in the header may change.
func TestCookieIdentity(t *testing.T) {
	id := mustNew(t, *cookieSource("sid"), nil)
	ask := func(cookie string) comporta.Client { return identify(id, request("192.0.2.1", "Cookie", cookie)) }
	network := identify(id, request("192.0.2.1"))
	first := ask("sid=abc; _ga=GA1.2")
	if first.Key == network.Key || first.Shared || first.Class != comporta.ClassAnonymous || first.Name != "" {
		t.Fatalf("%+v", first)
	}
	for _, same := range []string{"_ga=GA1.3; sid=abc", `sid="abc"`, "sid=%61bc", "sid=%61%62%63", "sid=abc; sid=abc"} {
		if ask(same) != first {
			t.Errorf("%s is another client", same)
		}
	}
	if again := identify(id, request("198.51.100.7", "Cookie", "sid=abc")); again.Key != first.Key {
		t.Error("from another network it is another client")
	}
	for _, nobody := range []string{"_ga=abc", "sid=", "sid=abc; sid=d", "sid=a b", "SID=abc"} {
		if ask(nobody) != network {
			t.Errorf("%s is somebody", nobody)
		}
	}
	seen := map[uint64]string{network.Key: "the network", first.Key: "abc"}
	for _, v := range []string{"ABC", "ab", "abc%", "abc%2", "abc%zz", "a%bc", "%", "%%", "%25", "%2525", "%00", strings.Repeat("%41", maxCookie/3)} {
		c := ask("sid=" + v)
		if was, ok := seen[c.Key]; ok && v != "%25" { // which is %
			t.Errorf("%.50q has the key of %.50q", v, was)
		}
		seen[c.Key] = v
	}
	if ask("sid=%25").Key != ask("sid=%").Key {
		t.Error("an escaped percent sign is another client")
	}
	other := mustNew(t, *cookieSource("other"), nil)
	if identify(other, request("192.0.2.1", "Cookie", "other=abc")).Key == first.Key {
		t.Error("two cookies give one key")
	}
	header := mustNew(t, Config{Identify: []Source{{Kind: KindHeader, Header: "sid"}}}, nil)
	if identify(header, request("192.0.2.1", "Sid", "abc")).Key == first.Key {
		t.Error("a header and a cookie give one key")
	}
	if got := KeyString(first.Key); got != "d188c050f1303f01" {
		t.Errorf("%s: replicas of two versions do not agree on a client", got)
	}
}

func TestCookieMayBeShared(t *testing.T) {
	id := mustNew(t, Config{Identify: []Source{{Kind: KindCookie, Cookie: "tenant", Shared: true}}}, nil)
	if c := identify(id, request("192.0.2.1", "Cookie", "tenant=acme")); !c.Shared || c.Key == identify(id, request("192.0.2.1")).Key {
		t.Errorf("%+v", c)
	}
}

// A claim like that of a header: proven when the service has honoured it, and by
// no other value.
func TestCookieIsClaimedUntilProven(t *testing.T) {
	id := mustNew(t, *cookieSource("sid"), NewProven(0))
	r := request("192.0.2.1", "Cookie", "sid=abc; a=1")
	if c := identify(id, r); c.Class != comporta.ClassAnonymous {
		t.Fatalf("before any answer: %v", c.Class)
	}
	id.ProveAt(noon, r)
	for cookie, want := range map[string]comporta.Class{
		"sid=abc; a=2":          comporta.ClassProven,
		"sid=%61bc":             comporta.ClassProven, // nobody new
		"sid=invented":          comporta.ClassAnonymous,
		"sid=abc; sid=invented": comporta.ClassAnonymous,
		"a=1":                   comporta.ClassAnonymous,
	} {
		if c := identify(id, request("192.0.2.1", "Cookie", cookie)); c.Class != want {
			t.Errorf("%s: %v, want %v", cookie, c.Class, want)
		}
	}
}

func TestCookieNames(t *testing.T) {
	sum := sha256.Sum256([]byte("s:abc"))
	c := cookieSource("sid")
	c.Names = map[string]string{"ana": hex.EncodeToString(sum[:])[:16]}
	id := mustNew(t, *c, nil)
	for range 2 { // learned, then remembered
		for cookie, want := range map[string]string{"sid=s%3Aabc": "ana", `sid="s:abc"`: "ana", "sid=s%3aabd": ""} {
			if got := identify(id, request("192.0.2.1", "Cookie", cookie)).Name; got != want {
				t.Errorf("%s: %q, want %q", cookie, got, want)
			}
		}
	}
}

func TestCookieAllocatesNothing(t *testing.T) {
	c := cookieSource("sid")
	c.Names = map[string]string{"acme": "0011223344556677"}
	id := mustNew(t, *c, NewProven(0))
	for name, cookie := range map[string]string{
		"plain":     "a=1; sid=abc; b=2",
		"escaped":   "sid=s%3A" + strings.Repeat("a%2F", 500),
		"absent":    "a=1; b=2",
		"malformed": `sid="a b"; c`,
		"huge":      strings.Repeat("a=b; ", 10_000) + "sid=abc",
	} {
		r := request("192.0.2.1", "Cookie", cookie)
		identify(id, r) // names are learned once
		if n := testing.AllocsPerRun(100, func() { id.IdentifyAt(noon, r) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// FuzzCookie: what is found is what RFC 6265 allows and what net/http reads, alone
// and whatever stands around it.
func FuzzCookie(f *testing.F) {
	for _, s := range []string{
		"", "sid=abc", `a=1; sid="abc"; b`, "sid=a; sid=b", "sid=a ;;", "sid = a", "a=1,sid=b", `"sid"=a`, "\xa0sid=a", "sid\t=\ta=b", "SID=a; s.id=b", "sid=\"", "sid=%41%", "sid=0;sid",
	} {
		f.Add(s)
	}
	id := mustNew(f, *cookieSource("sid"), nil)
	f.Fuzz(func(t *testing.T, line string) {
		v := cookieOf([]string{line}, "sid")
		if again := cookieOf(strings.Split(line, ";"), "sid"); again != v && strings.Count(line, "=") < maxEquals {
			t.Errorf("%q: %q in one line, %q over several", line, v, again)
		}
		if c := identify(id, request("192.0.2.1", "Cookie", line)); (v != "") == c.Shared || c.Key == 0 {
			t.Errorf("%q: value %q, %+v", line, v, c)
		}
		read := (&http.Request{Header: http.Header{"Cookie": {line}}}).CookiesNamed("sid")
		if v == "" {
			return
		}
		if strings.ContainsAny(v, "\" ,;\\\t") || len(read) == 0 {
			t.Errorf("%q: %q, and net/http reads %v", line, v, read)
		}
		for _, c := range read {
			if c.Value != v && c.Value != "" { // a name alone is read by net/http, and is nobody's credential
				t.Errorf("%q: %q, and net/http reads %q", line, v, c.Value)
			}
		}
		for _, around := range []string{"a=1; " + line, line + "; a=1; b"} {
			if got := cookieOf([]string{around}, "sid"); got != v && strings.Count(around, "=") < maxEquals {
				t.Errorf("%q: %q, want %q", around, got, v)
			}
		}
	})
}
