package overload

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/comporta/comporta"
)

func TestSaysRetryable(t *testing.T) {
	t.Parallel()
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
	if n := testing.AllocsPerRun(100, func() { SaysRetryable(body) }); n > 0 && !raceEnabled {
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
	t.Parallel()
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

// FuzzProblem compares the encoder with encoding/json, byte for byte.
func FuzzProblem(f *testing.F) {
	f.Add("a", "<b>&\"\\\x00\b\f\n\r\t\x1f\x7f", "é\u2028\u2029\ufffd\xff\xc3", 503, int64(37), true)
	f.Add("", "", "", 0, int64(-1), false)
	f.Fuzz(func(t *testing.T, a, b, c string, status int, n int64, yes bool) {
		p := comporta.Problem{
			Type: a, Title: b, Status: status, Detail: c, Code: b, Retryable: yes,
			RetryAfterS: n, RetryAfterMs: n ^ 5, ObservedAttempts: status, Outcome: a, MinimumVersion: b,
			ViolatedPolicies: []string{c, a}, RequestID: c,
		}
		if !yes {
			p.ViolatedPolicies = nil
		}
		want, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendProblem(nil, &p); !bytes.Equal(got, want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	})
}

// FuzzPortuguese holds that the dialect is valid JSON, whatever the service says.
func FuzzPortuguese(f *testing.F) {
	f.Add("capacidade", "d\"\\", int64(1), true)
	f.Fuzz(func(t *testing.T, code, detail string, wait int64, stop bool) {
		ref := Refusal{Code: code, Detail: detail, Wait: 1, Stop: stop, Attempts: int(wait)}
		var doc struct {
			Erro      string `json:"erro"`
			Repetivel bool   `json:"repetivel"`
			Tentar    int64  `json:"tentar_apos_s"`
		}
		if err := json.Unmarshal(appendPortuguese(nil, &ref), &doc); err != nil {
			t.Fatal(err)
		}
		if doc.Erro == "" || doc.Repetivel == stop || (doc.Tentar > 0) == stop {
			t.Fatalf("%+v", doc)
		}
	})
}

// FuzzMessage holds that a gRPC message is printable ASCII and can be read back.
func FuzzMessage(f *testing.F) {
	f.Add("100% é\n")
	f.Fuzz(func(t *testing.T, detail string) {
		got := string(appendPercent(nil, detail))
		for i := range len(got) {
			if got[i] < ' ' || got[i] > '~' {
				t.Fatalf("byte %x in %q", got[i], got)
			}
		}
		if back := unpercent(got); back != detail {
			t.Fatalf("%q came back as %q", detail, back)
		}
	})
}

func unpercent(s string) string {
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		out = append(out, byte(strings.IndexByte("0123456789ABCDEF", s[i+1])<<4|strings.IndexByte("0123456789ABCDEF", s[i+2])))
		i += 2
	}
	return string(out)
}
