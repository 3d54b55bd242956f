package overload

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/comporta/comporta"
)

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
