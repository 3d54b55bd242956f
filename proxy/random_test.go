package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// conduct is how an upstream answers one request.
type conduct struct {
	framing string // length, chunked or close
	size    int
	cuts    []int  // where the answer is split into writes
	interim int    // informational answers before
	breaks  int    // the answer is cut off after so many bytes; -1: it is not
	extra   string // comes behind the answer, unasked
	says    bool   // the answer says close
	reads   bool   // the body of the request is read before
}

func conducts() *rapid.Generator[conduct] {
	return rapid.Custom(func(t *rapid.T) conduct {
		c := conduct{
			framing: rapid.SampledFrom([]string{"length", "length", "chunked", "chunked", "close"}).Draw(t, "framing"),
			size:    rapid.SampledFrom([]int{0, 1, 100, 3000, 5000, 70_000}).Draw(t, "size"),
			cuts:    rapid.SliceOfN(rapid.IntRange(1, 6000), 0, 4).Draw(t, "cuts"),
			interim: rapid.IntRange(0, 2).Draw(t, "interim"),
			breaks:  -1,
			says:    rapid.IntRange(0, 5).Draw(t, "says") == 0,
			reads:   rapid.IntRange(0, 4).Draw(t, "reads") > 0,
		}
		switch rapid.IntRange(0, 7).Draw(t, "odd") {
		case 0:
			c.breaks = rapid.IntRange(0, 60).Draw(t, "breaks")
		case 1:
			c.extra = rapid.SampledFrom([]string{"x", "\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"}).Draw(t, "extra")
		}
		return c
	})
}

// answer is what the conduct makes of request id.
func (c conduct) answer(id string) (all, body string) {
	body = strings.Repeat("b", c.size) + "#" + id
	head := "HTTP/1.1 200 OK\r\nId: " + id + "\r\n"
	if c.says {
		head += "Connection: close\r\n"
	}
	for range c.interim {
		all += "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
	}
	switch c.framing {
	case "length":
		return all + head + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body, body
	case "chunked":
		return all + head + "Transfer-Encoding: chunked\r\n\r\n" +
			fmt.Sprintf("%x\r\n%s\r\n%x;x=y\r\n%s\r\n0\r\nSum: %s\r\n\r\n", 1, body[:1], len(body)-1, body[1:], id), body
	}
	return all + head + "\r\n" + body, body
}

// ends reports whether the upstream closes after its answer to a request with a body
// of that length.
func (c conduct) ends(length int64) bool {
	return c.framing == "close" || c.extra == "" && (c.says || c.breaks >= 0 || !c.reads && length != 0)
}

// An upstream that behaves in any way never gives a caller another's answer, never
// makes a broken answer look whole, and gets no request on a connection of which
// nobody can say where it stands.
func TestRandomUpstreams(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plan := rapid.SliceOfN(conducts(), 1, 8).Draw(rt, "plan")
		var mu sync.Mutex
		spoiled := map[net.Conn]string{} // connections on which no request may come any more
		ended := make(chan struct{}, len(plan))
		up, conns := talking(t, func(conn net.Conn, br *bufio.Reader) {
			for {
				r, err := http.ReadRequest(br)
				if err != nil {
					return
				}
				mu.Lock()
				if why := spoiled[conn]; why != "" {
					rt.Errorf("request %s came on a connection after: %s", r.Header.Get("Id"), why)
				}
				mu.Unlock()
				id := r.Header.Get("Id")
				i, err := strconv.Atoi(id)
				if err != nil {
					return
				}
				c := plan[i]
				if c.reads {
					if n, err := io.Copy(io.Discard, r.Body); err != nil || n != r.ContentLength && r.ContentLength >= 0 {
						rt.Errorf("request %s: %d bytes of %d, %v", id, n, r.ContentLength, err)
					}
				}
				all, _ := c.answer(id)
				if c.breaks >= 0 {
					all = all[:min(c.breaks, len(all)-1)]
				}
				mu.Lock()
				switch {
				case c.extra != "":
					spoiled[conn] = "bytes behind the answer"
				case c.says:
					spoiled[conn] = "close"
				case c.breaks >= 0 || c.framing == "close" || !c.reads && r.ContentLength != 0:
					spoiled[conn] = "the end"
				}
				mu.Unlock()
				if c.ends(r.ContentLength) {
					defer func() { //nolint:gocritic // it is the last request of the connection
						_ = conn.Close()
						ended <- struct{}{}
					}()
				}
				cuts := c.cuts
				if c.extra != "" { // it comes at once with the last byte: in a write that is no longer than a segment
					cuts = append(slices.Clone(cuts), len(all))
				}
				for _, cut := range cuts {
					cut = min(cut, max(len(all)-1, 0))
					if _, err := io.WriteString(conn, all[:cut]); err != nil {
						return
					}
					all = all[cut:]
				}
				if _, err := io.WriteString(conn, all+c.extra); err != nil || c.ends(r.ContentLength) {
					return
				}
			}
		})
		n := &notes{}
		p := newProxy(t, n, up)
		defer p.Close()
		for i, c := range plan {
			id := strconv.Itoa(i)
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			if size := rapid.SampledFrom([]int{0, 0, 10, 70_000}).Draw(rt, "body"); size > 0 {
				r = httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("r", size)))
				if rapid.Bool().Draw(rt, "chunked") {
					r.ContentLength = -1
				}
			}
			r.Header.Set("Id", id)
			w, cut := call(p, r)
			if c.ends(r.ContentLength) {
				<-ended // who closes without a word may be asked once more in that moment, and that is no fault of ours
			}
			_, body := c.answer(id)
			said := n.said()
			whole := c.breaks < 0 && (c.reads || r.ContentLength == 0)
			switch {
			case w.Code == http.StatusOK && !cut:
				if c.framing == "close" && c.breaks >= 0 {
					continue // the one framing in which a cut cannot be seen
				}
				if got := w.Body.String(); w.Header().Get("Id") != id || got != body && got != body+c.extra {
					rt.Fatalf("request %s got %.60q of %q, %s", id, got, w.Header().Get("Id"), said)
				}
				if c.breaks >= 0 {
					rt.Fatalf("request %s: a broken answer looks whole", id)
				}
			case whole:
				rt.Fatalf("request %s: %d, cut %v, %s of %+v", id, w.Code, cut, said, c)
			}
		}
		if got := conns.Load(); got > int64(len(plan)) {
			rt.Errorf("%d connections for %d requests", got, len(plan))
		}
	})
}
