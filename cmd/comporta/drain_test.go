package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/internal/config"
)

// held is a service that holds /slow until it is told, or until its caller leaves.
type held struct {
	url           string
	arrived, left chan struct{}
	release       chan struct{}
}

func hold(t *testing.T) *held {
	t.Helper()
	h := &held{arrived: make(chan struct{}, 8), left: make(chan struct{}, 8), release: make(chan struct{}, 8)}
	h.url = service(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/slow" {
			fine(w, r)
			return
		}
		h.arrived <- struct{}{}
		select {
		case <-h.release:
			fine(w, r)
		case <-r.Context().Done():
			h.left <- struct{}{}
		}
	})
	return h
}

// ask starts a request that the service holds.
func (h *held) ask(t *testing.T, g *gateway) <-chan string {
	t.Helper()
	answer := make(chan string, 1)
	go func() {
		status, body := g.get(g.url + "/slow")
		answer <- fmt.Sprint(status, " ", body)
	}()
	select {
	case <-h.arrived:
	case <-time.After(patience):
		t.Fatal("the request does not arrive")
	}
	return answer
}

// An idle gateway exits at once, whatever the delay.
func TestDrainOfAnIdleGateway(t *testing.T) {
	g := start(t, service(t, fine), "drain: {delay: 1h, soft: 1h, hard: 1h}")
	if status, _ := g.get(g.admin + "/readyz"); status != http.StatusOK {
		t.Errorf("/readyz: %d", status)
	}
	g.stop()
	if err := g.mustEnd(t); err != nil {
		t.Error(err)
	}
}

// /readyz turns first; until the delay is over everybody is served, and told to
// come by another connection.
func TestDrainTurnsReadyzFirst(t *testing.T) {
	g := start(t, service(t, fine), "drain: {delay: 1h, soft: 1h}")
	g.mustServe(t)
	g.stop()
	g.log.await(t, "draining", nil)
	if status, body := g.get(g.admin + "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "draining") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if status, _ := g.get(g.admin + "/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d", status)
	}
	res, err := g.client.Get(g.url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Error(err)
	}
	if _ = res.Body.Close(); res.StatusCode != http.StatusOK || !res.Close {
		t.Errorf("%s, close %t", res.Status, res.Close)
	}
	if problems := g.reload(t); problems != errDraining.Error() {
		t.Errorf("a reload during the drain: %q", problems)
	}
	g.again <- syscall.SIGTERM
	if err := g.mustEnd(t); err != nil {
		t.Error(err)
	}
	closed(t, strings.TrimPrefix(g.url, "http://"))
	closed(t, strings.TrimPrefix(g.admin, "http://"))
}

// Soft: what runs ends by itself, and nobody else comes in.
func TestDrainWaitsSoftly(t *testing.T) {
	h := hold(t)
	g := start(t, h.url, "drain: {soft: 1h}")
	answer := h.ask(t, g)
	g.stop()
	closed(t, strings.TrimPrefix(g.url, "http://"))
	if status, _ := g.get(g.admin + "/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d", status)
	}
	h.release <- struct{}{}
	if got := <-answer; got != "200 fine" {
		t.Errorf("got %s", got)
	}
	if err := g.mustEnd(t); err != nil {
		t.Error(err)
	}
}

// Hard: what does not end is cancelled, with a cause that the service's side sees
// as its caller leaving.
func TestDrainCancelsHard(t *testing.T) {
	for name, tt := range map[string]struct {
		drain string
		skip  bool
	}{
		"after the soft wait": {"drain: {soft: 50ms, hard: 1h}", false},
		"by a second signal":  {"drain: {soft: 1h, hard: 1h}", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := hold(t)
			g := start(t, h.url, tt.drain)
			answer := h.ask(t, g)
			g.stop()
			g.log.await(t, "draining", nil)
			if tt.skip {
				g.again <- syscall.SIGINT
			}
			select {
			case <-h.left:
			case <-time.After(patience):
				t.Fatal("the service is not told")
			}
			if got := <-answer; strings.HasPrefix(got, "200") {
				t.Errorf("got %s", got)
			}
			if err := g.mustEnd(t); err != nil {
				t.Error(err)
			}
		})
	}
}

// Who asks when what runs is being cancelled is told that the request was not begun.
func TestDrainRefusesLateRequests(t *testing.T) {
	h := hold(t)
	g := start(t, h.url, "drain: {soft: 1h, hard: 1h}")
	late, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = late.Close() }()
	_, _ = io.WriteString(late, "POST / HTTP/1.1\r\nHost: a\r\n")
	answer := h.ask(t, g)
	g.stop()
	g.again <- syscall.SIGINT
	select {
	case <-h.left:
	case <-time.After(patience):
		t.Fatal("the service is not told")
	}
	_, _ = io.WriteString(late, "Content-Length: 0\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(late), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get(comporta.HeaderDecision) != "draining" || res.Header.Get("Retry-After") == "" || !res.Close {
		t.Errorf("got %+v", res)
	}
	_ = res.Body.Close()
	<-answer
	if err := g.mustEnd(t); err != nil {
		t.Error(err)
	}
}

// cases/proxy.md E 41, without the delay in which a balancer looks elsewhere: who asks
// on a kept connection is served, and told to ask there no more.
func TestCase_Proxy_E41_DrainOfKeptConnections(t *testing.T) {
	g := start(t, service(t, fine), "drain: {soft: 10s}\naccess_log: {format: off}")
	var busy, clients sync.WaitGroup
	for range 16 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		busy.Add(1)
		clients.Go(func() {
			isBusy := sync.OnceFunc(busy.Done)
			defer isBusy() // also one that fails, or the test would wait for it
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(patience))
			r := bufio.NewReader(conn)
			for n := 0; ; n++ {
				if n == 10 {
					isBusy()
				}
				_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
				res, err := http.ReadResponse(r, nil)
				if err != nil || res.StatusCode != http.StatusOK {
					t.Errorf("%v %v", res, err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.Close {
					return
				}
			}
		})
	}
	busy.Wait()
	g.stop()
	clients.Wait()
	if err := g.mustEnd(t); err != nil {
		t.Error(err)
	}
}

