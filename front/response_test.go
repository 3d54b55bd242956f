package front

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/comporta/comporta"
)

// head returns the sorted lines of an answer's head without Date, and the rest.
func parts(text string) (lines []string, rest string) {
	head, rest, _ := strings.Cut(text, "\r\n\r\n")
	lines = strings.Split(head, "\r\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "Date: ") })
	slices.Sort(lines[1:])
	return lines, rest
}

// How the end of an answer is told, by what the handler does.
func TestFramingOfAnswers(t *testing.T) {
	write := func(texts ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for _, text := range texts {
				_, _ = io.WriteString(w, text)
			}
		}
	}
	flushed := func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, "ab")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "c")
	}
	long := strings.Repeat("x", 10_000)
	for _, c := range []struct {
		name    string
		method  string
		version string
		do      func(http.ResponseWriter)
		want    string // lines without the date, then the body
	}{
		{"nothing", "GET", "1.1", write(), "HTTP/1.1 200 OK|Content-Length: 0||"},
		{"small", "GET", "1.1", write("ab", "c"), "HTTP/1.1 200 OK|Content-Length: 3||abc"},
		{"flushed", "GET", "1.1", flushed, "HTTP/1.1 200 OK|Transfer-Encoding: chunked||2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"},
		{"flushed, old", "GET", "1.0", flushed, "HTTP/1.1 200 OK|Connection: close||abc"},
		{"long", "GET", "1.1", write("a", long), "HTTP/1.1 200 OK|Transfer-Encoding: chunked||2711\r\na" + long + "\r\n0\r\n\r\n"},
		{"long, old", "GET", "1.0", write("a", long), "HTTP/1.1 200 OK|Connection: close||a" + long},
		{"small, old", "GET", "1.0", write("abc"), "HTTP/1.1 200 OK|Connection: close|Content-Length: 3||abc"},
		{"declared", "GET", "1.1", func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "10001")
			write("a", long)(w)
		}, "HTTP/1.1 200 OK|Content-Length: 10001||a" + long},
		{"head", "HEAD", "1.1", write("abc"), "HTTP/1.1 200 OK|Content-Length: 3||"},
		{"head, declared", "HEAD", "1.1", func(w http.ResponseWriter) { w.Header().Set("Content-Length", "77") }, "HTTP/1.1 200 OK|Content-Length: 77||"},
		{"head, long", "HEAD", "1.1", write(long), "HTTP/1.1 200 OK|Content-Length: 10000||"},
		{"no content", "GET", "1.1", func(w http.ResponseWriter) {
			w.WriteHeader(204)
			if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Error(err)
			}
		}, "HTTP/1.1 204 No Content||"},
		{"not modified", "GET", "1.1", func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "5")
			w.Header().Set("Etag", `"x"`)
			w.WriteHeader(304)
		}, `HTTP/1.1 304 Not Modified|Content-Length: 5|Etag: "x"||`},
		{"unknown status", "GET", "1.1", func(w http.ResponseWriter) { w.WriteHeader(799) }, "HTTP/1.1 799 |Content-Length: 0||"},
		{"close", "GET", "1.1", func(w http.ResponseWriter) { w.Header().Set("Connection", "close") }, "HTTP/1.1 200 OK|Connection: close|Content-Length: 0||"},
		{"coding of the handler", "GET", "1.1", func(w http.ResponseWriter) {
			w.Header().Set("Transfer-Encoding", "gzip")
			write("abc")(w)
		}, "HTTP/1.1 200 OK|Content-Length: 3||abc"},
		{"header after the head", "GET", "1.1", func(w http.ResponseWriter) {
			w.WriteHeader(200)
			w.Header().Set("Late", "1")
			w.WriteHeader(500)
		}, "HTTP/1.1 200 OK|Content-Length: 0||"},
		{"splitting", "GET", "1.1", func(w http.ResponseWriter) {
			w.Header()["X"] = []string{"a\r\nY: b", "\x00"}
			w.Header()["Bad Name"] = []string{"a"}
			w.Header()["None"] = nil
		}, "HTTP/1.1 200 OK|Content-Length: 0|X:  |X: a  Y: b||"},
		{"trailer, announced", "GET", "1.1", func(w http.ResponseWriter) {
			w.Header().Set("Trailer", "sum")
			write("abc")(w)
			w.Header().Set("Sum", "1")
		}, "HTTP/1.1 200 OK|Trailer: sum|Transfer-Encoding: chunked||3\r\nabc\r\n0\r\nSum: 1\r\n\r\n"},
		{"trailer by its prefix", "GET", "1.1", func(w http.ResponseWriter) {
			w.WriteHeader(200)
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "14")
		}, "HTTP/1.1 200 OK|Transfer-Encoding: chunked||0\r\nGrpc-Status: 14\r\n\r\n"},
		{"trailer, old", "GET", "1.0", func(w http.ResponseWriter) {
			write("abc")(w)
			w.Header().Set(http.TrailerPrefix+"Sum", "1")
		}, "HTTP/1.1 200 OK|Connection: close|Content-Length: 3||abc"},
		{"informed", "GET", "1.1", func(w http.ResponseWriter) {
			w.Header().Set("Link", "</a>")
			w.WriteHeader(103)
			w.Header().Del("Link")
		}, "HTTP/1.1 103 Early Hints|Link: </a>||HTTP/1.1 200 OK|Content-Length: 0||"},
		{"informed, old", "GET", "1.0", func(w http.ResponseWriter) { w.WriteHeader(103) }, "HTTP/1.1 200 OK|Connection: close|Content-Length: 0||"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := play(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.do(w) })},
				c.method+" / HTTP/"+c.version+"\r\nHost: a\r\n\r\n")
			var said strings.Builder
			for rest := got; ; {
				var lines []string
				lines, rest = parts(rest)
				said.WriteString(strings.Join(lines, "|") + "||")
				if !strings.HasPrefix(lines[0], "HTTP/1.1 103") {
					said.WriteString(rest)
					break
				}
			}
			if said.String() != c.want {
				t.Errorf("got  %q\nwant %q", said.String(), c.want)
			}
		})
	}
}

