package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/comporta/comporta/internal/config"
)

// keyFile is a key file of the test's own.
func keyFile(t *testing.T) string {
	t.Helper()
	return textFile(t, "keys", strings.Repeat("k", 40)+"\n")
}

func textFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// nowhere is an address on which nothing listens.
func nowhere(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// cases/ratelimit.md 22: without Redis the gateway starts, says so, and each rule
// does what it says for that case. A reload that changes nothing of it keeps the
// store; one that does closes the old one.
func TestCase_RateLimit_22_TheGatewayWithoutRedis(t *testing.T) {
	upstream := service(t, fine)
	rule := func(mode string) string {
		return fmt.Sprintf("{name: %s, match: {path: /%s}, rate: 1/h, burst: 6, store: redis, on_store_failure: %s}", mode, mode, mode)
	}
	shared := func(more string) string {
		return fmt.Sprintf("keys: {file: %s}\nredis: {url: 'redis://:hunter2@%s', gateways: 3%s}\nrate_limits: [%s, %s, %s]",
			keyFile(t), nowhere(t), more, rule("open"), rule("closed"), rule("local"))
	}
	same := shared("")
	g := start(t, upstream, same)
	if said := g.log.String(); !strings.Contains(said, "rate limits are not shared: Redis does not answer, and on_store_failure decides") {
		t.Errorf("the log does not tell that Redis is away:\n%s", said)
	}
	for i := range 8 {
		if resp, p := g.asks(t, "/open", "k"); resp.StatusCode != http.StatusOK {
			t.Errorf("open, request %d: %d %s", i, resp.StatusCode, p.Code)
		}
		resp, p := g.asks(t, "/closed", "k")
		if resp.StatusCode != http.StatusServiceUnavailable || p.Code != "limiter_unavailable" || resp.Header.Get("Retry-After") == "" ||
			strings.Join(p.ViolatedPolicies, ",") != "closed" {
			t.Errorf("closed, request %d: %d %+v", i, resp.StatusCode, p)
		}
		resp, p = g.asks(t, "/local", "k") // its part of three gateways is 2 of 6
		if want := i < 2; (resp.StatusCode == http.StatusOK) != want || !want && p.Code != "rate_limited" {
			t.Errorf("local, request %d: %d %s", i, resp.StatusCode, p.Code)
		}
	}
	if up, denied := g.metric(t, `comporta_ratelimit_store_up{store="redis"}`), g.metric(t, `comporta_rate_limited_total{rule="local",shadow="false"}`); up != "0" || denied != "6" {
		t.Errorf("the store is up: %s; the local rule denied: %s", up, denied)
	}
	if n := g.metric(t, `comporta_ratelimit_nodes{store="redis"}`); n != "3" {
		t.Errorf("%s gateways are assumed", n)
	}
	before := g.app.parts.store
	g.write(t, upstream, same+"\nslots: {grace: 6s}")
	if why := g.reload(t); why != "" {
		t.Fatal(why)
	}
	if g.app.parts.store != before {
		t.Error("a reload that changes nothing of Redis makes a new store")
	}
	g.write(t, upstream, shared(", period: 2s"))
	if why := g.reload(t); why != "" {
		t.Fatal(why)
	}
	if g.app.parts.store == before {
		t.Error("the store keeps its old period")
	}
	g.write(t, upstream, "")
	if why := g.reload(t); why != "" {
		t.Fatal(why)
	}
	if g.app.parts.store != nil || g.metric(t, `comporta_ratelimit_store_up{store="redis"}`) != "absent" {
		t.Error("without a shared rule there is a store")
	}
	if strings.Contains(g.log.String(), "hunter2") {
		t.Errorf("the log tells the password:\n%s", g.log)
	}
	g.stop()
	if err := g.mustEnd(t); err != nil {
		t.Error(err)
	}
}

// What the files of a shared store hold is judged before anything changes, and no
// problem repeats it.
func TestSharingOf(t *testing.T) {
	address := textFile(t, "address", "rediss://gate@10.0.0.1:6380/2\n")
	password := textFile(t, "password", "hunter2\n")
	s, err := sharingOf(&config.Redis{URLFile: address, PasswordFile: password}, nil)
	if err != nil || s.URL != "rediss://gate@10.0.0.1:6380/2" || s.Password != "hunter2" {
		t.Errorf("%+v, %v", s, err)
	}
	c, err := s.config(discard())
	if err != nil || c.Redis.Username != "gate" || c.Redis.Password != "hunter2" || c.Redis.DB != 2 || c.Redis.TLSConfig == nil {
		t.Errorf("%+v, %v", c.Redis, err)
	}
	for name, tt := range map[string]struct {
		r    config.Redis
		want []string
	}{
		"two lines": {config.Redis{URLFile: textFile(t, "a", "redis://a\nredis://b\n")}, []string{"redis.url_file", "one line"}},
		"nonsense":  {config.Redis{URLFile: textFile(t, "b", "http://:hunter2@a")}, []string{"redis.url_file", "scheme"}},
		"absent":    {config.Redis{URL: "redis://a", PasswordFile: filepath.Join(t.TempDir(), "none")}, []string{"redis.password_file", "cannot be read"}},
		"twice":     {config.Redis{URLFile: textFile(t, "c", "redis://:hunter2@a"), PasswordFile: password}, []string{"redis.password_file", "already"}},
		"no certificate, and no address": {
			config.Redis{URLFile: textFile(t, "d", ""), CAFile: password}, []string{"redis.url_file", "redis.ca_file", "no certificate"},
		},
	} {
		_, err := sharingOf(&tt.r, nil)
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
	}
}
