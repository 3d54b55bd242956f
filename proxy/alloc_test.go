package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/proxy"
)

// What an exchange allocates: the exchange, the text of the answer's head and the
// list of its values; with a body, what reads it. The bounds leave room for a pool
// that the collector has emptied.
func TestForwardAllocates(t *testing.T) {
	if racing {
		t.Skip("the race detector allocates")
	}
	p, err := proxy.New(proxy.Config{
		Upstreams: []*url.URL{address(t, canned(t))}, Breaker: &breaker.Config{},
		Forward: func(*http.Request, http.Header) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for body, most := range map[string]float64{"": 4, strings.Repeat("x", 10<<10): 7} {
		r := httptest.NewRequest(http.MethodPost, "/orders?expand=lines", http.NoBody)
		r.Header.Set("Accept", "application/json")
		r.Header.Set("Authorization", "Bearer 0123456789abcdef")
		r.ContentLength = int64(len(body))
		reader := strings.NewReader(body)
		callers := io.NopCloser(reader)
		w := &blank{http.Header{}}
		got := testing.AllocsPerRun(200, func() {
			clear(w.h)
			if body != "" {
				reader.Reset(body)
				r.Body = callers
			}
			p.ServeHTTP(w, r)
		})
		if got > most {
			t.Errorf("a body of %d bytes: %v allocations, want at most %v", len(body), got, most)
		}
	}
}
