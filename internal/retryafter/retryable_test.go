package retryafter

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func TestSaysRetryable(t *testing.T) {
	for body, want := range map[string][2]bool{
		`{"retryable":true}`:  {true, true},
		`{"retryable":false}`: {false, true},
		` { "a" : [1,{"retryable":true}], "repetivel" : false , "z": "}" } `: {false, true},
		`{"error":{"retryable":true}}`:                                       {},
		`[{"retryable":true}]`:                                               {},
		`["retryable",true]`:                                                 {},
		`{"retryable":"true"}`:                                               {},
		`{"retryable":null,"x":true}`:                                        {},
		`{"retryable":{"x":true}}`:                                           {},
		`{"retryable":[true]}`:                                               {},
		`{"x":"retryable","y":true}`:                                         {},
		`{"x":"\"retryable\":true"}`:                                         {},
		`{"\u0072etryable":true}`:                                            {true, true},
		`{"retryable":true,"retryable":false}`:                               {false, true},
		`{"Retryable":true}`:                                                 {},
		`{"retryable":true`:                                                  {},
		`{"retryable":true} x`:                                               {},
		`"retryable"`:                                                        {},
		`true`:                                                               {},
		``:                                                                   {},
		`{"retryable":true,"x":"` + strings.Repeat("x", MaxPeek) + `"}`:       {},
		strings.Repeat("[", 9000) + `"retryable"` + strings.Repeat("]", 9000): {},
	} {
		value, found := SaysRetryable([]byte(body))
		if value != want[0] || found != want[1] {
			t.Errorf("%.80s: %t %t, want %t %t", body, value, found, want[0], want[1])
		}
	}
}

func TestSaysRetryableAllocates(t *testing.T) {
	body := []byte(`{"erro":"x","detalhe":"y","n":[1,2,{"a":null}],"repetivel":false}`)
	if n := testing.AllocsPerRun(100, func() { SaysRetryable(body) }); n > 0 && !raceEnabled { // the race detector makes sync.Pool forget on purpose
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSaysRetryable(b *testing.B) {
	body := []byte(`{"erro":"x","detalhe":"` + strings.Repeat("y", 500) + `","n":[1,2,{"a":null}],"repetivel":false}`)
	b.ReportAllocs()
	for b.Loop() {
		SaysRetryable(body)
	}
}

// slowRetryable is SaysRetryable told by encoding/json: the last boolean under
// one of the names.
func slowRetryable(body []byte) (value, found bool) {
	dec := json.NewDecoder(bytes.NewReader(body))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return false, false
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return false, false
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return false, false
		}
		if s := string(raw); (key == "retryable" || key == "repetivel") && (s == "true" || s == "false") {
			value, found = s == "true", true
		}
	}
	return value, found
}

// FuzzSaysRetryable compares with encoding/json.
func FuzzSaysRetryable(f *testing.F) {
	for _, s := range []string{
		`{"retryable":true}`, `{"a":{"retryable":true},"repetivel":false}`, `{"\u0072epetivel":true,"retryable":0}`,
		`[{"retryable":true}]`, `{"retryable":true,"b":[],"c":"\\\"","repetivel" : false}`, `{"retryable":tru}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		value, found := SaysRetryable(body)
		var wantValue, wantFound bool
		if len(body) <= MaxPeek && json.Valid(body) {
			wantValue, wantFound = slowRetryable(body)
		}
		if value != wantValue || found != wantFound {
			t.Fatalf("%q: %t %t, want %t %t", body, value, found, wantValue, wantFound)
		}
	})
}

func TestPeekable(t *testing.T) {
	for _, c := range []struct {
		kind, coding, length string
		status               int
		want                 bool
	}{
		{"application/json", "", "20", 500, true},
		{"application/problem+json; charset=utf-8", "identity", "16384", 429, true},
		{"Application/JSON", "", "20", 422, true},
		{"application/json", "", "16385", 500, false},
		{"application/json", "", "0", 500, false},
		{"application/json", "", "", 500, false},
		{"application/json", "", "-1", 500, false},
		{"application/json", "gzip", "20", 500, false},
		{"application/json", "", "20", 200, false},
		{"text/html", "", "20", 500, false},
		{"", "", "20", 500, false},
	} {
		h := http.Header{"Content-Type": {c.kind}, "Content-Encoding": {c.coding}, "Content-Length": {c.length}}
		if got := Peekable(h, c.status); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
