package h1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"
)

// what the tests of answers look at.
type read struct {
	head    error
	status  int
	body    string
	err     error
	trailer string
	kept    bool
}

func readAnswer(said string, bodiless bool, cuts ...byte) read {
	w := &wire{said: []byte(said), cuts: cuts}
	c := begun(w)
	var got read
	h, err := final(c, bodiless)
	if got.head = err; err != nil {
		c.Release()
		return got
	}
	got.status = h.Status
	body, err := io.ReadAll(c)
	got.body, got.err = string(body), err
	for _, f := range c.Trailer() {
		got.trailer += f.Name + "=" + f.Value + ";"
	}
	c.Release()
	got.kept = !w.closed
	return got
}

func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, said string
		want       read
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", read{status: 200, body: "body", kept: true}},
		{"no reason", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", read{status: 200, kept: true}},
		{"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 4\n\nbody", read{status: 200, body: "body", kept: true}},
		{"twice the same length", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nbody", read{status: 200, body: "body", kept: true}},
		{"close", "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 4\r\n\r\nbody", read{status: 200, body: "body"}},
		{"to the end", "HTTP/1.1 200 OK\r\n\r\nbody", read{status: 200, body: "body"}},
		{"1.0", "HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nbody", read{status: 200, body: "body"}},
		{"1.0, kept", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\nbody", read{status: 200, body: "body", kept: true}},
		{"bytes behind", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbodyHTTP/1.1 200 OK\r\n\r\n", read{status: 200, body: "body"}},
		{"bytes behind chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nx", read{status: 200}},
		{"bytes behind 204", "HTTP/1.1 204 No\r\n\r\nx", read{status: 204}},
		{"204 with a length", "HTTP/1.1 204 No\r\nContent-Length: 1\r\n\r\n", read{status: 204}},
		{"204 with a coding", "HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n", read{status: 204}},
		{"304 with a length", "HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n", read{status: 304, kept: true}},
		{"101", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", read{status: 101}},
		{"interim", "HTTP/1.1 103 E\r\nLink: x\r\n\r\nHTTP/1.1 102 P\r\n\r\nHTTP/1.1 201 C\r\nContent-Length: 0\r\n\r\n", read{status: 201, kept: true}},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n4\r\nbody\r\n0a ;x=1\r\n0123456789\r\n0\r\n\r\n", read{status: 200, body: "body0123456789", kept: true}},
		{"trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na: 1\r\nB:2 \r\n\r\n", read{status: 200, trailer: "A=1;B=2;", kept: true}},

		{"cut", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbody", read{status: 200, body: "body", err: io.ErrUnexpectedEOF}},
		{"chunk cut", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbody", read{status: 200, body: "body", err: io.ErrUnexpectedEOF}},
		{"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n", read{status: 200, body: "body", err: io.ErrUnexpectedEOF}},
		{"trailer cut", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na: 1\r\n", read{status: 200, err: io.ErrUnexpectedEOF}},
		{"chunk too long", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbody\r\n0\r\n\r\n", read{status: 200, body: "bod", err: ErrMalformed}},
		{"chunk of a bare feed", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\nbody\n0\n\n", read{status: 200, err: ErrMalformed}},
		{"chunk without a size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n;x\r\n", read{status: 200, err: ErrMalformed}},
		{"chunk of a sign", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+4\r\nbody\r\n0\r\n\r\n", read{status: 200, err: ErrMalformed}},
		{"chunk of a prefix", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x4\r\nbody\r\n0\r\n\r\n", read{status: 200, err: ErrMalformed}},
		{"chunk too large", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n", read{status: 200, err: ErrMalformed}},
		{"endless line of a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;" + strings.Repeat("x", 5000) + "\r\nbody\r\n", read{status: 200, err: ErrMalformed}},
		{"trailer of a bare feed", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\nHTTP/1.1 200 OK\r\n\r\n", read{status: 200, err: ErrMalformed}},
		{"trailer split", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na: 1\n\nb: 2\r\n\r\n", read{status: 200, err: ErrMalformed}},

		{"both framings", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", read{head: ErrMalformed}},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nbody", read{head: ErrMalformed}},
		{"two lengths in one", "HTTP/1.1 200 OK\r\nContent-Length: 4, 4\r\n\r\nbody", read{head: ErrMalformed}},
		{"signed length", "HTTP/1.1 200 OK\r\nContent-Length: +4\r\n\r\nbody", read{head: ErrMalformed}},
		{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\nbody", read{head: ErrMalformed}},
		{"empty length", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nbody", read{head: ErrMalformed}},
		{"huge length", "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\nbody", read{head: ErrMalformed}},
		{"two codings", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", read{head: ErrMalformed}},
		{"coding twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", read{head: ErrMalformed}},
		{"chunks of 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", read{head: ErrMalformed}},
		{"folded", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", read{head: ErrMalformed}},
		{"space before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 4\r\n\r\nbody", read{head: ErrMalformed}},
		{"no colon", "HTTP/1.1 200 OK\r\nX\r\n\r\n", read{head: ErrMalformed}},
		{"bare return", "HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n", read{head: ErrMalformed}},
		{"NUL", "HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n", read{head: ErrMalformed}},
		{"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", read{head: ErrMalformed}},
		{"no HTTP", "SSH-2.0-x\r\n\r\n", read{head: ErrMalformed}},
		{"status below 100", "HTTP/1.1 099 X\r\n\r\n", read{head: ErrMalformed}},
		{"status of two digits", "HTTP/1.1 20 X\r\n\r\n", read{head: ErrMalformed}},
		{"empty line first", "\r\nHTTP/1.1 200 OK\r\n\r\n", read{head: ErrMalformed}},
		{"nothing", "", read{head: io.EOF}},
		{"half a head", "HTTP/1.1 200 OK\r\n", read{head: io.ErrUnexpectedEOF}},
		{"endless head", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", defaultMaxHead) + "\r\n\r\n", read{head: ErrTooLarge}},
		{"endless line", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*defaultMaxHead), read{head: ErrTooLarge}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, cuts := range [][]byte{nil, make([]byte, len(tt.said)), {20, 5, 1}} {
				got := readAnswer(tt.said, false, cuts...)
				if !errors.Is(got.head, tt.want.head) || !errors.Is(got.err, tt.want.err) {
					t.Fatalf("cuts %.10v: %v, %v", cuts, got.head, got.err)
				}
				got.head, got.err = tt.want.head, tt.want.err
				if cuts != nil && tt.want.err == nil && !tt.want.kept {
					got.kept = tt.want.kept // what has not come yet cannot be seen
				}
				if got != tt.want {
					t.Errorf("cuts %.10v: got %+v, want %+v", cuts, got, tt.want)
				}
			}
		})
	}
}

func TestHeadHasNoBody(t *testing.T) {
	for _, head := range []string{"Content-Length: 9", "Transfer-Encoding: chunked", "X: y"} {
		if got := readAnswer("HTTP/1.1 200 OK\r\n"+head+"\r\n\r\n", true); got != (read{status: 200, kept: true}) {
			t.Errorf("%s: %+v", head, got)
		}
	}
}

func TestFields(t *testing.T) {
	c := begun(&wire{said: []byte("HTTP/1.1 200 OK\r\nset-cookie: a\r\nSet-Cookie:b\r\nEmpty:\r\nX:  \t ä \r\nTrailer: a,, b\r\n\r\n")})
	h, err := c.ReadHead(false)
	if err != nil {
		t.Fatal(err)
	}
	want := []Field{{"Set-Cookie", "a"}, {"Set-Cookie", "b"}, {"Empty", ""}, {"X", "ä"}, {"Trailer", "a,, b"}}
	if !slices.Equal(h.Fields, want) || !slices.Equal(h.Announced, []string{"A", "B"}) {
		t.Errorf("%q, %q", h.Fields, h.Announced)
	}
}

// FuzzAnswer: what is accepted has the boundaries that net/http sees.
func FuzzAnswer(f *testing.F) {
	for _, said := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbodyrest",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nbody\r\n0\r\nA: b\r\n\r\nrest",
		"HTTP/1.0 200 OK\nX:y\n\nto the end",
		"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 304 N\r\nContent-Length: 3\r\n\r\n",
		"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\nrest",
		"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00\r\nA: b\n\r\n\r\nrest",
	} {
		f.Add([]byte(said), []byte{3, 1, 0, 30}, false)
		f.Add([]byte(said), []byte{}, true)
	}
	f.Fuzz(func(t *testing.T, said, cuts []byte, bodiless bool) {
		c := begun(&wire{said: slices.Clone(said), cuts: cuts})
		h, err := final(c, bodiless)
		if err != nil {
			return
		}
		method := http.MethodGet
		if bodiless {
			method = http.MethodHead
		}
		br := bufio.NewReader(bytes.NewReader(said))
		theirs := final200(t, br, method)
		if theirs == nil {
			t.Fatalf("net/http refuses what we take: %q", said)
		}
		if theirs.StatusCode != h.Status || theirs.ContentLength != h.Length && !bodiless {
			t.Fatalf("%d of %d bytes, net/http sees %d of %d", h.Status, h.Length, theirs.StatusCode, theirs.ContentLength)
		}
		sameFields(t, h.Fields, theirs.Header)
		body, err := io.ReadAll(c)
		if err != nil {
			return
		}
		want, werr := io.ReadAll(theirs.Body)
		if werr != nil || !bytes.Equal(body, want) {
			t.Fatalf("body %q, net/http sees %q, %v", body, want, werr)
		}
		rest, err := io.ReadAll(io.MultiReader(bytes.NewReader(c.buffer[c.r:c.w]), c.raw))
		theirRest, _ := io.ReadAll(br)
		if err != nil || !bytes.Equal(rest, theirRest) {
			t.Fatalf("rest %q, net/http sees %q, %v", rest, theirRest, err)
		}
		var trailer http.Header
		for _, f := range c.Trailer() {
			if trailer == nil {
				trailer = http.Header{}
			}
			trailer.Add(f.Name, f.Value)
		}
		for name, values := range theirs.Trailer {
			if values != nil && !slices.Equal(values, trailer[name]) {
				t.Fatalf("trailer %v, net/http sees %v", trailer, theirs.Trailer)
			}
		}
	})
}

// final200 reads answers as net/http does up to the final one; nil if one cannot be
// read.
func final200(t *testing.T, br *bufio.Reader, method string) *http.Response {
	t.Helper()
	for {
		res, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			return nil
		}
		if res.StatusCode < 100 || res.StatusCode > 199 || res.StatusCode == http.StatusSwitchingProtocols {
			return res
		}
	}
}

// sameFields compares fields but for those that net/http takes out of a header.
func sameFields(t *testing.T, fields []Field, theirs http.Header) {
	t.Helper()
	ours := http.Header{}
	for _, f := range fields {
		ours[f.Name] = append(ours[f.Name], textproto.TrimString(f.Value))
	}
	for _, name := range []string{"Content-Length", "Transfer-Encoding", "Trailer"} {
		delete(ours, name)
		theirs.Del(name)
	}
	for _, h := range []http.Header{ours, theirs} { // net/http makes Cache-Control of Pragma
		delete(h, "Cache-Control")
	}
	if !maps.EqualFunc(ours, theirs, slices.Equal) {
		t.Fatalf("header %q, net/http sees %q", ours, theirs)
	}
}
