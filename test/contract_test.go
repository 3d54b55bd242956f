//go:build integration

package test

import (
	"encoding/json"
	"math"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// parseCurl takes apart what curl -i printed.
func parseCurl(t *testing.T, out string) (status string, header http.Header, body string) {
	t.Helper()
	head, body, ok := strings.Cut(out, "\r\n\r\n")
	if !ok {
		t.Fatalf("no head in\n%s", out)
	}
	lines := strings.Split(head, "\r\n")
	header = http.Header{}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		header.Add(name, value)
	}
	return lines[0], header, body
}

// wire.md 2: what curl sees of a refusal. cases/overload.md 27: never 0, and all
// three waits come from one value.
func TestRefusalContract(t *testing.T) {
	g := configured(t, "admission: {capacity: 1, queue_wait: 0}\n")
	g.hold(t, 1)
	status, header, body := parseCurl(t, curl(t, "-i", "-H", "X-Request-Id: from-curl", "-H", "Retry-Attempt: 2", g.url+"/orders?id=7"))
	if status != "HTTP/1.1 503 Service Unavailable" {
		t.Fatalf("got %s\n%v\n%s", status, header, body)
	}
	for name, want := range map[string]string{
		"Content-Type":                `application/problem\+json`,
		"Cache-Control":               "no-store",
		"X-Should-Retry":              "true",
		"Retry-After":                 `[1-9]\d*`,
		"Retry-After-Ms":              `[1-9]\d*`,
		"Retry-Ticket":                `v1\.[A-Za-z0-9_-]{20,197}`,
		"Comporta-Decision":           "capacity_exhausted|retry_deferred",
		"Access-Control-Allow-Origin": `\*`,
	} {
		if got := header.Values(name); len(got) != 1 || !regexp.MustCompile("^("+want+")$").MatchString(got[0]) {
			t.Errorf("%s: %q, want one like %s", name, got, want)
		}
	}
	var problem struct {
		Type             string `json:"type"`
		Title            string `json:"title"`
		Code             string `json:"code"`
		Status           int    `json:"status"`
		Retryable        *bool  `json:"retryable"`
		RequestID        string `json:"request_id"`
		ObservedAttempts int    `json:"observed_attempts"`
		RetryAfterS      int64  `json:"retry_after_s"`
		RetryAfterMs     int64  `json:"retry_after_ms"`
	}
	if err := json.Unmarshal([]byte(body), &problem); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if problem.Code != header.Get("Comporta-Decision") || !strings.HasSuffix(problem.Type, "#"+problem.Code) || problem.Title == "" ||
		problem.Status != 503 || problem.Retryable == nil || !*problem.Retryable || problem.RequestID != "from-curl" || problem.ObservedAttempts < 1 {
		t.Errorf("got %s", body)
	}
	seconds, err := strconv.ParseInt(header.Get("Retry-After"), 10, 64)
	if err != nil {
		t.Error(err)
	}
	ms, err := strconv.ParseInt(header.Get("Retry-After-Ms"), 10, 64)
	if err != nil {
		t.Error(err)
	}
	if seconds != int64(math.Ceil(float64(ms)/1000)) || problem.RetryAfterMs != ms || problem.RetryAfterS != seconds {
		t.Errorf("Retry-After %d, retry-after-ms %d, body %d and %d", seconds, ms, problem.RetryAfterS, problem.RetryAfterMs)
	}
	if out, err := exec.CommandContext(t.Context(), binary, "explain", "from-curl", "-admin", g.admin).CombinedOutput(); err != nil || !strings.Contains(string(out), problem.Code) {
		t.Errorf("explain: %v\n%s", err, out)
	}
}

// The dialect of the source article.
func TestRefusalInPortuguese(t *testing.T) {
	g := configured(t, "admission: {capacity: 1, queue_wait: 0}\ncontract: {dialect: pt-BR}\n")
	g.hold(t, 1)
	status, header, body := parseCurl(t, curl(t, "-i", g.url+"/pedidos"))
	if !strings.HasPrefix(status, "HTTP/1.1 503 ") || header.Get("Comporta-Decision") != "capacity_exhausted" || header.Get("Retry-After") == "" {
		t.Errorf("got %s\n%v", status, header)
	}
	var problem map[string]any
	if err := json.Unmarshal([]byte(body), &problem); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	after, err := strconv.ParseFloat(header.Get("Retry-After"), 64)
	if err != nil {
		t.Error(err)
	}
	want := map[string]any{"erro": "capacidade_esgotada", "repetivel": true, "tentar_apos_s": after, "tentativas_observadas": 1.0}
	for key, value := range want {
		if problem[key] != value {
			t.Errorf("%s is %v, want %v", key, problem[key], value)
		}
	}
	if problem["type"] != nil || problem["title"] != nil {
		t.Errorf("the dialect has a type or a title: %s", body)
	}
}

