package gate

import (
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

func benchGate(b testing.TB, c Config) *Gate {
	b.Helper()
	g, err := New(c, nil)
	if err != nil {
		b.Fatal(err)
	}
	return g
}

func request(path string) *comporta.Request {
	return &comporta.Request{
		Method: "GET", Host: "api.example", Path: path, Remote: netip.MustParseAddr("192.0.2.7"),
		Header: http.Header{
			"Accept": {"*/*"}, "User-Agent": {"acme-go/2.1.0"}, "X-Api-Key": {"9f2c1f7e5b"}, "Content-Type": {"application/json"},
			"Accept-Encoding": {"gzip"}, "Retry-Attempt": {"0"}, "X-Request-Id": {"5e9a"}, "Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		},
	}
}

func BenchmarkAdmit(b *testing.B) {
	g := benchGate(b, Config{})
	r := request("/orders/17")
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		r.Sighting = comporta.Sighting{}
		now = now.Add(time.Microsecond)
		d := g.Begin(now, r)
		d.FinishAt(now, comporta.Outcome{Status: 200, Result: comporta.ResultSuccess, Latency: time.Millisecond})
	}
}