// No drain fails because of connections that are idle.
func TestDrainOfIdleConnections(t *testing.T) {
	g := start(t, service(t, fine), "drain: {soft: 50ms, hard: 50ms}")
	g.mustServe(t)
	g.stop()
	if err := g.mustEnd(t); err != nil {
		t.Error(err)
	}
}

// upgrade opens a connection that is no longer HTTP.
func upgrade(t *testing.T, g *gateway) net.Conn {
	t.Helper()
	addr := strings.TrimPrefix(g.url, "http://")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET /chat HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", addr); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", res, err)
	}
	return conn
}

// echo is a service that upgrades, and sends back what it reads.
func echo(w http.ResponseWriter, _ *http.Request) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	_ = rw.Flush()
	_, _ = io.Copy(conn, rw)
}

// Upgraded connections are waited for as requests are, although net/http forgets
// them.
func TestDrainWaitsForUpgradedConnections(t *testing.T) {
	g := start(t, service(t, echo), "drain: {soft: 1h, hard: 1h}")
	conn := upgrade(t, g)
	g.stop()
	closed(t, strings.TrimPrefix(g.url, "http://"))
	if _, err := io.WriteString(conn, "still"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != "still" {
		t.Fatalf("%q, %v", b, err)
	}
	select {
	case <-g.ended:
		t.Error("the gateway ended under an open connection")
	default:
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.mustEnd(t); err != nil {
		t.Error(err)
	}
}

func TestDrainCancelsUpgradedConnections(t *testing.T) {
	g := start(t, service(t, echo), "drain: {soft: 10ms, hard: 1h}")
	conn := upgrade(t, g)
	defer func() { _ = conn.Close() }()
	g.stop()
	if err := g.mustEnd(t); err != nil {
		t.Error(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes come from an ended gateway", n)
	}
}

// A server that a reload retired has its requests waited for too.
func TestDrainWaitsForRetiredListeners(t *testing.T) {
	h := hold(t)
	g := start(t, h.url, "listen: ['127.0.0.1:0']\ndrain: {soft: 1h}")
	answer := h.ask(t, g)
	g.write(t, h.url, "listen: ['localhost:0']\ndrain: {soft: 1h}")
	if problems := g.reload(t); problems != "" {
		t.Fatal(problems)
	}
	g.stop()
	g.log.await(t, "draining", nil)
	h.release <- struct{}{}
	if got := <-answer; got != "200 fine" {
		t.Errorf("got %s", got)
	}
	if err := g.mustEnd(t); err != nil {
		t.Error(err)
	}
}

// What was bound is released when the start fails half-way.
func TestStartIsAllOrNothing(t *testing.T) {
	occupied := service(t, fine)
	g := &gateway{file: t.TempDir() + "/comporta.yaml"}
	second := strings.TrimPrefix(occupied, "http://")
	g.write(t, occupied, "listen: ['127.0.0.1:0', "+second+"]")
	a, err := newApp(g.file, loaderOf(g.file), discard(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.run(context.Background(), nil, nil); err == nil || !strings.Contains(err.Error(), "cannot listen on "+second) {
		t.Errorf("got %v", err)
	}
	if open := a.listeners.addresses(); len(open) > 0 {
		t.Errorf("%q are open", open)
	}
	next, err := a.listeners.prepare(&config.Config{Listen: []config.Listener{{Addr: "127.0.0.1:0"}}})
	if err != nil {
		t.Fatal(err)
	}
	bound := next.fresh["127.0.0.1:0"].tcp.Addr().String()
	if err := next.abort(); err != nil {
		t.Fatal(err)
	}
	closed(t, bound)
}

// cases/proxy.md E 41: no request fails because of a drain, at 1,000 a second. The
// clients go on until /readyz tells them to look elsewhere, and a while longer, as a
// load balancer does. What they send is not repeated by their own library.
func TestCase_Proxy_E41_DrainUnderLoad(t *testing.T) {
	g := start(t, service(t, fine), "admission: {capacity: 500}\naccess_log: {format: off}\ndrain: {delay: 500ms, soft: 10s}")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: patience}
	defer client.CloseIdleConnections()
	var served, lost atomic.Int64
	var wg sync.WaitGroup
	send := func() {
		res, err := client.Post(g.url, "text/plain", strings.NewReader("x"))
		if err != nil {
			lost.Add(1)
			t.Error(err)
			return
		}
		defer func() { _ = res.Body.Close() }()
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			lost.Add(1)
			t.Error(res.Status, err)
		}
		served.Add(1)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var until time.Time
	for n := 0; until.IsZero() || time.Now().Before(until); n++ {
		<-tick.C
		wg.Go(send)
		switch {
		case n == 500:
			g.stop()
		case n > 500 && n%20 == 0 && until.IsZero():
			if status, _ := g.get(g.admin + "/readyz"); status != http.StatusOK {
				until = time.Now().Add(200 * time.Millisecond)
			}
		}
	}
	wg.Wait()
	if err := g.mustEnd(t); err != nil || lost.Load() > 0 {
		t.Errorf("%v; %d served, %d lost", err, served.Load(), lost.Load())
	}
	t.Logf("%d served", served.Load())
}