// A head of any size leaves whole, and the memory for it is not kept.
func TestLargeHead(t *testing.T) {
	for size := 3 << 10; size < 5<<10; size++ {
		got := play(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", size))
			_, _ = io.WriteString(w, "abc")
		})}, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		res, body := answer(t, bufio.NewReader(strings.NewReader(got)), "GET")
		if len(res.Header.Get("X")) != size || body != "abc" {
			t.Fatalf("%d: %v %q", size, res, body)
		}
	}
}

// What a handler writes arrives, however it is cut into pieces and flushed.
func TestPiecesOfAnswers(t *testing.T) {
	for step := 1; step < 9000; step += 371 {
		for _, declared := range []bool{false, true} {
			var want strings.Builder
			got := play(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				want.Reset()
				if declared {
					w.Header().Set("Content-Length", "30000")
				}
				for i := 0; want.Len() < 30_000; i++ {
					piece := strings.Repeat(string(rune('a'+i%26)), min(step+i%7, 30_000-want.Len()))
					if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
						t.Fatal(n, err)
					}
					want.WriteString(piece)
					if i%5 == 4 {
						w.(http.Flusher).Flush()
					}
				}
			})}, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			r := bufio.NewReader(strings.NewReader(got))
			for range 2 {
				if _, body := answer(t, r, "GET"); body != want.String() {
					t.Fatalf("%d %t: %d octets", step, declared, len(body))
				}
			}
		}
	}
}

// A handler that promises more than it writes must not look as if it had kept the
// promise; one that writes more is told.
func TestContentLengthIsKept(t *testing.T) {
	short := play(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "abc")
	})}, "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if strings.Count(short, "HTTP/1.1 200") != 1 || !strings.HasSuffix(short, "abc") {
		t.Errorf("%q", short)
	}
	long := play(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "2")
		if _, err := io.WriteString(w, "abc"); !errors.Is(err, http.ErrContentLength) {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "ab")
	})}, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if !strings.HasSuffix(long, "\r\n\r\nab") {
		t.Errorf("%q", long)
	}
}

