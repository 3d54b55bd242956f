package front

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// v2 builds a header of version 2.
func v2(command, family byte, addresses string) string {
	return proxySignature2 + string([]byte{command, family, byte(len(addresses) >> 8), byte(len(addresses))}) + addresses
}

const (
	v2v4  = "\xc0\x00\x02\x01\xc0\x00\x02\x02\x12\x34\x00\x50"
	v2v6  = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x12\x34\x00\x50"
	v2tlv = "\x04\x00\x02ab"
)

func TestProxyHeader(t *testing.T) {
	for _, c := range []struct {
		text   string
		client string // empty: the peer's own
		bad    bool
	}{
		{text: "PROXY TCP4 192.0.2.1 192.0.2.2 4660 80\r\n", client: "192.0.2.1:4660"},
		{text: "PROXY TCP6 2001:db8::1 2001:db8::2 4660 80\r\n", client: "[2001:db8::1]:4660"},
		{text: "PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", client: "192.0.2.1:1"},
		{text: "PROXY UNKNOWN\r\n"},
		{text: "PROXY UNKNOWN whatever 1 2\r\n"},
		{text: "PROXY TCP4 192.0.2.1 192.0.2.2 4660 80\n", bad: true},
		{text: "PROXY TCP4 192.0.2.1 192.0.2.2 4660\r\n", bad: true},
		{text: "PROXY TCP4 192.0.2.1 192.0.2.2 4660 80 \r\n", bad: true},
		{text: "PROXY TCP4  192.0.2.1 192.0.2.2 4660 80\r\n", bad: true},
		{text: "PROXY TCP4 192.0.2.1 192.0.2.2 65536 80\r\n", bad: true},
		{text: "PROXY TCP4 192.0.2.1 192.0.2.2 04660 80\r\n", bad: true},
		{text: "PROXY TCP4 192.0.2.1 192.0.2.2 -1 80\r\n", bad: true},
		{text: "PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n", bad: true},
		{text: "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n", bad: true},
		{text: "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", bad: true},
		{text: "PROXY TCP4 192.0.2.300 192.0.2.2 1 2\r\n", bad: true},
		{text: "PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n", bad: true},
		{text: "PROXY " + strings.Repeat("x", 200) + "\r\n", bad: true},
		{text: "proxy TCP4 192.0.2.1 192.0.2.2 4660 80\r\n", bad: true},
		{text: "GET / HTTP/1.1\r\n", bad: true},
		{text: "\r\n\r\n\x00\r\nQUIT\r", bad: true},
		{text: v2(0x21, 0x11, v2v4), client: "192.0.2.1:4660"},
		{text: v2(0x21, 0x11, v2v4+v2tlv), client: "192.0.2.1:4660"},
		{text: v2(0x21, 0x21, v2v6), client: "[2001:db8::1]:4660"},
		{text: v2(0x20, 0x00, "")},
		{text: v2(0x20, 0x11, v2v4)},
		{text: v2(0x21, 0x00, v2tlv)},
		{text: v2(0x21, 0x31, strings.Repeat("x", 216))},
		{text: v2(0x11, 0x11, v2v4), bad: true},
		{text: v2(0x22, 0x11, v2v4), bad: true},
		{text: v2(0x21, 0x12, v2v4), bad: true},
		{text: v2(0x21, 0x11, v2v4[:8]), bad: true},
		{text: v2(0x21, 0x21, v2v4), bad: true},
		{text: v2(0x21, 0x11, v2v4+strings.Repeat("x", 8<<10)), bad: true},
	} {
		client, size, err := proxyHeader([]byte(c.text + "GET /"))
		if c.bad != errors.Is(err, errNoProxyHeader) {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if c.bad {
			continue
		}
		if size != len(c.text) || client.IsValid() != (c.client != "") || client.IsValid() && client.String() != c.client {
			t.Errorf("%q: %v %d", c.text, client, size)
		}
		for n := range len(c.text) { // every beginning asks for more
			if _, size, err := proxyHeader([]byte(c.text[:n])); size != 0 || err != nil {
				t.Fatalf("%q: %d %v", c.text[:n], size, err)
			}
		}
	}
}

func FuzzProxyHeader(f *testing.F) {
	f.Add([]byte("PROXY TCP4 192.0.2.1 192.0.2.2 4660 80\r\n"))
	f.Add([]byte(v2(0x21, 0x11, v2v4+v2tlv)))
	f.Add([]byte(v2(0x21, 0x21, v2v6)))
	f.Fuzz(func(t *testing.T, b []byte) {
		client, size, err := proxyHeader(b)
		if size < 0 || size > len(b) || err != nil && size != 0 {
			t.Fatal(size, err)
		}
		if size == 0 {
			if err == nil && len(b) >= maxProxyHeader {
				t.Fatal("a full buffer is not enough")
			}
			return
		}
		// The same header says the same, whatever comes behind it.
		again, size2, err := proxyHeader(append(b[:size:size], "more"...))
		if again != client || size2 != size || err != nil {
			t.Fatal(again, size2, err)
		}
	})
}

func remote(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) }

