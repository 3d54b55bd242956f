package front

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// certificate makes a certificate for a name, and a pool that trusts it.
func certificate(t testing.TB, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// once dials a connection that there is already.
func once(c net.Conn) func(context.Context, string, string) (net.Conn, error) {
	var used sync.Once
	return func(context.Context, string, string) (nc net.Conn, err error) {
		err = errors.New("dialed twice")
		used.Do(func() { nc, err = c, nil })
		return nc, err
	}
}

func proto(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %q %v tls=%t", r.Proto, b, err, r.TLS != nil)
}

// TLS serves HTTP/1.1 and HTTP/2, as the client wants it; the strict reader reads
// the former.
func TestTLS(t *testing.T) {
	cert, pool := certificate(t, "localhost")
	h := open(t, Config{Handler: http.HandlerFunc(proto), TLS: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}})
	for _, two := range []bool{false, true} {
		tr := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}, Protocols: new(http.Protocols),
		}
		tr.Protocols.SetHTTP1(!two)
		tr.Protocols.SetHTTP2(two)
		client := &http.Client{Transport: tr, Timeout: patience}
		for range 3 {
			res, err := client.Post("https://"+h.addr, "text/plain", strings.NewReader("abc"))
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			want := `HTTP/1.1 "abc" <nil> tls=true`
			if two {
				want = `HTTP/2.0 "abc" <nil> tls=true`
			}
			if string(b) != want {
				t.Errorf("%q", b)
			}
		}
		tr.CloseIdleConnections()
	}
	c := tls.Client(h.dial(t), &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12})
	_, _ = io.WriteString(c, "GET / HTTP/1.1\nHost: a\n\n")
	if b, err := io.ReadAll(c); status(string(b)) != "400" || err != nil {
		t.Errorf("%q %v", b, err)
	}
}

// Plain HTTP on a port with TLS is told so; silence there has an end.
func TestTLSPort(t *testing.T) {
	cert, _ := certificate(t, "localhost")
	c := Config{Handler: silent(t), TLS: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}}
	h := open(t, c)
	if got := h.say(t, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); status(got) != "400" || !strings.Contains(got, "TLS") {
		t.Errorf("%q", got)
	}
	for limits, want := range map[Limits]time.Duration{{}: handshakeTime, limited: limited.HeaderTimeout} {
		c.Limits = limits
		timed(t, c, func(t *testing.T, _ *Server, dial func() net.Conn) {
			if _, took := rest(dial()); took != want {
				t.Errorf("cut after %v", took)
			}
		})
	}
}

// HTTP/2 without TLS comes by its preface, where that is on.
func TestH2C(t *testing.T) {
	for _, on := range []bool{true, false} {
		h := open(t, Config{Handler: http.HandlerFunc(proto), H2C: on})
		tr := &http.Transport{Protocols: new(http.Protocols)}
		tr.Protocols.SetUnencryptedHTTP2(true)
		client := &http.Client{Transport: tr, Timeout: patience}
		res, err := client.Post("http://"+h.addr, "text/plain", strings.NewReader("abc"))
		if !on {
			if err == nil {
				t.Error(res)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if string(b) != `HTTP/2.0 "abc" <nil> tls=false` {
			t.Errorf("%q", b)
		}
		tr.CloseIdleConnections()
		// And HTTP/1 beside it, also where it begins alike.
		if got := h.say(t, "PUT / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); status(got) != "200" {
			t.Errorf("%q", got)
		}
	}
}

// cases/proxy.md E 41: HTTP/2 ends with GOAWAY, and streams under way end normally.
func TestCase_Proxy_E41_GracefulEnd(t *testing.T) {
	release, arrived := make(chan struct{}), make(chan struct{})
	h := open(t, Config{H2C: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-release
		proto(w, r)
	})})
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	got := make(chan string, 1)
	go func() {
		res, err := (&http.Client{Transport: tr, Timeout: patience}).Get("http://" + h.addr)
		if err != nil {
			got <- err.Error()
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		got <- string(b)
	}()
	<-arrived
	done := make(chan error, 1)
	go func() { done <- h.Shutdown(t.Context()) }()
	for !h.draining.Load() {
		time.Sleep(time.Millisecond)
	}
	close(release)
	if body := <-got; body != `HTTP/2.0 "" <nil> tls=false` {
		t.Error(body)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Too many connections of one network are told so; others are not.
func TestConnectionsPerNetwork(t *testing.T) {
	connections := NewConnections(ConnectionLimits{Network: 2})
	h := open(t, Config{Handler: http.HandlerFunc(remote), Connections: connections})
	const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	var held []net.Conn
	for range 2 {
		c := h.dial(t)
		_, _ = io.WriteString(c, get)
		answer(t, bufio.NewReader(c), "GET")
		held = append(held, c)
	}
	if got := h.say(t, get); status(got) != "503" || !strings.Contains(got, "Retry-After: 1\r\n") || !strings.Contains(got, "Comporta-Decision: connection_limit\r\n") {
		t.Errorf("%q", got)
	}
	_ = held[0].Close()
	for connections.Stats().Open > 1 {
		time.Sleep(time.Millisecond)
	}
	if got := h.say(t, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); status(got) != "200" {
		t.Errorf("%q", got)
	}
	if stats := connections.Stats(); stats.RefusedNetwork != 1 || stats.Networks != 1 {
		t.Errorf("%+v", stats)
	}
}

// Behind a PROXY protocol the client's network counts, not the balancer's.
func TestConnectionsBehindAProxy(t *testing.T) {
	h := open(t, Config{
		Handler: http.HandlerFunc(remote), Connections: NewConnections(ConnectionLimits{Network: 1}), ProxyProtocol: loopback.Contains,
	})
	const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	for client, want := range map[string]int{"192.0.2.1": 200, "192.0.2.2": 200} {
		c := h.dial(t)
		_, _ = fmt.Fprintf(c, "PROXY TCP4 %s 192.0.2.9 1 2\r\n%s", client, get)
		if res, _ := answer(t, bufio.NewReader(c), "GET"); res.StatusCode != want {
			t.Error(client, res)
		}
	}
	if got := h.say(t, "PROXY TCP4 192.0.2.1 192.0.2.9 1 2\r\n"+get); status(got) != "503" {
		t.Errorf("%q", got)
	}
	if s := h.config.Connections.Stats(); s.Open != 2 || s.Networks != 2 || s.Accepted != 3 || s.RefusedNetwork != 1 {
		t.Errorf("%+v", s)
	}
}
