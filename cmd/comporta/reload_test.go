package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestReload(t *testing.T) {
	for name, ask := range map[string]func(t *testing.T, g *gateway){
		"signal": func(_ *testing.T, g *gateway) { g.hup <- syscall.SIGHUP },
		"POST": func(t *testing.T, g *gateway) {
			t.Helper()
			if problems := g.reload(t); problems != "" {
				t.Fatal(problems)
			}
		},
		"watched file": func(*testing.T, *gateway) {},
	} {
		t.Run(name, func(t *testing.T) {
			upstream := service(t, fine)
			g := start(t, upstream, "admission: {capacity: 5}\nreload: {watch: "+fmt.Sprint(name == "watched file")+"}")
			g.mustServe(t)
			requests := g.status(t).Requests
			g.write(t, upstream, "admission: {capacity: 7}")
			ask(t, g)
			g.log.await(t, "reloaded", nil)
			s := g.status(t)
			if s.Capacity != 7 || !s.Ready {
				t.Errorf("got %+v, want the new capacity", s)
			}
			if s.Requests != requests {
				t.Errorf("%d requests, want the %d of before: the state outlives a reload", s.Requests, requests)
			}
			g.mustServe(t)
		})
	}
}

// Issue 2, "Bad input": a bad reload keeps the old gate, whatever is wrong.
func TestBadReloadKeepsTheOldGate(t *testing.T) {
	upstream := service(t, fine)
	occupied, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = occupied.Close() }()
	g := start(t, upstream, "admission: {capacity: {initial: 20}}")
	for _, tt := range []struct{ more, want string }{
		{"admission: {capacity: 0}\nbogus: 1", "comporta.yaml:4:1: bogus: unknown key"},
		{"admission: {capacity: {max: 5}}\nkeys: {file: absent}", "keys.file: absent cannot be read"},
		{"admission: {capacity: {max: 5}}\nlisten: " + occupied.Addr().String(), "cannot listen on " + occupied.Addr().String()},
		{"admission: {capacity: {max: 5}}\nlimits: {idle: 1s, header: 1KiB}\naccess_log: {sample: 0.5}", "restart only: limits.header, limits.idle, access_log.sample"},
		{"admission: {capacity: {max: 5}}\nlisten: [{addr: '127.0.0.1:0', h2c: false}]", "restart only: listen 127.0.0.1:0: h2c"},
	} {
		g.write(t, upstream, tt.more)
		if got := g.reload(t); !strings.Contains(got, tt.want) {
			t.Errorf("%s:\ngot %s\nwant %s", tt.more, got, tt.want)
		}
		if got := g.metric(t, "comporta_config_last_reload_successful"); got != "0" {
			t.Errorf("%s: comporta_config_last_reload_successful is %s, want 0", tt.more, got)
		}
		if got := g.status(t).Capacity; got != 20 {
			t.Errorf("%s: the capacity is %d, want 20: what was refused is in force", tt.more, got)
		}
		g.mustServe(t)
	}
	g.hup <- syscall.SIGHUP
	g.log.await(t, "reload failed, the old configuration goes on", nil)
	g.write(t, upstream, "admission: {capacity: {max: 5}}")
	if problems := g.reload(t); problems != "" {
		t.Fatal(problems)
	}
	if got := g.metric(t, "comporta_config_last_reload_successful"); got != "1" {
		t.Errorf("comporta_config_last_reload_successful is %s, want 1", got)
	}
	if got := g.status(t).Capacity; got != 5 {
		t.Errorf("the capacity is %d, want 5", got)
	}
}

// A changed address: the new one is open before the old one closes, and what runs
// there ends in peace.
func TestReloadMovesAListener(t *testing.T) {
	arrived, leave := make(chan struct{}), make(chan struct{})
	upstream := service(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			<-leave
		}
		fine(w, r)
	})
	g := start(t, upstream, "listen: ['127.0.0.1:0']")
	slow := make(chan string, 1)
	go func() {
		status, body := g.get(g.url + "/slow")
		slow <- fmt.Sprint(status, " ", body)
	}()
	<-arrived
	g.write(t, upstream, "listen: ['localhost:0']") // the same machine by another address
	if problems := g.reload(t); problems != "" {
		t.Fatal(problems)
	}
	var reloaded struct{ Listen []string }
	g.log.await(t, "reloaded", &reloaded)
	if len(reloaded.Listen) != 1 || "http://"+reloaded.Listen[0] == g.url {
		t.Fatalf("got %q", reloaded.Listen)
	}
	if status, body := g.get("http://" + reloaded.Listen[0] + "/"); status != http.StatusOK {
		t.Errorf("the new address: %d %s", status, body)
	}
	closed(t, strings.TrimPrefix(g.url, "http://"))
	close(leave)
	if got := <-slow; got != "200 fine" {
		t.Errorf("the request on the old address: %s", got)
	}
}

// closed returns when an address accepts no more.
func closed(t *testing.T, addr string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			return
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			t.Fatalf("%s is still open", addr)
		}
	}
}

