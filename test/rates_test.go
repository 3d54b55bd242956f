//go:build integration

package test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// sharing starts gateways that count the given rules in one Redis.
func sharing(t *testing.T, r *redisServer, n int, rules string) []*gateway {
	t.Helper()
	fleet := make([]*gateway, n)
	for i := range fleet {
		fleet[i] = configured(t, sharingFile(t, r, n, rules))
	}
	for _, g := range fleet {
		eventually(t, "the gateways count each other", func() bool { return g.metric(t, nodes) == float64(n) })
	}
	return fleet
}

const (
	nodes       = `comporta_ratelimit_nodes{store="redis"}`
	storeErrors = "comporta_ratelimit_store_errors_total"

	up = `comporta_ratelimit_store_up{store="redis"}`
)

func sharingFile(t *testing.T, r *redisServer, n int, rules string) string {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys")
	write(t, keys, strings.Repeat("the same on every gateway ", 3)+"\n")
	// The machine is busy: a budget of 20 ms is soon over, and is not what is tested.
	return fmt.Sprintf(`admission: {capacity: 500}
access_log: {format: off}
keys: {file: %s}
redis: {url: "redis://%s/0", timeout: 2s, gateways: %d}
rate_limits: [%s]
`, keys, r.addr, n, rules)
}

// ask sends one request of a client and returns the status and the gate's word.
func (g *gateway) ask(t *testing.T, path, key string) (status int, decision string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode, res.Header.Get("Comporta-Decision")
}

// cases/ratelimit.md 26 and 22, with whole gateways: two processes share one
// limit within the bound, a reload forgets nothing, and while Redis is away a
// closed rule refuses with 503, until it is back.
func TestCase_RateLimit_26_22_TwoGatewaysShareALimit(t *testing.T) {
	const rate, burst = 50, 100
	r := startRedis(t)
	fleet := sharing(t, r, 2, fmt.Sprintf("{name: shared, rate: %d/s, burst: %d, store: redis, on_store_failure: closed}", rate, burst))
	var admitted, denied, others atomic.Int64
	began := time.Now()
	var all sync.WaitGroup
	for _, g := range fleet {
		for range 4 {
			all.Go(func() {
				for time.Since(began) < 2*time.Second {
					switch status, _ := g.ask(t, "/", "hot"); status {
					case http.StatusOK:
						admitted.Add(1)
					case http.StatusTooManyRequests:
						denied.Add(1)
					default:
						others.Add(1)
					}
				}
			})
		}
	}
	all.Wait()
	w := time.Since(began).Seconds()
	// L is C/2N = r·T/2 = 25, so that min(N·L, r·T) is 50.
	limit := burst + int64(rate*w)
	t.Logf("%d admitted and %d denied in %.2f s; limit %d, bound %d", admitted.Load(), denied.Load(), w, limit, limit+50)
	if n := admitted.Load(); n > limit+50 || n < limit*7/10 || denied.Load() == 0 || others.Load() > 0 {
		t.Errorf("%d admitted, %d denied, %d others", n, denied.Load(), others.Load())
	}
	for _, g := range fleet {
		if ratio := g.metric(t, `comporta_ratelimit_overshoot_ratio{store="redis"}`); ratio > 1 {
			t.Errorf("the overshoot is %v of the bound", ratio)
		}
	}

	r.kill()
	for i, g := range fleet {
		eventually(t, "Redis is missed", func() bool { return g.metric(t, up) == 0 })
		if status, decision := g.ask(t, "/", fmt.Sprint("fresh", i)); status != http.StatusServiceUnavailable || decision != "limiter_unavailable" {
			t.Errorf("without Redis: %d %s", status, decision)
		}
		failed, refused := g.metric(t, storeErrors+`{kind="failed",store="redis"}`), g.metric(t, storeErrors+`{kind="refused",store="redis"}`)
		if failed+refused == 0 {
			t.Error("no error is counted")
		}
	}
	r.start(t)
	for _, g := range fleet {
		eventually(t, "Redis is found again", func() bool { return g.metric(t, up) == 1 && g.metric(t, nodes) == 2 })
		eventually(t, "decisions are shared again", func() bool {
			status, _ := g.ask(t, "/", "later")
			return status == http.StatusOK
		})
	}

	fleet[1].stop(t)
	eventually(t, "who stops leaves the count", func() bool { return fleet[0].metric(t, nodes) == 1 })
}

// A reload keeps the store with what is lent to it, and what a key has used.
func TestReloadKeepsSharedLimits(t *testing.T) {
	r := startRedis(t)
	rule := func(burst int) string {
		return fmt.Sprintf("{name: slow, rate: 1/h, burst: %d, store: redis, on_store_failure: open}", burst)
	}
	fleet := sharing(t, r, 2, rule(20))
	admitted := 0
	ask := func(g *gateway, n int) {
		for range n {
			if status, _ := g.ask(t, "/", "k"); status == http.StatusOK {
				admitted++
			}
		}
	}
	ask(fleet[0], 12)
	for _, g := range fleet {
		write(t, g.file, sharingFile(t, r, 2, rule(24)))
		before := strings.Count(g.log.String(), `"reloaded"`)
		if err := g.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it has reloaded", func() bool { return strings.Count(g.log.String(), `"reloaded"`) > before })
	}
	for range 20 {
		ask(fleet[0], 1)
		ask(fleet[1], 1)
	}
	// L is 1, and each of two gateways may hold one.
	if admitted < 24 || admitted > 26 {
		t.Errorf("%d admitted of 24", admitted)
	}
}

// Over TLS, with an authority of its own and a password: both are needed.
func TestSharedLimitsOverTLS(t *testing.T) {
	dir := t.TempDir()
	certificate, key := authority(t, dir)
	r := startRedis(t, "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "no", "--requirepass", "open sesame")
	keys, password, wrong := filepath.Join(dir, "keys"), filepath.Join(dir, "password"), filepath.Join(dir, "wrong")
	write(t, keys, strings.Repeat("the same on every gateway ", 3)+"\n")
	write(t, password, "open sesame\n")
	write(t, wrong, "open barley\n")
	for _, tt := range []struct {
		why, more string
		up        float64
	}{
		{"all is right", ", ca_file: " + certificate + ", password_file: " + password, 1},
		{"nobody vouches for the server", ", password_file: " + password, 0},
		{"the password is wrong", ", ca_file: " + certificate + ", password_file: " + wrong, 0},
	} {
		g := configured(t, fmt.Sprintf(`keys: {file: %s}
redis: {url: "rediss://%s/0", timeout: 2s, gateways: 1%s}
rate_limits: [{name: shared, rate: 1/h, burst: 2, store: redis, on_store_failure: closed}]
`, keys, r.addr, tt.more))
		eventually(t, tt.why, func() bool { return g.metric(t, up) == tt.up })
		for i := range 3 {
			status, decision := g.ask(t, "/", "k")
			want := "limiter_unavailable"
			switch {
			case tt.up == 1 && i < 2:
				want = ""
			case tt.up == 1:
				want = "rate_limited"
			}
			if decision != want {
				t.Errorf("%s, request %d: %d %s, want %q", tt.why, i, status, decision, want)
			}
		}
	}
}

// authority makes a certificate for 127.0.0.1 that vouches for itself.
func authority(t *testing.T, dir string) (certificate, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(dir, "redis.crt"), filepath.Join(dir, "redis.key")
	write(t, certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	return certificate, key
}
