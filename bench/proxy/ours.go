package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The houses. In the open one half of the capacity is held, so that bodies are
// digested, and more than the load ever needs is free. In the full one all is
// held, so that everybody else is refused.
const (
	openCapacity = 4 * connections
	openHeld     = openCapacity / 2
	fullCapacity = 1
)

// gateway is `comporta serve` with the whole gate and more of a configuration, and
// with so many of its permits held for as long as it runs.
func (s *stage) gateway(ctx context.Context, name string, capacity, held int, more string) (*process, error) {
	if err := s.build(ctx, "github.com/comporta/comporta", ".", "comporta", "./cmd/comporta"); err != nil {
		return nil, err
	}
	var admin string
	p, err := start(ctx, s.cpus.proxy, name, func(addr string) ([]string, error) {
		file := filepath.Join(s.dir, name+".yaml")
		var err error
		if admin, err = freeAddr(ctx); err != nil {
			return nil, err
		}
		conf := fmt.Sprintf(`listen: %q
admin: {listen: %q}
access_log: {format: off}
upstream: {urls: [%q], max_connections: %d, timeout: 1h}
admission: {capacity: %d, queue_wait: 0s}
rate_limits: [{name: per-client, key: [client], rate: 1000000/s, network: 100000000/s}]
`, addr, admin, "http://"+s.service.addr, openCapacity, capacity)
		return []string{filepath.Join(s.dir, "comporta"), "serve", "-config", file}, os.WriteFile(file, []byte(conf+more), 0o600)
	})
	if err != nil {
		return nil, err
	}
	s.servers = append(s.servers, p)
	for i := range held {
		if err := s.hold(ctx, p.addr, i); err != nil {
			return nil, err
		}
	}
	return p, inFlight(ctx, admin, held)
}

// keyed is the open house with idempotency keys in a file.
func (s *stage) keyed(ctx context.Context) (*process, error) {
	return s.gateway(ctx, "keyed", openCapacity, openHeld, fmt.Sprintf(`store: {engine: sqlite, path: %q}
idempotency: {routes: [other], on_503: release, timeout: 20s}
`, filepath.Join(s.dir, "keys.db")))
}

// hold takes one permit until the stage is cleared.
func (s *stage) hold(ctx context.Context, addr string, n int) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	s.held = append(s.held, conn)
	_, err = fmt.Fprintf(conn, "GET %s/%d HTTP/1.1\r\nHost: api.example\r\nX-Api-Key: holder-%d\r\n\r\n", holdPath, n, n)
	return err
}

// inFlight waits until the gateway says that so many permits are held.
func inFlight(ctx context.Context, admin string, held int) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	want := fmt.Sprintf("comporta_inflight %d", held)
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", http.NoBody)
		if err != nil {
			return err
		}
		found, err := says(req, want)
		if err != nil {
			return fmt.Errorf("waiting for %q: %w", want, err)
		}
		if found {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the gateway never said %q", want)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// says reports whether an answer has a line.
func says(req *http.Request, want string) (bool, error) {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	found := false
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		found = found || lines.Text() == want
	}
	return found, lines.Err()
}

// refusalOf is what a full house answers, for others to give the same bytes.
func refusalOf(ctx context.Context, p *process) (*refusal, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr+"/v1/orders/0", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Api-Key", "caller-0000")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusServiceUnavailable {
		return nil, errors.New("the full house answers " + res.Status)
	}
	for _, name := range []string{"Date", "Content-Length", "Connection"} {
		res.Header.Del(name)
	}
	return &refusal{Status: res.StatusCode, Header: res.Header, Body: strings.TrimSuffix(string(body), "\n")}, nil
}

// write puts the refusal into a file.
func (a *refusal) write(file string) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
