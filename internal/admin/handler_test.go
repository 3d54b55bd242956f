package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta/gate"
)

type metrics struct{}

func (metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "comporta_inflight 0\n")
}

// stand is a listener over a gate of its own.
type stand struct {
	handler http.Handler
	gate    *gate.Gate
	ready   bool
	fault   error // of the next reload
	log     bytes.Buffer
	reloads int
}

func newStand(t *testing.T, token string) *stand {
	t.Helper()
	g, err := gate.New(gate.Config{Admission: gate.Admission{Capacity: 4}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{gate: g, ready: true}
	s.handler = Handler(Config{
		Version: "1.2.3", Gate: func() *gate.Gate { return s.gate }, Ready: func() bool { return s.ready },
		Reload: func() error {
			s.reloads++
			return s.fault
		},
		Top: func(n int) []Client {
			return []Client{{"acme", "retry", 7, 9, 1}, {"0123456789abcdef", "original", 1, 2, 0}}[:min(n, 2)]
		},
		Effective: func(w io.Writer) error {
			_, err := io.WriteString(w, "listen: :8080\n")
			return err
		},
		Known:   func(name string) bool { return name == "acme" },
		Metrics: metrics{}, Token: token, Log: slog.New(slog.NewJSONHandler(&s.log, nil)),
	})
	return s
}

// ask sends a request as a program on this machine does; header changes that.
func (s *stand) ask(method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:9900"+path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder, status int) T {
	t.Helper()
	var v T
	if w.Code != status || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("got %d %v\n%s", w.Code, w.Header(), w.Body)
	}
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v\n%s", err, w.Body)
	}
	return v
}

func TestProbes(t *testing.T) {
	s := newStand(t, "")
	for _, h := range []http.Handler{s.handler, Probes(func() bool { return s.ready })} {
		for _, ready := range []bool{true, false} {
			s.ready = ready
			for path, want := range map[string]int{"/healthz": 200, "/readyz": map[bool]int{true: 200, false: 503}[ready]} {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
				if a := decode[Answer](t, w, want); a.Status == "draining" != (want == 503) {
					t.Errorf("%s, ready %t: %+v", path, ready, a)
				}
			}
		}
	}
	w := httptest.NewRecorder()
	Probes(func() bool { return true }).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if w.Code != 404 {
		t.Errorf("the address of the probes serves /metrics: %d", w.Code)
	}
}

func TestTexts(t *testing.T) {
	s := newStand(t, "")
	for path, want := range map[string]string{
		"/":              "POST   /-/reload",
		"/metrics":       "comporta_inflight 0",
		"/api/v1/config": "listen: :8080",
	} {
		if w := s.ask("GET", path, ""); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := s.ask("GET", "/api/v1/config", ""); w.Header().Get("Content-Type") != "application/yaml" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("got %v", w.Header())
	}
	for _, path := range []string{"/nothing", "/api/v1/", "/api/v1/explain/", "/debug/pprof/"} {
		if w := s.ask("GET", path, ""); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := s.ask("GET", "/-/reload", ""); w.Code != 405 || s.reloads != 0 {
		t.Errorf("GET /-/reload: %d, %d reloads", w.Code, s.reloads)
	}
}

// Profiles are served where they are asked for, and guarded like the rest.
func TestProfiles(t *testing.T) {
	for _, token := range []string{"", strings.Repeat("t", 32)} {
		h := Handler(Config{Pprof: true, Token: token, Metrics: metrics{}})
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/cmdline"} {
			r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
			r.Host = "localhost"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if want := map[bool]int{true: 200, false: 401}[token == ""]; w.Code != want {
				t.Errorf("%s, token %q: %d, want %d", path, token, w.Code, want)
			}
		}
	}
}