// What nginx is told by the gateway, and what it is not told by the caller.
func TestHeaderHygiene(t *testing.T) {
	g := configured(t, "")
	forged := []string{
		"X-Forwarded-For: 6.6.6.6", "X-Forwarded-Proto: https", "X-Forwarded-Host: evil.example", "X-Real-IP: 6.6.6.6", "Forwarded: for=6.6.6.6",
		"X_Real_IP: 6.6.6.6", "Comporta-Decision: admitted",
		"Connection: keep-alive, X-Private", "X-Private: hop", "TE: gzip", "Upgrade: h2c",
		"Retry-Attempt: 3", "Idempotency-Key: k-1", "X-Request-Id: from-curl",
	}
	args := []string{}
	for _, h := range forged {
		args = append(args, "-H", h)
	}
	_, header, body := parseCurl(t, curl(t, append(append([]string{"-i"}, args...), g.url+"/a?b=c")...))
	host := strings.TrimPrefix(g.url, "http://")
	for _, line := range []string{
		"target: /a?b=c", "host: " + host, "forwarded-for: 127.0.0.1", "forwarded-proto: http", "forwarded-host: " + host, "real-ip: 127.0.0.1",
		"decision: ", "private: ", "upgrade: ", "te: ", "attempt: 3", "key: k-1", "request-id: from-curl",
	} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, body)
		}
	}
	for _, forbidden := range []string{"6.6.6.6", "evil.example", "hop"} {
		if strings.Contains(body, forbidden) {
			t.Errorf("%s reached the service:\n%s", forbidden, body)
		}
	}
	if got := header.Values("Comporta-Decision"); len(got) > 0 {
		t.Errorf("the service forged Comporta-Decision: %q", got)
	}

	// A proxy that is trusted has its chain continued.
	behind := configured(t, "clients: {trusted_proxies: [127.0.0.0/8]}\n")
	if body := curl(t, "-H", "X-Forwarded-For: 203.0.113.9", "-H", "X-Forwarded-Proto: https", behind.url+"/"); !strings.Contains(body, "forwarded-for: 203.0.113.9, 127.0.0.1\n") ||
		!strings.Contains(body, "forwarded-proto: https\n") {
		t.Errorf("the chain of a trusted proxy is lost:\n%s", body)
	}
}

// The admin listener asks for a token where others can reach it.
func TestAdminOffLoopback(t *testing.T) {
	dir := t.TempDir()
	bare, guarded, token := filepath.Join(dir, "bare.yaml"), filepath.Join(dir, "guarded.yaml"), filepath.Join(dir, "token")
	write(t, token, "0123456789abcdef0123\n")
	write(t, bare, "upstream: {urls: [http://127.0.0.1:3000]}\nadmin: {listen: 0.0.0.0:9900}\n")
	write(t, guarded, "admin: {token_file: "+token+"}\n")

	cmd := exec.CommandContext(t.Context(), binary, "validate", bare)
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "admin.token_file is not set") {
		t.Errorf("validate: %v\n%s", err, out)
	}

	g := serve(t, "-config", guarded, "-upstream", service(t, "COMPORTA_TEST_NGINX_URL"))
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"200", []string{g.admin + "/readyz"}},
		{"200", []string{g.admin + "/healthz"}},
		{"401", []string{g.admin + "/metrics"}},
		{"401", []string{g.admin + "/api/v1/status"}},
		{"401", []string{"-X", "POST", g.admin + "/-/reload"}},
		{"401", []string{"-H", "Authorization: Bearer 0123456789abcdef0124", g.admin + "/metrics"}},
		{"200", []string{"-H", "Authorization: Bearer 0123456789abcdef0123", g.admin + "/metrics"}},
	} {
		if got := curl(t, append([]string{"-o", "/dev/null", "-w", "%{http_code}"}, tt.args...)...); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.args, got, tt.want)
		}
	}
	if out, err := exec.CommandContext(t.Context(), binary, "shed", "list", "-admin", g.admin, "-token-file", token).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), binary, "shed", "list", "-admin", g.admin).CombinedOutput(); err == nil {
		t.Errorf("no token is needed: %s", out)
	}
}