// cases/proxy.md E 41: no request fails because of a reload.
func TestCase_Proxy_E41_ReloadUnderLoad(t *testing.T) {
	const reloads, rate, between = 20, 1000, 130 // requests a second, and between two reloads: about three seconds in all
	upstream := service(t, fine)
	g := start(t, upstream, "admission: {capacity: 500}\naccess_log: {format: off}")
	g.client.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
	var failures, served atomic.Int64
	var first atomic.Value
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	wg.Go(func() {
		tick := time.NewTicker(time.Second / rate)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			path := fmt.Sprintf("%s/%d", g.url, n)
			wg.Go(func() {
				if status, body := g.get(path); status != http.StatusOK {
					failures.Add(1)
					first.CompareAndSwap(nil, fmt.Sprintf("%s: %d %s", path, status, body))
					return
				}
				served.Add(1)
			})
		}
	})
	progress := func(more int64) {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for want := served.Load() + more; served.Load() < want && failures.Load() == 0 && ctx.Err() == nil; {
			<-tick.C
		}
	}
	for i := range reloads {
		progress(between)
		g.write(t, upstream, fmt.Sprintf("admission: {capacity: %d}\naccess_log: {format: off}\nroutes: [{match: /%d, name: one}]", 500+i, i))
		if problems := g.reload(t); problems != "" {
			t.Fatal(problems)
		}
	}
	progress(between)
	cancel()
	wg.Wait()
	if failures.Load() > 0 || served.Load() < reloads*between {
		t.Errorf("%d failed, the first: %v; %d served", failures.Load(), first.Load(), served.Load())
	}
	if got := g.status(t); got.Capacity != 500+reloads-1 || got.Inflight != 0 {
		t.Errorf("got %+v", got)
	}
}

// A certificate that was renewed in place is served after a reload; a broken one
// is refused.
func TestReloadRenewsCertificates(t *testing.T) {
	dir := t.TempDir()
	tlsFiles := "listen: [{addr: '127.0.0.1:0', tls: {cert_file: " + dir + "/crt, key_file: " + dir + "/key}}]"
	renew(t, dir, 1)
	upstream := service(t, fine)
	g := start(t, upstream, tlsFiles)
	addr := strings.TrimPrefix(g.url, "http://")
	if got := serial(t, addr); got != 1 {
		t.Errorf("serial %d, want 1", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "crt"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if problems := g.reload(t); !strings.Contains(problems, dir+"/crt") {
		t.Errorf("got %q", problems)
	}
	if got := serial(t, addr); got != 1 {
		t.Errorf("serial %d after a broken one, want 1", got)
	}
	renew(t, dir, 2)
	if problems := g.reload(t); problems != "" {
		t.Fatal(problems)
	}
	if got := serial(t, addr); got != 2 {
		t.Errorf("serial %d, want 2", got)
	}
	g.write(t, upstream, strings.Replace(tlsFiles, "/key}", "/key, min_version: '1.3'}", 1))
	if problems := g.reload(t); !strings.Contains(problems, "listen 127.0.0.1:0: tls") {
		t.Errorf("got %q", problems)
	}
}

func renew(t *testing.T, dir string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	crt, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"crt": {Type: "CERTIFICATE", Bytes: crt}, "key": {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// serial asks over TLS and HTTP/2 and returns the number of the certificate.
func serial(t *testing.T, addr string) int64 {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Transport: transport, Timeout: patience}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK || res.ProtoMajor != 2 {
		t.Errorf("%s %s, %v", res.Proto, res.Status, err)
	}
	return res.TLS.PeerCertificates[0].SerialNumber.Int64()
}

// The keys of an issuer outlive reloads: no token is unknown until they are
// fetched again.
func TestReloadKeepsTheKeysOfIssuers(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	coordinate := base64.RawURLEncoding.EncodeToString
	var fetches atomic.Int64
	fetched := make(chan struct{}, 16)
	issuer := service(t, func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		_, _ = fmt.Fprintf(w, `{"keys":[{"kty":"EC","crv":"P-256","kid":"1","alg":"ES256","use":"sig","x":%q,"y":%q}]}`, coordinate(point[1:33]), coordinate(point[33:]))
		fetched <- struct{}{}
	})
	clients := func(urls ...string) string {
		text := "clients:\n  identify:\n"
		for _, u := range urls {
			text += "    - jwt: {jwks_url: " + u + ", issuer: a, audience: b}\n"
		}
		return text + "    - header: X-Api-Key\n"
	}
	upstream := service(t, fine)
	g := start(t, upstream, clients(issuer+"/keys"))
	<-fetched
	first := g.app.current.Load().jwks[issuer+"/keys"]
	for range 5 {
		if problems := g.reload(t); problems != "" {
			t.Fatal(problems)
		}
	}
	if again := g.app.current.Load().jwks[issuer+"/keys"]; again != first || fetches.Load() != 1 {
		t.Errorf("%d fetches, want 1 of the same keys", fetches.Load())
	}
	g.write(t, upstream, clients(issuer+"/other"))
	if problems := g.reload(t); problems != "" {
		t.Fatal(problems)
	}
	<-fetched
	if sets := g.app.current.Load().jwks; len(sets) != 1 || sets[issuer+"/other"] == nil {
		t.Errorf("got %v", sets)
	}
}
