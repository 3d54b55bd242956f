package idempotency

import (
	"bytes"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/comporta/comporta/store"
)

func TestHeaderComesBackAsItWas(t *testing.T) {
	h := http.Header{
		"Content-Type": {"text/plain"}, "Link": {"<a>", "<b>"}, "Empty": {""}, "X-Bytes": {"\xff\x80 : x"},
		"Set-Cookie": {"a=b"}, "Date": {"now"}, "Comporta-Decision": {"x"}, "Content-Length": {"3"}, "Nil": nil,
		http.TrailerPrefix + "Grpc-Status": {"0"}, http.TrailerPrefix + "Date": {"now"},
		http.TrailerPrefix + "Grpc-Retry-Pushback-Ms": {"7"},
	}
	b, ok := AppendHeader(nil, http.StatusCreated, h)
	want := http.Header{
		"Content-Type": {"text/plain"}, "Link": {"<a>", "<b>"}, "Empty": {""}, "X-Bytes": {"\xff\x80 : x"},
		http.TrailerPrefix + "Grpc-Status": {"0"},
	}
	if got := ParseHeader(b); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, ok)
	}
	if again, _ := AppendHeader(nil, http.StatusCreated, h); !bytes.Equal(again, b) {
		t.Error("the order is not that of the names")
	}
	h["Retry-After"] = []string{"7"}
	for status, want := range map[int]bool{202: true, 303: true, 400: false, 500: false} {
		b, _ := AppendHeader(nil, status, h)
		if got := ParseHeader(b)["Retry-After"] != nil; got != want {
			t.Errorf("%d: Retry-After is kept: %v", status, got)
		}
	}
	h["X-Large"] = []string{strings.Repeat("x", store.MaxHeader)}
	if b, ok := AppendHeader(nil, http.StatusCreated, h); ok || len(b) > store.MaxHeader {
		t.Errorf("%d bytes, %v", len(b), ok)
	}
}

// Nothing that a service writes can make a line of its own.
func FuzzHeader(f *testing.F) {
	f.Add("Location", "/a\r\nSet-Cookie: a=b")
	f.Add("X", "")
	f.Fuzz(func(t *testing.T, name, value string) {
		if name == "" || strings.ContainsAny(name, ": \r\n") || !utf8.ValidString(name) {
			t.Skip()
		}
		name = http.CanonicalHeaderKey(name)
		b, ok := AppendHeader(nil, http.StatusOK, http.Header{name: {value}})
		got := ParseHeader(b)
		if !ok || len(got) > 1 || len(got) == 1 && len(got[name]) != 1 {
			t.Errorf("%q: %q came back as %q", name, value, got)
		}
		if len(got) == 1 && !strings.ContainsAny(value, "\r\n") && got[name][0] != value {
			t.Errorf("%q came back as %q", value, got[name][0])
		}
	})
}

func FuzzParseHeader(f *testing.F) {
	f.Add([]byte("A: b\r\nA: c\r\n: x\r\nno\r\nTrailer:B: c\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for name := range ParseHeader(b) {
			if name == "" {
				t.Error("a field without a name")
			}
		}
	})
}
