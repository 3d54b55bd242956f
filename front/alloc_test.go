package front

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// endless says the same request again and again, and swallows the answers.
type endless struct {
	script

	text string
	at   int // in text
	left int // how often it is still to be said
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return e.script.Read(p) // the end
	}
	n := copy(p, e.text[e.at:])
	if e.at += n; e.at == len(e.text) {
		e.at = 0
		e.left--
	}
	return n, nil
}

func (*endless) Write(p []byte) (int, error) { return len(p), nil }

// allocations returns how many there are in each of many requests on a connection.
func allocations(t *testing.T, text string, h http.HandlerFunc) float64 {
	t.Helper()
	s, err := New(Config{Handler: h, Limits: Limits{HeaderTimeout: time.Second, Idle: time.Second, WriteStall: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	const requests = 1000
	e := &endless{text: text}
	return testing.AllocsPerRun(5, func() {
		e.left = requests
		newConn(s, e, "192.0.2.7:4711", place{}).serve()
	}) / requests
}

// A request costs one allocation: the text of its head, of which all its strings
// are parts. They may outlive it.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, c := range map[string]struct {
		text string
		h    http.HandlerFunc
	}{
		"GET":     {question, answerKilobyte},
		"POST":    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", readAll},
		"chunked": {chunkedPost + "3\r\nabc\r\n0\r\n\r\n", readAll},
		"flushed": {question, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(kilobyte)
			w.(http.Flusher).Flush()
			_, _ = w.Write(kilobyte)
		}},
		"large": {question, func(w http.ResponseWriter, _ *http.Request) {
			for range 4 {
				_, _ = w.Write(large)
			}
		}},
	} {
		if got := allocations(t, c.text, c.h); got > 1.1 {
			t.Errorf("%s: %.2f allocations a request", name, got)
		}
	}
	if got := allocations(t, strings.Replace(question, "/api", "/%41pi", 1), answerKilobyte); got > 4.1 {
		t.Errorf("a path with an escape: %.2f", got)
	}
}

var scrap = make([]byte, 64)

var large = make([]byte, 20<<10)

func readAll(_ http.ResponseWriter, r *http.Request) {
	for {
		if _, err := r.Body.Read(scrap); err != nil {
			return
		}
	}
}