func TestStatus(t *testing.T) {
	s := newStand(t, "")
	got := decode[Status](t, s.ask("GET", "/api/v1/status", ""), 200)
	if got.Version != "1.2.3" || !got.Ready || got.Verdict != "normal" || got.Capacity != 4 || got.Learning != "" || time.Since(got.Now) > time.Minute {
		t.Errorf("got %+v", got)
	}
	learning, err := gate.New(gate.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.gate = learning // as after a reload
	if got := decode[Status](t, s.ask("GET", "/api/v1/status", ""), 200); got.Learning == "" {
		t.Errorf("got %+v, want the new gate, which learns", got)
	}
}

func TestWho(t *testing.T) {
	s := newStand(t, "")
	if got := decode[Who](t, s.ask("GET", "/api/v1/who", ""), 200); len(got.Clients) != 2 || got.Clients[0] != (Client{"acme", "retry", 7, 9, 1}) {
		t.Errorf("got %+v", got)
	}
	if got := decode[Who](t, s.ask("GET", "/api/v1/who?top=1", ""), 200); len(got.Clients) != 1 {
		t.Errorf("top=1: got %+v", got)
	}
	for _, top := range []string{"0", "-1", "1001", "x", "1e2", "99999999999999999999"} {
		if f := decode[Failure](t, s.ask("GET", "/api/v1/who?top="+top, ""), 400); !strings.Contains(f.Error, "top") {
			t.Errorf("top=%s: %q", top, f.Error)
		}
	}
}

func TestReload(t *testing.T) {
	s := newStand(t, "")
	if a := decode[Answer](t, s.ask("POST", "/-/reload", ""), 200); a.Status != "reloaded" {
		t.Errorf("got %+v", a)
	}
	s.fault = errors.New("comporta.yaml:1:1: a\ncomporta.yaml:2:1: b")
	if f := decode[Failure](t, s.ask("POST", "/-/reload", ""), 422); f.Error != s.fault.Error() {
		t.Errorf("got %+v, want all problems", f)
	}
	if s.reloads != 2 {
		t.Errorf("%d reloads", s.reloads)
	}
}

// A lever is set, seen, felt, explained and removed.
func TestShed(t *testing.T) {
	s := newStand(t, "")
	if w := s.ask("GET", "/api/v1/shed", ""); strings.TrimSpace(w.Body.String()) != `{"levers":[]}` {
		t.Errorf("no lever is an empty list, not %s", w.Body)
	}
	lever := decode[gate.Lever](t, s.ask("POST", "/api/v1/shed", `{"route":"other","percent":100,"ttl_s":60}`), 201)
	if left := time.Until(lever.Until); lever.ID != 1 || lever.Route != "other" || left > time.Minute || left < 50*time.Second {
		t.Errorf("got %+v", lever)
	}
	r := httptest.NewRequest(http.MethodGet, "/x", http.NoBody)
	r.Header.Set("X-Request-Id", "b/c")
	w := httptest.NewRecorder()
	s.gate.Wrap(http.NotFoundHandler()).ServeHTTP(w, r)
	if w.Code != 503 {
		t.Fatalf("the lever does nothing: %d", w.Code)
	}
	e := decode[gate.Explanation](t, s.ask("GET", "/api/v1/explain/b%2Fc", ""), 200)
	if e.RequestID != "b/c" || e.Reason != "shed_by_operator" || e.Route != "other" || e.Capacity != 4 {
		t.Errorf("got %+v", e)
	}
	decode[Failure](t, s.ask("GET", "/api/v1/explain/unknown", ""), 404)
	if got := decode[Levers](t, s.ask("GET", "/api/v1/shed", ""), 200); len(got.Levers) != 1 {
		t.Errorf("got %+v", got)
	}
	if w := s.ask("DELETE", "/api/v1/shed/1", ""); w.Code != 204 || w.Body.Len() != 0 {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	for _, id := range []string{"1", "x", "-1", "99999999999999999999"} {
		decode[Failure](t, s.ask("DELETE", "/api/v1/shed/"+id, ""), 404)
	}
}

func TestShedBounds(t *testing.T) {
	s := newStand(t, "")
	for body, status := range map[string]int{
		``:                                  400,
		`[]`:                                400,
		`{"route":1,"percent":1,"ttl_s":1}`: 400,
		`{"route":"other","percentage":1}`:  400,
		`{"route":"other","percent":1,"ttl_s":1}}`:                          400,
		`{"route":"other","percent":1,"ttl_s":1} {}`:                        400,
		`{"route":"` + strings.Repeat("a", maxBody) + `"}`:                  400,
		`{"percent":1,"ttl_s":1}`:                                           422,
		`{"route":"other","percent":0,"ttl_s":1}`:                           422,
		`{"route":"none","percent":1,"ttl_s":1}`:                            422,
		`{"route":"other","percent":101,"ttl_s":1}`:                         422,
		`{"route":"other","percent":1,"ttl_s":0}`:                           422,
		`{"route":"other","percent":1,"ttl_s":-1}`:                          422,
		`{"route":"other","percent":1,"ttl_s":86401}`:                       422,
		`{"route":"other","percent":1,"ttl_s":9223372036854775807}`:         422,
		`{"route":"other","percent":1,"ttl_s":18446744074}`:                 422, // would come round as a short time
		`{"client":"acme","version":"c/1.0.0","percent":100,"ttl_s":86400}`: 201,
		`{"client":"0123456789ABCDEF","percent":100,"ttl_s":86400}`:         201,
		`{"version":"acme-app","percent":100,"ttl_s":86400}`:                201,
		`{"version":"acme-app/2","percent":100,"ttl_s":86400}`:              201,
		`{"client":"zz zz","percent":100,"ttl_s":1}`:                        422,
		`{"client":"0123456789abcde","percent":100,"ttl_s":1}`:              422,
		`{"client":"0123456789abcdeg","percent":100,"ttl_s":1}`:             422,
		`{"version":"acme-app/2.x","percent":100,"ttl_s":1}`:                422,
		`{"version":"acme-app/","percent":100,"ttl_s":1}`:                   422,
		`{"version":"/2.0.0","percent":100,"ttl_s":1}`:                      422,
		`{"version":" acme-app","percent":100,"ttl_s":1}`:                   422,
		`{"version":"acme-app/2.0.0 ","percent":100,"ttl_s":1}`:             422,
	} {
		if w := s.ask("POST", "/api/v1/shed", body); w.Code != status {
			t.Errorf("%.60s: %d %s, want %d", body, w.Code, w.Body, status)
		}
	}
}

func TestPolicy(t *testing.T) {
	s := newStand(t, "")
	if w := s.ask("GET", "/api/v1/policy", ""); strings.TrimSpace(w.Body.String()) != `{"set":false}` {
		t.Errorf("got %s", w.Body)
	}
	set := decode[PolicyStatus](t, s.ask("PUT", "/api/v1/policy", `{"max":1,"min_ms":2000,"ttl_s":600}`), 200)
	if !set.Set || set.Max != 1 || set.MinMs != 2000 || set.Header != "max=1;min-ms=2000;ttl=600" {
		t.Errorf("got %+v", set)
	}
	for body, status := range map[string]int{
		`{"max":0,"min_ms":0,"ttl_s":1}`:                   422,
		`{"max":11,"min_ms":0,"ttl_s":1}`:                  422,
		`{"max":1,"min_ms":-1,"ttl_s":1}`:                  422,
		`{"max":1,"min_ms":9223372036854775807,"ttl_s":1}`: 422,
		`{"max":1,"min_ms":0,"ttl_s":9223372036854775807}`: 422,
		`{"max":1.5,"min_ms":0,"ttl_s":1}`:                 400,
		`{"max":1,"min_ms":0,"ttl_s":1,"for":"everybody"}`: 400,
	} {
		if w := s.ask("PUT", "/api/v1/policy", body); w.Code != status {
			t.Errorf("%s: %d %s, want %d", body, w.Code, w.Body, status)
		}
	}
	if still := decode[PolicyStatus](t, s.ask("GET", "/api/v1/policy", ""), 200); still.Max != 1 || still.MinMs != 2000 {
		t.Errorf("what was refused changed something: %+v", still)
	}
	if w := s.ask("DELETE", "/api/v1/policy", ""); w.Code != 204 {
		t.Errorf("got %d", w.Code)
	}
	if cleared := decode[PolicyStatus](t, s.ask("GET", "/api/v1/policy", ""), 200); cleared.Set {
		t.Errorf("got %+v", cleared)
	}
}

// Every write is audited, also the one that came to nothing; reads are not.
func TestAudit(t *testing.T) {
	s := newStand(t, "")
	s.fault = errors.New("no")
	for _, call := range []struct{ method, path, body string }{
		{"POST", "/-/reload", ""},
		{"POST", "/api/v1/shed", `{"route":"other","percent":5,"ttl_s":1}`},
		{"POST", "/api/v1/shed", `{"percent":5,"ttl_s":1}`},
		{"DELETE", "/api/v1/shed/1", ""},
		{"DELETE", "/api/v1/shed/7", ""},
		{"PUT", "/api/v1/policy", `{"max":1,"min_ms":0,"ttl_s":1}`},
		{"DELETE", "/api/v1/policy", ""},
		{"GET", "/api/v1/policy", ""},
		{"GET", "/api/v1/status", ""},
	} {
		s.ask(call.method, call.path, call.body, "User-Agent", "ops\nfake", HeaderUser, "root", HeaderSudoUser, "ana\nlevel=ERROR")
	}
	var got []string
	d := json.NewDecoder(&s.log)
	for d.More() {
		var line struct {
			Msg   string `json:"msg"`
			What  string `json:"what"`
			Peer  string `json:"peer"`
			User  string `json:"claimed_user"`
			Sudo  string `json:"claimed_sudo_user"`
			Error string `json:"error"`
		}
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if line.Msg != "audit" || line.Peer != "192.0.2.1:1234" || line.User != "root" || line.Sudo != "ana?level=ERROR" {
			t.Errorf("got %+v", line)
		}
		got = append(got, line.What+map[bool]string{true: " failed"}[line.Error != ""])
	}
	want := "reload failed, shed add, shed add failed, shed remove, shed remove failed, policy set, policy clear"
	if all := strings.Join(got, ", "); all != want {
		t.Errorf("got %s\nwant %s", all, want)
	}
}

// Who misreads -client gives the key itself: it reaches neither the audit nor the
// answer. What is a name or the hash of a key is written down.
func TestAuditHoldsNoKey(t *testing.T) {
	s := newStand(t, "")
	for client, logged := range map[string]string{
		"sk_live_s3cret":   "(not a name)",
		"acme":             "acme",
		"0123456789abcdef": "0123456789abcdef",
		"":                 "",
	} {
		s.log.Reset()
		body, err := json.Marshal(ShedRequest{Route: "other", Client: client, Version: "acme/1.0.0", Percent: 1, TTLS: 1})
		if err != nil {
			t.Fatal(err)
		}
		w := s.ask("POST", "/api/v1/shed", string(body))
		if strings.Contains(w.Body.String()+s.log.String(), "s3cret") || !strings.Contains(s.log.String(), `"client":"`+logged+`"`) {
			t.Errorf("%q: %s\n%s", client, w.Body, &s.log)
		}
	}
	for _, version := range []string{"sk_live_s3cret sk", "acme/s3cret"} {
		s.log.Reset()
		body, err := json.Marshal(ShedRequest{Version: version, Percent: 1, TTLS: 1})
		if err != nil {
			t.Fatal(err)
		}
		if s.ask("POST", "/api/v1/shed", string(body)); strings.Contains(s.log.String(), "s3cret") || !strings.Contains(s.log.String(), `"client_version":"(not a version)"`) {
			t.Errorf("%q: %s", version, &s.log)
		}
	}
}
