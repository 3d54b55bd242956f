package identity

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

// tenHeaders is a request as an application's client library sends it.
func tenHeaders() http.Header {
	return http.Header{
		"Accept":          {"application/json"},
		"Accept-Encoding": {"gzip"},
		"Accept-Language": {"pt-BR"},
		"Cache-Control":   {"no-cache"},
		"Client-Version":  {"acme-go/2.1.0"},
		"Content-Type":    {"application/json"},
		"Cookie":          {"theme=dark"},
		"User-Agent":      {"acme-go/2.1.0"},
		"X-Api-Key":       {"0123456789abcdef0123456789abcdef"},
		"X-Request-Id":    {"00-4bf92f3577b34da6a3ce929d0e0e4736"},
	}
}

func BenchmarkIdentify(b *testing.B) {
	now := time.Unix(1_700_000_000, 0)
	for _, bench := range []struct {
		name string
		c    Config
		edit func(*comporta.Request)
	}{
		{"api-key", Config{}, nil},
		{"network", Config{}, func(r *comporta.Request) { r.Header.Del("X-Api-Key") }},
		{"bearer", Config{}, func(r *comporta.Request) {
			r.Header.Del("X-Api-Key")
			r.Header.Set("Authorization", "Bearer 0123456789abcdef0123456789abcdef")
		}},
		{"cookie", Config{Identify: []Source{{Kind: KindCookie, Cookie: "sid"}}}, func(r *comporta.Request) {
			r.Header.Set("Cookie", "_ga=GA1.1.1234567890.1700000000; theme=dark; sid=0123456789abcdef0123456789abcdef; lang=pt-BR; cart=eyJpIjpbXX0=")
		}},
		{"cookie-escaped", Config{Identify: []Source{{Kind: KindCookie, Cookie: "sid"}}}, func(r *comporta.Request) {
			r.Header.Set("Cookie", "sid=s%3A0123456789abcdef.0123456789abcdef%2F0123; lang=pt-BR")
		}},
		{"cookie-huge", Config{Identify: []Source{{Kind: KindCookie, Cookie: "sid"}}}, func(r *comporta.Request) {
			r.Header.Set("Cookie", strings.Repeat("sid=;", 32<<10/5))
		}},
		{"named", Config{Names: map[string]string{"acme": "0011223344556677"}}, nil},
		{"proxied", Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, func(r *comporta.Request) {
			r.Header.Set("X-Forwarded-For", "203.0.113.7, 192.0.2.9")
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			id, err := New(bench.c, NewProven(0))
			if err != nil {
				b.Fatal(err)
			}
			r := &comporta.Request{Remote: netip.MustParseAddr("192.0.2.10"), Header: tenHeaders()}
			if bench.edit != nil {
				bench.edit(r)
			}
			id.IdentifyAt(now, r)
			id.ProveAt(now, r)
			b.ReportAllocs()
			for b.Loop() {
				id.IdentifyAt(now, r)
			}
		})
	}
}

func BenchmarkCleanNothing(b *testing.B) {
	id, err := New(Config{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	h := tenHeaders()
	b.ReportAllocs()
	for b.Loop() {
		id.Clean(h, false)
	}
}
