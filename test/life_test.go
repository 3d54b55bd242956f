//go:build integration

package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestReloadBySignal(t *testing.T) {
	g := configured(t, "admission: {capacity: 3}\n")
	if got := g.metric(t, "comporta_capacity"); got != 3 {
		t.Errorf("capacity %v, want 3", got)
	}
	write(t, g.file, "admission: {capacity: 0}\n")
	if err := g.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a bad file is told", func() bool { return g.metric(t, "comporta_config_last_reload_successful") == 0 })
	if got := g.metric(t, "comporta_capacity"); got != 3 {
		t.Errorf("capacity %v after a bad file, want 3", got)
	}
	write(t, g.file, "admission: {capacity: 5}\n")
	if err := g.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new capacity is in force", func() bool { return g.metric(t, "comporta_capacity") == 5 })
	if got := g.metric(t, "comporta_config_last_reload_successful"); got != 1 {
		t.Errorf("comporta_config_last_reload_successful is %v, want 1", got)
	}
}

// A drain under load loses nothing: the load balancer, which is this test, stops
// sending when /readyz says so, and every request that was sent is answered.
func TestDrainUnderLoad(t *testing.T) {
	g := configured(t, "admission: {capacity: 200}\ndrain: {delay: 500ms, soft: 10s}\naccess_log: {format: off}\n")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 15 * time.Second}
	defer client.CloseIdleConnections()
	ask := func(method, url string) (int, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
		if err != nil {
			return 0, err
		}
		res, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, res.Body)
		return res.StatusCode, errors.Join(err, res.Body.Close())
	}
	turned, look := context.WithCancel(t.Context())
	defer look()
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if status, err := ask(http.MethodGet, g.admin+"/readyz"); err != nil || status != http.StatusOK {
				look()
				return
			}
		}
	})
	var served, lost atomic.Int64
	send := func(url string) {
		wg.Go(func() {
			status, err := ask(http.MethodPost, url) // a POST is not repeated by the client's own library
			if err != nil || status != http.StatusOK {
				lost.Add(1)
				t.Errorf("%s: %d, %v", url, status, err)
				return
			}
			served.Add(1)
		})
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for n := 0; turned.Err() == nil; n++ {
		<-tick.C
		send(fmt.Sprintf("%s/%d", g.url, n))
		if n%50 == 0 { // a few run for two seconds, well into the drain
			wg.Go(func() {
				if status, err := ask(http.MethodGet, g.url+"/slow"); err != nil || status != http.StatusOK {
					lost.Add(1)
					t.Errorf("/slow: %d, %v", status, err)
				}
			})
		}
		if n == 200 {
			if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	wg.Wait()
	<-g.done
	if g.err != nil || lost.Load() > 0 || served.Load() < 200 {
		t.Errorf("ended with %v; %d lost, %d served", g.err, lost.Load(), served.Load())
	}
}

// The first signal waits, the second does not.
func TestSecondSignalSkipsTheWait(t *testing.T) {
	g := configured(t, "drain: {delay: 10s, soft: 60s, hard: 5s}\n")
	g.hold(t, 1)
	for i, want := range []string{"draining", "stopped"} {
		start := time.Now()
		if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		eventually(t, want, func() bool { return strings.Contains(g.log.String(), want) })
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("signal %d: %s took %v", i+1, want, took)
		}
		if i == 0 {
			if res, _ := g.get(t, "/"); res.StatusCode != http.StatusOK {
				t.Errorf("while a load balancer looks: %s", res.Status)
			}
			select {
			case <-g.done:
				t.Fatal("the first signal ended it")
			default:
			}
		}
	}
}

// cases/overload.md 25: under full overload the probes and the metrics answer at
// once, an exempt route is served, and the gate reopens by itself.
func TestCase_Overload_C25_ProbesUnderFullOverload(t *testing.T) {
	g := configured(t, "admission: {capacity: 2, queue_wait: 50ms}\nroutes: [{match: GET /health, name: health, exempt: true}]\naccess_log: {format: off}\n")
	release := g.hold(t, 2)
	var refused atomic.Int64
	flood, calm := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()
	for i := range 16 {
		wg.Go(func() {
			for n := 0; flood.Err() == nil; n++ {
				req, err := http.NewRequestWithContext(flood, http.MethodGet, fmt.Sprintf("%s/%d/%d", g.url, i, n), http.NoBody)
				if err != nil {
					return
				}
				res, err := client.Do(req)
				if err != nil {
					continue
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.StatusCode == http.StatusServiceUnavailable {
					refused.Add(1)
				}
			}
		})
	}
	eventually(t, "the flood is refused", func() bool { return refused.Load() > 200 })
	for range 10 {
		for _, url := range []string{g.admin + "/readyz", g.admin + "/healthz", g.admin + "/metrics", g.url + "/health"} {
			if got := curl(t, "--max-time", "2", "-o", "/dev/null", "-w", "%{http_code}", url); got != "200" {
				t.Errorf("%s under overload: %s", url, got)
			}
		}
	}
	if g.metric(t, "comporta_inflight") != 2 || g.metric(t, "comporta_exempt_total") < 10 {
		t.Errorf("inflight %v, exempt %v", g.metric(t, "comporta_inflight"), g.metric(t, "comporta_exempt_total"))
	}
	calm()
	wg.Wait()
	release()
	eventually(t, "the gate reopens", func() bool {
		res, _ := g.get(t, "/fresh", "X-Api-Key", "somebody new")
		return res.StatusCode == http.StatusOK
	})
}
