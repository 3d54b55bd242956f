//go:build integration

package test

import (
	"net/http"
	"strings"
	"testing"
)

// The gateway in front of a real nginx: answers pass, the way of asking arrives,
// and what only the gateway may say is not taken from the service.
func TestNginx(t *testing.T) {
	g := serve(t, "-upstream", service(t, "COMPORTA_TEST_NGINX_URL"))

	t.Run("the request arrives as it was sent", func(t *testing.T) {
		res, body := g.get(t, "/a%20b?x=1;y=%zz&x=2", "X-Real-Ip", "6.6.6.6", "X_Forwarded_For", "6.6.6.6")
		if res.StatusCode != http.StatusOK {
			t.Fatalf("%s\n%s", res.Status, body)
		}
		for _, line := range []string{"method: GET", "target: /a%20b?x=1;y=%zz&x=2", "forwarded-for: 127.0.0.1"} {
			if !strings.Contains(body, line+"\n") {
				t.Errorf("no line %q in\n%s", line, body)
			}
		}
		if strings.Contains(body, "6.6.6.6") {
			t.Errorf("a forged address reached the service:\n%s", body)
		}
		if got := res.Header.Values("Comporta-Decision"); len(got) > 0 {
			t.Errorf("the service forged Comporta-Decision: %q", got)
		}
	})

	t.Run("an upstream's own refusal passes", func(t *testing.T) {
		res, _ := g.get(t, "/busy")
		if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
			t.Errorf("%s, Retry-After %q", res.Status, res.Header.Get("Retry-After"))
		}
	})

	t.Run("a large answer passes whole", func(t *testing.T) {
		if _, body := g.get(t, "/big"); len(body) != 1<<20 {
			t.Errorf("%d bytes, want 1 MiB", len(body))
		}
	})

	t.Run("curl speaks to it", func(t *testing.T) {
		if out := curl(t, "-i", g.url+"/missing"); !strings.HasPrefix(out, "HTTP/1.1 404") {
			t.Errorf("got\n%s", out)
		}
	})
}
