package proxy_test

import (
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/comporta/comporta/proxy"
)

// BenchmarkForward measures a small exchange over loopback, ours beside the
// standard library's; both ends' servers and the client are part of it.
func BenchmarkForward(b *testing.B) {
	up := service(b, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	ours, err := proxy.New(proxy.Config{Upstreams: []*url.URL{address(b, up)}})
	if err != nil {
		b.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: proxy.DefaultMaxConnections}
	standard := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(address(b, up))
			r.SetXForwarded()
		},
	}
	for _, bench := range []struct {
		name    string
		handler http.Handler
	}{{"comporta", ours}, {"httputil", standard}} {
		b.Run(bench.name, func(b *testing.B) {
			base := serve(b, bench.handler)
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
			defer client.CloseIdleConnections()
			b.ReportAllocs()
			for b.Loop() {
				res, err := client.Get(base)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		})
	}
	transport.CloseIdleConnections()
}
