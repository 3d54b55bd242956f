package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

// said is a service that answers with what the gateway tells it of the caller.
func said(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, r.Header.Get("X-Forwarded-For"))
}

// cases/proxy.md B 23: with the PROXY protocol the client behind the balancer is who
// asks, for the gate and for the service.
func TestCase_Proxy_B23_ProxyProtocolThroughTheGate(t *testing.T) {
	g := start(t, service(t, said), "listen: [{addr: '127.0.0.1:0', proxy_protocol: true}]\nclients: {trusted_proxies: [127.0.0.0/8]}")
	res := g.raw(t, "PROXY TCP4 192.0.2.1 192.0.2.2 4660 80\r\nGET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n")
	if res == nil {
		t.Fatal("no answer")
	}
	if b, err := io.ReadAll(res.Body); string(b) != "192.0.2.1" || err != nil {
		t.Errorf("%q %v", b, err)
	}
	if res := g.raw(t, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); res != nil {
		t.Errorf("without its header: %+v", res)
	}
	g.write(t, service(t, said), "listen: [{addr: '127.0.0.1:0', proxy_protocol: true}]\nclients: {trusted_proxies: [10.0.0.0/8]}")
	if problems := g.reload(t); problems != "" {
		t.Fatal(problems)
	}
	if res := g.raw(t, "PROXY TCP4 192.0.2.1 192.0.2.2 4660 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"); res != nil {
		t.Errorf("from a peer that is trusted no more: %+v", res)
	}
}

// Too many connections, of one network or in all, are refused by the contract; a reload
// changes how many are too many. Trusted proxies are exempt from the first bound.
func TestConnectionLimit(t *testing.T) {
	const trusted = "\nclients: {trusted_proxies: [127.0.0.0/8]}"
	for _, tt := range []struct {
		limit   string
		few     string
		enough  []string
		refused string // the metric
	}{
		{"network", "limits: {connections_per_network: 1}", []string{"limits: {connections_per_network: 9}", "limits: {connections_per_network: 1}" + trusted}, `{limit="network"}`},
		{"total", "limits: {connections: 1}" + trusted, []string{"limits: {connections: 9}", ""}, `{limit="total"}`},
	} {
		t.Run(tt.limit, func(t *testing.T) {
			upstream := service(t, fine)
			g := start(t, upstream, tt.few)
			held, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = held.Close() }()
			const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
			_, _ = io.WriteString(held, get)
			if res, err := http.ReadResponse(bufio.NewReader(held), nil); err != nil || res.StatusCode != http.StatusOK {
				t.Fatal(res, err)
			}
			res := g.raw(t, get)
			if res == nil || res.StatusCode != http.StatusServiceUnavailable || res.Header.Get(comporta.HeaderDecision) != "connection_limit" || !res.Close || res.Header.Get("Retry-After") == "" {
				t.Errorf("got %+v", res)
			}
			if open, refused := g.metric(t, `comporta_connections{protocol="http1"}`), g.metric(t, "comporta_connections_refused_total"+tt.refused); open != "1" || refused != "1" {
				t.Errorf("metrics: %s open, %s refused", open, refused)
			}
			for _, more := range tt.enough {
				g.write(t, upstream, more)
				if problems := g.reload(t); problems != "" {
					t.Fatal(problems)
				}
				if res := g.raw(t, get); res == nil || res.StatusCode != http.StatusOK {
					t.Errorf("%s: got %+v", more, res)
				}
			}
		})
	}
}

// Where the system has not as many descriptors, fewer connections are let in, and the
// log says so.
func TestConnectionLimitBeyondDescriptors(t *testing.T) {
	n := descriptors()
	if n == 0 || n > 10_000_000 {
		t.Skip("the system has no limit that the configuration could exceed")
	}
	g := start(t, service(t, fine), "limits: {connections: 10000000}")
	if limit, err := strconv.ParseFloat(g.metric(t, "comporta_connections_limit"), 64); err != nil || limit < float64(n/2) || limit >= float64(n) {
		t.Errorf("%v of %d descriptors, %v", limit, n, err)
	}
	if !strings.Contains(g.log.String(), "limits.connections is more than the system has descriptors for") {
		t.Errorf("the log does not say so:\n%s", g.log)
	}
}

// The body's least rate holds over HTTP/1 and HTTP/2, and the refusal says that time was
// up.
func TestBodyMinRate(t *testing.T) {
	g := start(t, service(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fine(w, r)
	}), "limits: {body_min_rate: 1MiB, body_idle: 0s}")
	second := &http.Transport{Protocols: new(http.Protocols)}
	second.Protocols.SetUnencryptedHTTP2(true)
	defer second.CloseIdleConnections()
	var both sync.WaitGroup
	for name, ask := range map[string]func() *http.Response{
		"HTTP/1": func() *http.Response {
			return g.raw(t, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx")
		},
		"HTTP/2": func() *http.Response {
			body, sending := io.Pipe()
			go func() { _, _ = sending.Write([]byte("x")) }()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url, body)
			if err != nil {
				t.Error(err)
				return nil
			}
			res, err := second.RoundTrip(req)
			if err != nil {
				t.Error(err)
				return nil
			}
			_ = res.Body.Close()
			return res
		},
	} {
		both.Go(func() {
			start := time.Now()
			res := ask()
			if res == nil || res.StatusCode != http.StatusRequestTimeout || res.Header.Get(comporta.HeaderDecision) != "request_timeout" {
				t.Errorf("%s: got %+v", name, res)
			}
			if took := time.Since(start); took < 5*time.Second {
				t.Errorf("%s: after %v", name, took)
			}
		})
	}
	both.Wait()
}

// A renewed certificate is picked up without a reload; a broken one is told.
func TestRenewedCertificate(t *testing.T) {
	dir := t.TempDir()
	renew(t, dir, 1)
	g := start(t, service(t, fine), "listen: [{addr: '127.0.0.1:0', tls: {cert_file: "+dir+"/crt, key_file: "+dir+"/key}}]")
	addr := strings.TrimPrefix(g.url, "http://")
	if got := serial(t, addr); got != 1 {
		t.Fatal(got)
	}
	renew(t, dir, 2)
	for deadline := time.Now().Add(patience); serial(t, addr) != 2; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the old certificate goes on")
		}
	}
	g.log.await(t, "the certificate was renewed", nil)
}
