package front

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// message is a request as one of the readers sees it.
type message struct {
	line    string
	header  map[string][]string
	body    string
	trailer map[string][]string
	failed  bool // its body is malformed: nothing follows
}

func messageOf(r *http.Request) message {
	b, err := io.ReadAll(r.Body)
	header := r.Header.Clone()      // its values are used again
	delete(header, "Cache-Control") // net/http adds one for Pragma
	u := *r.URL
	if u.Path == "" && u.Host != "" {
		u.Path = "/"
	}
	m := message{
		line:   fmt.Sprintf("%s %s %s %q %q %q %v %q %d", r.Method, r.RequestURI, r.Proto, r.Host, u.Path, u.RawPath, u.ForceQuery, u.RawQuery, r.ContentLength),
		header: header, body: string(b), failed: err != nil,
	}
	if len(r.Trailer) > 0 {
		m.trailer = r.Trailer.Clone()
	}
	return m
}

// theirs reads what net/http reads.
func theirs(data []byte) (list []message) {
	r := bufio.NewReader(bytes.NewReader(data))
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return list
		}
		m := messageOf(req)
		list = append(list, m)
		if m.failed {
			return list
		}
	}
}

// ours reads what the front reads, from pieces that are cut at random.
func ours(t testing.TB, data []byte, seed uint64) (list []message) {
	rng := rand.New(rand.NewPCG(seed, 1))
	var pieces []string
	for rest := string(data); rest != ""; {
		n := min(1+rng.IntN(1+int(seed%97)), len(rest))
		pieces, rest = append(pieces, rest[:n]), rest[n:]
	}
	play(t, Config{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		list = append(list, messageOf(r))
	}), Limits: Limits{Header: 64 << 10, Target: 16 << 10, Fields: 1000}}, pieces...)
	return list
}

// agree checks that both see the same requests, as long as ours accepts them: two
// readers that put the end of a message in different places are request smuggling.
func agree(t testing.TB, data []byte, seed uint64) (accepted int) {
	t.Helper()
	// A request after the rest tells whether both stand at the same octet.
	data = append(bytes.Clone(data), "GET /after HTTP/1.1\r\nHost: after\r\n\r\n"...)
	got, want := ours(t, data, seed), theirs(data)
	if other := ours(t, data, seed+1); len(other) != len(got) {
		t.Fatalf("%q\ncut in one way there are %d requests, in another %d", data, len(got), len(other))
	}
	for i := range got {
		if got[i].failed {
			break
		}
		accepted++
		if i >= len(want) {
			t.Fatalf("%q\n%d: we see %+v, net/http sees nothing", data, i, got[i])
		}
		g, w := got[i], want[i]
		same := g.line == w.line && g.body == w.body && !w.failed &&
			maps.EqualFunc(g.header, w.header, slices.Equal) && maps.EqualFunc(g.trailer, w.trailer, slices.Equal)
		if !same {
			t.Fatalf("%q\n%d: we see       %+v\nnet/http sees %+v", data, i, g, w)
		}
	}
	return accepted
}

// Parts out of which requests are made, good and bad, so that every rule meets
// every other.
var (
	someLines = []string{
		"GET / HTTP/1.1\r\n", "POST /a?b=c HTTP/1.1\r\n", "POST /%41%2f//x HTTP/1.1\r\n", "HEAD /'() HTTP/1.1\r\n",
		"PUT http://a/x HTTP/1.1\r\n", "OPTIONS * HTTP/1.1\r\n", "POST / HTTP/1.0\r\n", "POST /? HTTP/1.1\r\n", "POST / HTTP/1.1\n", "X / HTTP/1.1\r\n",
	}
	someFields = []string{
		"Host: a\r\n", "Host: a\r\n", "Host: a\r\n", "Connection: keep-alive\r\n", "Connection: close\r\n", "X-Y: z\r\n", "x-y:\t1 \r\n", "X-Y:\r\n",
		"Content-Length: 5\r\n", "Content-Length: 0\r\n", "Content-Length: 005\r\n", "Transfer-Encoding: chunked\r\n", "transfer-encoding:\tChunked\t\r\n",
		"Trailer: Sum\r\n", "Expect: 100-continue\r\n", "Pragma: no-cache\r\n", "Content-Length : 5\r\n", " folded\r\n", "A: \x00\r\n", "Content-Length: 5\n", "Upgrade: h2c\r\n",
	}
	someBodies = []string{
		"", "", "12345", "5\r\n12345\r\n0\r\n\r\n", "005;x=\"y\"\r\n12345\r\n00\r\nSum: 1\r\n\r\n", "0\r\n\r\n", "1\r\nx\r\n1\r\ny\r\n0\r\nSum: 1\r\nSum: 2\r\n\r\n",
		"5\n12345\r\n0\r\n\r\n", "5\r\n12345\n0\r\n\r\n", "5 \r\n12345\r\n0\r\n\r\n", "ffffffffffffffff\r\n", "5\r\n123456\r\n0\r\n\r\n", "0\r\nHost: b\r\n\r\n", "5;\x00\r\n12345\r\n0\r\n\r\n",
	}
)

func someRequest(rng *rand.Rand) string {
	var b strings.Builder
	pick := func(list []string) { b.WriteString(list[rng.IntN(len(list))]) }
	pick(someLines)
	for range 1 + rng.IntN(4) {
		pick(someFields)
	}
	b.WriteString("\r\n")
	pick(someBodies)
	return b.String()
}

// Requests in a row, made of good and bad parts, cut at random: both readers see
// the same ones.
func TestSameBoundaries(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for i := range 30_000 {
		var b strings.Builder
		for range 1 + rng.IntN(4) {
			b.WriteString(someRequest(rng))
		}
		accepted += agree(t, []byte(b.String()), uint64(i))
	}
	if accepted < 4_000 {
		t.Errorf("only %d requests were accepted: that proves little", accepted)
	}
}

func FuzzSameBoundaries(f *testing.F) {
	for _, list := range refused {
		for _, c := range list {
			f.Add([]byte(c.text), uint64(3))
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 200 {
		f.Add([]byte(someRequest(rng)+someRequest(rng)), uint64(i))
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		if len(data) > 8<<10 {
			return
		}
		agree(t, data, seed)
	})
}
