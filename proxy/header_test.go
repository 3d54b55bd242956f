package proxy_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta/proxy"
)

// seen starts a proxy in front of a service that keeps the header it was asked
// with.
func seen(t *testing.T, change func(*proxy.Config)) (base string, header func() http.Header) {
	t.Helper()
	got := make(chan http.Header, 1)
	up := service(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })
	base, _ = front(t, change, up)
	return base, func() http.Header { return <-got }
}

// cases/proxy.md B 17 and 18: what an outsider says about proxies goes, in every
// spelling, and is written afresh.
func TestCase_Proxy_B17_B18_ForgedForwarding(t *testing.T) {
	base, header := seen(t, nil)
	forged := []string{
		"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "X-Forwarded-Port", "X-Forwarded-Uri",
		"X-Real-Ip", "Forwarded", "Comporta-Decision", "Comporta-Anything",
		"X_Forwarded_For", "X_forwarded-For", "X_Real_IP", "x_Real-Ip", "Comporta_Decision",
	}
	lines := ""
	for _, name := range forged {
		lines += name + ": 6.6.6.6\r\n"
	}
	raw(t, base, "GET / HTTP/1.1\r\nHost: shop.example\r\n"+lines+"X-Forwards: kept\r\nConnection: close\r\n\r\n")
	h := header()
	for name, values := range h {
		if slices.Contains(values, "6.6.6.6") {
			t.Errorf("%s: %q reached the service", name, values)
		}
	}
	for name, want := range map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "shop.example", "X-Forwarded-Proto": "http", "X-Forwards": "kept",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Forward has the last word, so a caller cannot have its headers removed by
// naming them in Connection.
func TestForwardComesAfterHopByHop(t *testing.T) {
	base, header := seen(t, func(c *proxy.Config) {
		c.Forward = func(in *http.Request, out http.Header) {
			out.Set("X-Forwarded-For", in.Header.Get("X-Forwarded-For")+", 10.0.0.1")
		}
	})
	raw(t, base, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close, X-Forwarded-For\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n")
	h := header()
	if got := h.Get("X-Forwarded-For"); got != "203.0.113.9, 10.0.0.1" {
		t.Errorf("X-Forwarded-For: %q", got)
	}
	if got := h.Get("X-Forwarded-Proto"); got != "" {
		t.Errorf("X-Forwarded-Proto: %q", got)
	}
}

func TestHopByHopEndsHere(t *testing.T) {
	base, header := seen(t, nil)
	raw(t, base, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close, x-mine,, \r\nConnection: keep-alive\r\nX-Mine: 1\r\n"+
		"Keep-Alive: 5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: secret\r\nTE: gzip, trailers\r\nX-Kept: 1\r\n\r\n")
	h := header()
	for _, name := range []string{"X-Mine", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Upgrade", "User-Agent", "Accept-Encoding"} {
		if got, ok := h[name]; ok {
			t.Errorf("%s: %q reached the service", name, got)
		}
	}
	if h.Get("X-Kept") != "1" || h.Get("TE") != "trailers" {
		t.Errorf("lost: %v", h)
	}
}

// What Connection nominates is not forwarded, be it what policy reads; what the
// gate leaves of Connection nominates nothing.
func TestNominatedIsNotForwarded(t *testing.T) {
	base, header := seen(t, nil)
	fields := []string{"X-Api-Key", "Authorization", "Cookie", "X-Request-Id", "Retry-Attempt", "Idempotency-Key"}
	lines := ""
	for _, name := range fields {
		lines += name + ": 1\r\n"
	}
	for _, nominated := range []bool{false, true} {
		connection := "close"
		if nominated {
			connection = strings.ToLower(strings.Join(fields, ", ")) + ", close"
		}
		raw(t, base, "GET / HTTP/1.1\r\nHost: h\r\nConnection: "+connection+"\r\n"+lines+"\r\n")
		h := header()
		for _, name := range fields {
			if _, ok := h[name]; ok == nominated {
				t.Errorf("nominated %v: %s is forwarded: %v", nominated, name, ok)
			}
		}
	}
}

func TestAnswersHeader(t *testing.T) {
	up := service(t, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Comporta-Decision", "forged")
		h.Set("Connection", "X-Mine")
		h.Set("X-Mine", "1")
		h.Set("Proxy-Authenticate", "Basic")
		h["Set-Cookie"] = []string{"a=1", "b=2"}
		h.Set("Retry-After", "7")
		h["Content-Type"] = nil
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("<html>"))
	})
	base, n := front(t, nil, up)
	res, body := get(t, base)
	for _, name := range []string{"Comporta-Decision", "X-Mine", "Proxy-Authenticate", "Content-Type"} {
		if got, ok := res.Header[name]; ok {
			t.Errorf("%s: %q reached the caller", name, got)
		}
	}
	if got := res.Header["Set-Cookie"]; !slices.Equal(got, []string{"a=1", "b=2"}) {
		t.Errorf("Set-Cookie: %q", got)
	}
	if res.StatusCode != 503 || res.Header.Get("Retry-After") != "7" || body != "<html>" {
		t.Errorf("%s %v %q", res.Status, res.Header, body)
	}
	if said := n.said(); said != "[] failed" {
		t.Error(said)
	}
}

// What is left of the caller's patience goes on in the words it came in.
func TestPatienceGoesOn(t *testing.T) {
	up := make(chan http.Header, 1)
	url := service(t, func(_ http.ResponseWriter, r *http.Request) { up <- r.Header })
	n := &notes{}
	p := newProxy(t, n, url)
	base := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Bounded") != "" {
			ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
			defer cancel()
			r = r.WithContext(ctx)
		}
		p.ServeHTTP(w, r)
	}))
	tests := []struct{ name, sent, want string }{
		{"nothing known, nothing said", "", ""},
		{"nothing bounded: as it was", "Request-Timeout-Ms: 100000\r\n", "Request-Timeout-Ms 100000"},
		{"ours", "Bounded: 1\r\nRequest-Timeout-Ms: 100000\r\n", "Request-Timeout-Ms 59"},
		{"unsaid", "Bounded: 1\r\n", "Request-Timeout-Ms 59"},
		{"gRPC's", "Bounded: 1\r\nGrpc-Timeout: 100S\r\n", "Grpc-Timeout 59"},
		{"Envoy's", "Bounded: 1\r\nX-Envoy-Expected-Rq-Timeout-Ms: 100000\r\n", "X-Envoy-Expected-Rq-Timeout-Ms 59"},
	}
	for _, tt := range tests {
		raw(t, base, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"+tt.sent+"\r\n")
		h, got := <-up, []string{}
		for _, name := range []string{"Request-Timeout-Ms", "Grpc-Timeout", "X-Envoy-Expected-Rq-Timeout-Ms"} {
			if v := h.Get(name); v != "" {
				got = append(got, name+" "+v)
			}
		}
		if s := strings.Join(got, "|"); !strings.HasPrefix(s, tt.want) || (tt.want == "") != (s == "") || len(got) > 1 {
			t.Errorf("%s: got %q, want %q…", tt.name, s, tt.want)
		}
	}
}
