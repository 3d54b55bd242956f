package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"
)

// What a program says of its user arrives as it was said, fit for a log; whoever
// says nothing is given no name.
func TestOperator(t *testing.T) {
	for _, tc := range []struct{ said, want string }{
		{"ana", "ana"},
		{" ana ", "ana"},
		{"", ""},
		{" \t", ""},
		{`CORP\ana`, `CORP\ana`},
		{"joão", "joão"},
		{"a\nb\r\x00\x7f", "a?b???"},
		{"a\xffb", "a?b"},
		{"a\u202eb\u2028c", "a?b?c"}, // what turns a line around, or ends it
		{strings.Repeat("a", 65), strings.Repeat("a", 64)},
		{strings.Repeat("é", 33), strings.Repeat("é", 32)},
		{"a" + strings.Repeat("é", 33), "a" + strings.Repeat("é", 31)},
		{strings.Repeat("\n", 1<<16) + "a", "a"},
		{strings.Repeat("a", 63) + " b", strings.Repeat("a", 63)},
	} {
		var got Operator
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = operatorOf(r.Header)
			reply(w, http.StatusOK, Answer{})
		}))
		c := Caller{URL: server.URL, Operator: Operator{tc.said, tc.said}}
		if _, err := c.Call(t.Context(), http.MethodGet, "/", nil, nil); err != nil {
			t.Errorf("%q: %v", tc.said, err)
		}
		server.Close()
		if got != (Operator{tc.want, tc.want}) {
			t.Errorf("%q: got %q", tc.said, got)
		}
		if n := len(got.attributes()); n != 0 != (tc.want != "") {
			t.Errorf("%q: %d attributes", tc.said, n)
		}
	}
}

// Who is no program of ours may send anything.
func FuzzOperator(f *testing.F) {
	f.Add("ana")
	f.Add(strings.Repeat("\u00e9\xff", 40))
	f.Fuzz(func(t *testing.T, said string) {
		got := operatorOf(http.Header{HeaderUser: {said, "second"}}).User
		if len(got) > maxUser || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\x00\u2028") || tidy(got) != got {
			t.Errorf("%q is taken as %q", said, got)
		}
	})
}