var loopback = netip.MustParsePrefix("127.0.0.0/8")

// cases/proxy.md B 23: never a mix on one port, and none from strangers.
func TestCase_Proxy_B23_ProxyProtocol(t *testing.T) {
	const get = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
	h := open(t, Config{Handler: http.HandlerFunc(remote), ProxyProtocol: loopback.Contains})
	for header, want := range map[string]string{
		"PROXY TCP4 192.0.2.1 192.0.2.2 4660 80\r\n": "192.0.2.1:4660",
		v2(0x21, 0x21, v2v6+v2tlv):                   "[2001:db8::1]:4660",
		v2(0x20, 0x00, ""):                           "127.0.0.1:",
		"PROXY UNKNOWN\r\n":                          "127.0.0.1:",
	} {
		if got := h.say(t, header+get); !strings.Contains(got, "\r\n\r\n"+want) {
			t.Errorf("%q: %q", header, got)
		}
	}
	for _, text := range []string{get, "PROXY nonsense\r\n" + get} {
		c := h.dial(t)
		_, _ = io.WriteString(c, text)
		if b, _ := io.ReadAll(c); len(b) > 0 {
			t.Errorf("%q: %q", text, b)
		}
	}
	stranger := open(t, Config{Handler: silent(t), ProxyProtocol: func(netip.Addr) bool { return false }})
	c := stranger.dial(t)
	_, _ = io.WriteString(c, "PROXY TCP4 192.0.2.1 192.0.2.2 4660 80\r\n"+get)
	if b, _ := io.ReadAll(c); len(b) > 0 {
		t.Errorf("%q", b)
	}
	plain := open(t, Config{Handler: silent(t)})
	if got := plain.say(t, "PROXY TCP4 192.0.2.1 192.0.2.2 4660 80\r\n"+get); status(got) != "400" {
		t.Errorf("%q", got)
	}
}

// The header has a time of its own (CVE-2021-23409).
func TestCase_Proxy_B23_SlowProxyHeader(t *testing.T) {
	everybody := func(netip.Addr) bool { return true }
	for _, limits := range []Limits{{}, limited} {
		timed(t, Config{Handler: silent(t), ProxyProtocol: everybody, Limits: limits}, func(t *testing.T, _ *Server, dial func() net.Conn) {
			c := dial()
			_, _ = io.WriteString(c, "PROXY TCP4")
			if got, took := rest(c); got != "" || took != 5*time.Second {
				t.Errorf("%q after %v", got, took)
			}
		})
	}
}

// The header comes before the handshake, maybe in one piece with its beginning.
func TestProxyProtocolUnderTLS(t *testing.T) {
	certificate, pool := certificate(t, "localhost")
	h := open(t, Config{
		Handler: http.HandlerFunc(remote), ProxyProtocol: loopback.Contains,
		TLS: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	})
	for _, next := range []string{"http/1.1", "h2"} {
		c := tls.Client(&withPrefix{Conn: h.dial(t), prefix: "PROXY TCP4 192.0.2.1 192.0.2.2 4660 80\r\n"},
			&tls.Config{RootCAs: pool, ServerName: "localhost", NextProtos: []string{next}, MinVersion: tls.VersionTLS12})
		if next == "h2" {
			tr := &http.Transport{ForceAttemptHTTP2: true, DialTLSContext: once(c)}
			t.Cleanup(tr.CloseIdleConnections)
			res, err := (&http.Client{Transport: tr}).Get("https://localhost/")
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if string(b) != "192.0.2.1:4660" || res.ProtoMajor != 2 {
				t.Errorf("%q %s", b, res.Proto)
			}
			continue
		}
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if _, body := answer(t, bufio.NewReader(c), "GET"); body != "192.0.2.1:4660" {
			t.Errorf("%q", body)
		}
	}
}

// withPrefix sends a prefix with the first write.
type withPrefix struct {
	net.Conn

	prefix string
}

func (w *withPrefix) Write(p []byte) (int, error) {
	b := append([]byte(w.prefix), p...)
	w.prefix = ""
	_, err := w.Conn.Write(b)
	return len(p), err
}
