package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// wire.md 7: without a token the Host is checked, so that a DNS name which was
// made to point at this machine does not lead a browser here.
func TestGuardHost(t *testing.T) {
	s := newStand(t, "")
	for host, want := range map[string]int{
		"127.0.0.1:9900": 200, "127.8.9.1": 200, "localhost:9900": 200, "LocalHost": 200, "[::1]:9900": 200, "[::1]": 200, "[::ffff:127.0.0.1]:1": 200,
		"evil.example": 403, "evil.example:9900": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example:9900": 403, "10.0.0.1:9900": 403,
		"0.0.0.0:9900": 403, "": 403, ":9900": 403, "[": 403, "localhost:9900:1": 403,
	} {
		for _, path := range []string{"/", "/metrics", "/api/v1/status", "/api/v1/config", "/nothing"} {
			w := s.ask("GET", path, "", "Host", host)
			if (w.Code == 403) != (want == 403) {
				t.Errorf("Host %q, %s: %d, want %d", host, path, w.Code, want)
			}
		}
		if w := s.ask("GET", "/readyz", "", "Host", host); w.Code != 200 {
			t.Errorf("Host %q: the probe says %d", host, w.Code)
		}
	}
}

// wire.md 7: a page of another origin pulls no lever, even on loopback.
func TestGuardOrigin(t *testing.T) {
	const token = "0123456789abcdef"
	for _, given := range []string{"", token} {
		s := newStand(t, given)
		for _, tt := range []struct {
			header []string
			want   int
		}{
			{nil, 200}, // a program
			{[]string{"Origin", "http://127.0.0.1:9900"}, 200},
			{[]string{"Sec-Fetch-Site", "same-origin"}, 200},
			{[]string{"Sec-Fetch-Site", "none"}, 200},
			{[]string{"Origin", "https://evil.example"}, 403},
			{[]string{"Origin", "null"}, 403},
			{[]string{"Origin", "http://127.0.0.1:3000"}, 403}, // another program's page on this machine
			{[]string{"Sec-Fetch-Site", "cross-site"}, 403},
			{[]string{"Sec-Fetch-Site", "same-site"}, 403},
		} {
			header := append([]string{"Authorization", "Bearer " + given}, tt.header...)
			if w := s.ask("POST", "/-/reload", "", header...); w.Code != tt.want {
				t.Errorf("token %q, %q: %d, want %d", given, tt.header, w.Code, tt.want)
			}
			if w := s.ask("GET", "/api/v1/status", "", header...); w.Code != 200 {
				t.Errorf("token %q, %q: a read says %d", given, tt.header, w.Code)
			}
		}
		if s.reloads != 4 {
			t.Errorf("token %q: %d reloads, want 4", given, s.reloads)
		}
	}
}

func TestGuardToken(t *testing.T) {
	const token = "0123456789abcdef"
	s := newStand(t, token)
	for authorization, want := range map[string]int{
		"Bearer " + token: 200, "bearer " + token: 200, "BEARER  " + token: 200,
		"": 401, token: 401, "Basic " + token: 401, "Bearer": 401, "Bearer ": 401, "Bearer 0123456789abcdeF": 401,
		"Bearer " + token + "0": 401, "Bearer " + token[:15]: 401, "Bearer " + strings.Repeat("a", 1<<16): 401,
	} {
		for _, path := range []string{"/", "/metrics", "/api/v1/status", "/nothing"} {
			w := s.ask("GET", path, "", "Authorization", authorization, "Host", "gate.internal:9900")
			if (w.Code == 401) != (want == 401) {
				t.Errorf("%.40q, %s: %d, want %d", authorization, path, w.Code, want)
			}
			if (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") {
				t.Errorf("%.40q, %s: %d with %v", authorization, path, w.Code, w.Header())
			}
			if strings.Contains(w.Body.String(), token) {
				t.Errorf("the answer tells the token: %s", w.Body)
			}
		}
		for _, p := range probes {
			if w := s.ask("GET", p, "", "Authorization", authorization, "Host", "gate.internal:9900"); w.Code != 200 {
				t.Errorf("%.40q: the probe %s says %d", authorization, p, w.Code)
			}
		}
		if w := s.ask("POST", "/-/reload", "", "Authorization", authorization); (w.Code == 401) != (want == 401) {
			t.Errorf("%.40q: POST /-/reload says %d", authorization, w.Code)
		}
	}
	if strings.Contains(s.log.String(), token) {
		t.Error("the log tells the token")
	}
}

// The caller of the command line and the handler understand each other.
func TestCaller(t *testing.T) {
	const token = "0123456789abcdef"
	s := newStand(t, token)
	server := httptest.NewServer(s.handler)
	defer server.Close()
	c := &Caller{URL: server.URL, Token: token}
	var status Status
	if raw, err := c.Call(t.Context(), http.MethodGet, "/api/v1/status", nil, &status); err != nil || status.Capacity != 4 || len(raw) == 0 {
		t.Errorf("got %v, %+v", err, status)
	}
	_, err := c.Call(t.Context(), http.MethodPost, "/api/v1/shed", ShedRequest{Percent: 1, TTLS: 1}, nil)
	if err == nil || !strings.Contains(err.Error(), "name a route") {
		t.Errorf("got %v, want the gateway's own words", err)
	}
	if _, err := (&Caller{URL: server.URL}).Call(t.Context(), http.MethodGet, "/", nil, nil); err == nil || !strings.Contains(err.Error(), "-token-file") {
		t.Errorf("got %v, want what to do", err)
	}
	if _, err := c.Call(t.Context(), http.MethodGet, "/", nil, &status); err == nil {
		t.Error("a text is read as JSON")
	}
	server.Close()
	if _, err := c.Call(t.Context(), http.MethodGet, "/", nil, nil); err == nil || !strings.Contains(err.Error(), "no gateway answers at") {
		t.Errorf("got %v, want what to do", err)
	}
}
