package front

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

const chunkedPost = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

// A malformed chunked body is the client's fault, and nothing that follows is a
// request.
func TestChunkedIsStrict(t *testing.T) {
	for name, body := range map[string]string{
		"no size":                   "\r\n",
		"no hexadecimal":            "g\r\n",
		"sign":                      "+5\r\n12345\r\n0\r\n\r\n",
		"prefix":                    "0x5\r\n12345\r\n0\r\n\r\n",
		"space before":              " 5\r\n12345\r\n0\r\n\r\n",
		"space after":               "5 \r\n12345\r\n0\r\n\r\n",
		"overflow":                  "10000000000000005\r\n12345\r\n0\r\n\r\n",
		"size by a line feed":       "5\n12345\r\n0\r\n\r\n",
		"data by a line feed":       "5\r\n12345\n0\r\n\r\n",
		"data too long":             "5\r\n123456\r\n0\r\n\r\n",
		"data too short":            "5\r\n1234\r\n0\r\n\r\n",
		"carriage return in a line": "5\r;x\r\n12345\r\n0\r\n\r\n",
		"control in an extension":   "5;\x01\r\n12345\r\n0\r\n\r\n",
		"long extension":            "5;" + strings.Repeat("x", 2<<10) + "\r\n12345\r\n0\r\n\r\n",
		"many extensions":           strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\nx\r\n", 10) + "0\r\n\r\n",
		"extension without end":     "5;" + strings.Repeat("x", 64<<10),
		"end by a line feed":        "0\r\n\n",
		"trailer by a line feed":    "0\r\nX: 1\n\r\n",
		"folded trailer":            "0\r\nX: 1\r\n 2\r\n\r\n",
		"trailer of framing":        "0\r\nContent-Length: 5\r\n\r\n",
		"trailer of routing":        "0\r\nhost: b\r\n\r\n",
		"trailer of identity":       "0\r\nAuthorization: x\r\n\r\n",
		"trailer of a proxy":        "0\r\nX-Forwarded-For: 1.1.1.1\r\n\r\n",
		"with underscores":          "0\r\nX_Forwarded_For: 1.1.1.1\r\n\r\n",
		"many trailers":             "0\r\n" + strings.Repeat("X: 1\r\n", 40) + "\r\n",
		"large trailer":             "0\r\nX: " + strings.Repeat("x", 16<<10) + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			got := play(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen++
				_, err := io.Copy(io.Discard, r.Body)
				f, ok := errors.AsType[*Fault](err)
				if !ok || f.Reason != comporta.MalformedRequest {
					t.Errorf("got %v", err)
				}
				w.WriteHeader(f.Status)
			})}, chunkedPost+body, "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
			if seen != 1 || status(got) != "400" || !strings.Contains(got, "Connection: close") {
				t.Errorf("%d requests, %q", seen, got)
			}
		})
	}
}

func TestChunkSize(t *testing.T) {
	for line, want := range map[string]int64{"0": 0, "00000000000000f": 15, "aF;x": 0xaf, "fffffffffffffff": 1<<60 - 1} {
		if n, ok := chunkSize([]byte(line)); !ok || n != want {
			t.Errorf("%s: %d %t", line, n, ok)
		}
	}
}

// Trailers come announced or not.
func TestRequestTrailers(t *testing.T) {
	for _, announced := range []string{"", "Trailer: sum, Other\r\n"} {
		got := play(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, known := r.Trailer["Sum"]
			_, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, known, r.Trailer.Values("Sum"), r.Header["Trailer"], err)
		})}, "POST / HTTP/1.1\r\nHost: a\r\n"+announced+"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nsUM: 1\r\nSum: 2\r\n\r\n")
		if want := fmt.Sprint(announced != "", " [1 2] [] <nil>"); !strings.HasSuffix(got, want) {
			t.Errorf("%q, want %s", got, want)
		}
	}
}

// A body that ends too early is no body.
func TestBodyCutShort(t *testing.T) {
	for _, head := range []string{"Content-Length: 10\r\n\r\n123", "Transfer-Encoding: chunked\r\n\r\na\r\n123", "Transfer-Encoding: chunked\r\n\r\n3\r\n123"} {
		play(t, Config{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if b, err := io.ReadAll(r.Body); string(b) != "123" || !errors.Is(err, io.ErrUnexpectedEOF) || r.Context().Err() == nil {
				t.Errorf("%q %v, context: %v", b, err, r.Context().Err())
			}
		})}, "POST / HTTP/1.1\r\nHost: a\r\n"+head)
	}
}