// A panic breaks the connection: no end of a chunked answer, and a reset where only
// the end of the connection tells the end of the answer.
func TestAbortedAnswers(t *testing.T) {
	h := open(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "abc")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})})
	for _, version := range []string{"1.1", "1.0"} {
		c := h.dial(t)
		_, _ = io.WriteString(c, "GET / HTTP/"+version+"\r\nHost: a\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			continue // the reset overtook it
		}
		if b, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("%s: %q looks complete", version, b)
		}
	}
}

// Connections go on as their version and their client want it.
func TestKeepAlive(t *testing.T) {
	const next = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
	for head, again := range map[string]bool{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n":                                     true,
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: foo, Close\r\n\r\n":           false,
		"GET / HTTP/1.0\r\nHost: a\r\n\r\n":                                     false,
		"GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n":           true,
		"GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n": false,
	} {
		got := play(t, Config{Handler: http.HandlerFunc(echo)}, head+next)
		if strings.Contains(got, "/next") != again || strings.Contains(got, "Connection: close") == again {
			t.Errorf("%q: %q", head, got)
		}
	}
}

// Who takes the connection over gets what was read ahead.
func TestHijack(t *testing.T) {
	h := open(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, http.ErrHijacked) {
			t.Error(err)
		}
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
			t.Error(err)
		}
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(conn, rw)
	})})
	c := h.dial(t)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nahead, ")
	r := bufio.NewReader(c)
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 101 {
		t.Fatal(res, err)
	}
	_, _ = io.WriteString(c, "and more")
	_ = c.CloseWrite()
	if b, err := io.ReadAll(r); string(b) != "ahead, and more" || err != nil {
		t.Errorf("%q %v", b, err)
	}
}

// In the middle of a body a connection cannot be taken over: its rest would pass
// for the new protocol.
func TestHijackWithinABody(t *testing.T) {
	got := play(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, _, err := http.NewResponseController(w).Hijack(); err == nil {
			t.Error("taken over")
		}
		w.WriteHeader(http.StatusBadGateway)
	})}, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
	if status(got) != "502" {
		t.Errorf("%q", got)
	}
}

func TestRefuseHook(t *testing.T) {
	var faults []string
	c := Config{Handler: silent(t), Refuse: func(w http.ResponseWriter, r *http.Request, f *Fault) {
		faults = append(faults, fmt.Sprintf("%s %d %s %q %v", f.Reason, f.Status, r.Method, r.URL.Path, r.RemoteAddr))
		refusePlain(w, r, f)
	}}
	for text, want := range map[string]string{
		"nonsense\r\n": `malformed_request 400  "" 192.0.2.7:4711`,
		"POST /x HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n": `malformed_request 417 POST "/x" 192.0.2.7:4711`,
	} {
		faults = nil
		got := play(t, c, text)
		if len(faults) != 1 || faults[0] != want || !strings.Contains(got, comporta.HeaderDecision+": malformed_request\r\n") {
			t.Errorf("%q: %q %q", text, faults, got)
		}
	}
}

// A panic ends its connection and nothing else, also where no handler is asked.
func TestPanics(t *testing.T) {
	var logged strings.Builder
	c := Config{
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("handler") }),
		Refuse:  func(http.ResponseWriter, *http.Request, *Fault) { panic("refuse") },
		Log:     slog.New(slog.NewTextHandler(&logged, nil)),
	}
	for _, text := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "nonsense\r\n"} {
		if got := play(t, c, text); got != "" {
			t.Errorf("%q: %q", text, got)
		}
	}
	if !strings.Contains(logged.String(), "panic=handler") || !strings.Contains(logged.String(), "panic=refuse") {
		t.Error(logged.String())
	}
	logged.Reset()
	c.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if play(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); logged.Len() > 0 {
		t.Errorf("logged as a crash: %s", logged.String())
	}
}

var dates = regexp.MustCompile(`\r\nDate: [A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT\r\n`)

func TestDate(t *testing.T) {
	got := play(t, Config{Handler: http.HandlerFunc(echo)}, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if !dates.MatchString(got) {
		t.Errorf("%q", got)
	}
	own := play(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Date", "mine") })}, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if strings.Count(own, "Date:") != 1 || !strings.Contains(own, "Date: mine\r\n") {
		t.Errorf("%q", own)
	}
}
