package h1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestAppendHead(t *testing.T) {
	for _, tt := range []struct {
		r    Request
		want string
	}{
		{Request{Method: "GET", Path: "/a", Query: "b", Host: "h:1"}, "GET /a?b HTTP/1.1\r\nHost: h:1\r\n\r\n"},
		{
			Request{Method: "GET", Path: "/", Host: "h", Header: http.Header{
				"B": {"2", ""}, "A": {"1"}, "Host": {"x"}, "Content-Length": {"7"}, "Transfer-Encoding": {"gzip"}, "Trailer": {"T"}, "None": nil,
			}},
			"GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\nB: 2\r\nB: \r\n\r\n",
		},
		{Request{Method: "POST", Path: "/", Host: "h"}, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"},
		{Request{Method: "DELETE", Path: "/", Host: "h"}, "DELETE / HTTP/1.1\r\nHost: h\r\n\r\n"},
		{Request{Method: "GET", Path: "/", Asks: true, Host: "h"}, "GET /? HTTP/1.1\r\nHost: h\r\n\r\n"},
		{Request{Method: "DELETE", Path: "/", Host: "h", Length: 3}, "DELETE / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n"},
		{
			Request{Method: "PUT", Path: "/", Host: "h", Length: -1, Trailer: http.Header{"Sum": nil, "Content-Length": nil}},
			"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: Sum\r\n\r\n",
		},
	} {
		got, err := AppendHead([]byte("before"), &tt.r)
		if string(got) != "before"+tt.want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, tt.want)
		}
	}
}

// A request that would become another is not written.
func TestNoRequestInARequest(t *testing.T) {
	for name, r := range map[string]Request{
		"method":       {Method: "GET /x HTTP/1.1\r\nHost: h\r\n\r\nGET", Path: "/", Host: "h"},
		"target":       {Method: "GET", Path: "/", Query: "a HTTP/1.1\r\nX: y\r\n", Host: "h"},
		"target space": {Method: "GET", Path: "/ x", Host: "h"},
		"host":         {Method: "GET", Path: "/", Host: "h\r\nX: y"},
		"host feed":    {Method: "GET", Path: "/", Host: "h\nX: y"},
		"name":         {Method: "GET", Path: "/", Host: "h", Header: http.Header{"X: y\r\nZ": {"1"}}},
		"value":        {Method: "GET", Path: "/", Host: "h", Header: http.Header{"X": {"y\r\n\r\nGET / HTTP/1.1"}}},
		"value return": {Method: "GET", Path: "/", Host: "h", Header: http.Header{"X": {"y\rz"}}},
		"value NUL":    {Method: "GET", Path: "/", Host: "h", Header: http.Header{"X": {"y\x00"}}},
		"trailer":      {Method: "PUT", Path: "/", Host: "h", Length: -1, Trailer: http.Header{"X\r\nY": nil}},
	} {
		if got, err := AppendHead(nil, &r); !errors.Is(err, ErrRequest) || len(got) != 0 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := AppendLastChunk(nil, http.Header{"X": {"y\r\n\r\nGET"}}); !errors.Is(err, ErrRequest) {
		t.Error(err)
	}
}

func TestChunk(t *testing.T) {
	for _, n := range []int{1, 15, 16, 255, 32 << 10} {
		p := make([]byte, ChunkRoom+n+2)
		copy(p[ChunkRoom:], bytes.Repeat([]byte("x"), n))
		chunk := Chunk(p, n)
		last, err := AppendLastChunk(nil, http.Header{"Sum": {"1"}, "Host": {"forged"}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + string(chunk) + string(last))))
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(r.Body); len(body) != n || err != nil {
			t.Errorf("%d: %d bytes, %v", n, len(body), err)
		}
		if len(r.Trailer) != 1 || r.Trailer.Get("Sum") != "1" {
			t.Errorf("%v", r.Trailer)
		}
	}
}

// FuzzAppendHead: what is written is one request, and the one that was meant.
func FuzzAppendHead(f *testing.F) {
	f.Add("GET", "/a?b=c", "h", "X", "y", int64(0))
	f.Add("POST", "/", "h:80", "Content-Length", "9\r\n\r\nGET / HTTP/1.1", int64(3))
	f.Add("PUT", "*", "[::1]", "Transfer-Encoding", "chunked", int64(-1))
	f.Fuzz(func(t *testing.T, method, target, host, name, value string, length int64) {
		p, err := AppendHead(nil, &Request{Method: method, Path: target, Host: host, Header: http.Header{name: {value}}, Length: length})
		if err != nil {
			return
		}
		if n := bytes.Index(p, []byte("\r\n\r\n")); n != len(p)-4 {
			t.Fatalf("the head ends at %d of %q", n, p)
		}
		br := bufio.NewReader(bytes.NewReader(p))
		r, err := http.ReadRequest(br)
		if err != nil {
			return // what it was made of is no method, target or name: the caller's face has refused it
		}
		if r.Method != method || r.RequestURI != target || max(length, -1) != r.ContentLength {
			t.Fatalf("%q was read as %s %s of %d", p, r.Method, r.RequestURI, r.ContentLength)
		}
		if br.Buffered() != 0 {
			t.Fatalf("%q holds more than a head", p)
		}
	})
}