// 100 Continue is sent when the handler reads, and not when it does not want to.
func TestExpectContinue(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n"
	got := play(t, Config{Handler: http.HandlerFunc(echo)}, head, "abc")
	if !strings.HasPrefix(got, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n") || !strings.HasSuffix(got, `"abc" <nil>`) || strings.Contains(got, "Connection: close") {
		t.Errorf("%q", got)
	}
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	if got = play(t, Config{Handler: refuse}, head, "abc"); !strings.HasPrefix(got, "HTTP/1.1 503") || !strings.Contains(got, "Connection: close") {
		t.Errorf("%q", got)
	}
	late := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		echo(w, r)
	})
	if got = play(t, Config{Handler: late}, head, "abc"); strings.Contains(got, "100 Continue") || !strings.Contains(got, `"abc" <nil>`) {
		t.Errorf("100 after the head: %q", got)
	}
	if got = play(t, Config{Handler: http.HandlerFunc(echo)}, strings.Replace(head, "HTTP/1.1", "HTTP/1.0", 1), "abc"); strings.Contains(got, "100 Continue") {
		t.Errorf("100 in HTTP/1.0: %q", got)
	}
	if got = play(t, Config{Handler: http.HandlerFunc(echo)}, strings.Replace(head, "3", "0", 1)); strings.Contains(got, "100 Continue") {
		t.Errorf("100 for no body: %q", got)
	}
}

// Bodies of any size leave the connection where the next request begins, also when
// they fill the buffer to the last octet.
func TestSizesOfBodies(t *testing.T) {
	h := open(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, make([]byte, 100+r.ContentLength%2*bufferSize))
		fmt.Fprint(w, n, err)
	})}).dial(t)
	r := bufio.NewReader(h)
	for size := bufferSize - 100; size < bufferSize+100; size++ {
		_, _ = fmt.Fprintf(h, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
		if _, body := answer(t, r, "POST"); body != fmt.Sprint(size, nil) {
			t.Fatalf("%d: %s", size, body)
		}
	}
}

// A small rest of a body is read, and the connection goes on; a large one ends it.
func TestUnreadBodies(t *testing.T) {
	ignore := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) })
	for _, c := range []struct {
		size  int
		again bool
	}{{10, true}, {drainSize, true}, {drainSize + 1, false}} {
		got := play(t, Config{Handler: ignore}, fmt.Sprintf("POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", c.size),
			strings.Repeat("x", c.size), "GET /second HTTP/1.1\r\nHost: a\r\n\r\n")
		if strings.Contains(got, "/second") != c.again || strings.Contains(got, "Connection: close") == c.again {
			t.Errorf("%d: %q", c.size, got)
		}
	}
	if got := play(t, Config{Handler: ignore}, chunkedPost, "5\r\n12345\r\n", "0\r\n\r\nGET /second HTTP/1.1\r\nHost: a\r\n\r\n"); !strings.HasSuffix(got, "/second") {
		t.Errorf("%q", got)
	}
}

// cases/proxy.md A 16, towards the caller: an answer that comes before the body was
// read can be read, although the client is still sending.
func TestCase_Proxy_A16_EarlyAnswer(t *testing.T) {
	h := open(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too much", http.StatusRequestEntityTooLarge)
	})})
	for range 20 {
		c := h.dial(t)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n")
			_, _ = io.WriteString(c, strings.Repeat("x", 600<<10)) // what the client has under way
		}()
		res, body := answer(t, bufio.NewReader(c), "POST")
		if res.StatusCode != 413 || body != "too much\n" || !res.Close {
			t.Fatalf("%v %q", res, body)
		}
		<-sent
		_ = c.Close()
	}
}

// Reading and writing do not wait for each other.
func TestFullDuplex(t *testing.T) {
	h := open(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if err := rc.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		b := make([]byte, 1)
		for {
			if n, err := r.Body.Read(b); n == 0 && err != nil {
				return
			}
			_, _ = w.Write(b)
			_ = rc.Flush()
		}
	})})
	c := h.dial(t)
	r := bufio.NewReader(c)
	_, _ = io.WriteString(c, chunkedPost+"1\r\na\r\n")
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	for _, x := range "abcdef" {
		if _, err := io.ReadFull(res.Body, b); err != nil || b[0] != byte(x) {
			t.Fatalf("%q %v", b, err)
		}
		if x != 'f' {
			fmt.Fprintf(c, "1\r\n%c\r\n", x+1)
		}
	}
	_, _ = io.WriteString(c, "0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if rest, err := io.ReadAll(res.Body); len(rest) > 0 || err != nil {
		t.Errorf("%q %v", rest, err)
	}
	if res, _ := answer(t, r, "GET"); res.StatusCode != 200 {
		t.Error(res)
	}
}

// A read deadline of the handler ends a read that is under way, from another
// goroutine too.
func TestReadDeadline(t *testing.T) {
	h := open(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		go func() {
			time.Sleep(10 * time.Millisecond) // let it wait; any order is right
			_ = rc.SetReadDeadline(time.Unix(1, 0))
		}()
		_, err := r.Body.Read(make([]byte, 10))
		if !errors.Is(err, os.ErrDeadlineExceeded) || r.Context().Err() != nil {
			t.Errorf("%v, context: %v", err, r.Context().Err())
		}
		w.WriteHeader(http.StatusRequestTimeout)
	})})
	c := h.dial(t)
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
	if res, _ := answer(t, bufio.NewReader(c), "POST"); res.StatusCode != 408 || !res.Close {
		t.Error(res)
	}
}
