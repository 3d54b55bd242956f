package remote

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta/gate/overload"
	"github.com/comporta/comporta/gate/policydoc"
	"github.com/comporta/comporta/internal/memhttp"
)

// From the operator's file to a client's limits: both ends speak of one document.
func TestPublishedByTheGateway(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	publish := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	publish(`{"version": 1, "max_attempts": 3}`)
	writer, err := overload.New(overload.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := policydoc.New(policydoc.Config{File: file, Writer: writer})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var network memhttp.Network
		server := network.Serve("api", h)
		defer server.Close()
		web := network.Client()
		defer web.CloseIdleConnections()
		s := newSwitch(t, Config{URL: server.URL + policydoc.Path, HTTP: web, Trace: Trace{Failed: func(err error) { t.Error(err) }}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		after(time.Minute)
		if got := s.LimitsAt(time.Now(), "api", "/").MaxAttempts; got != 3 {
			t.Errorf("%d attempts, want 3", got)
		}
		publish(`{"version": 2, "max_attempts": 3, "routes": {"/orders": {"retries_enabled": false}}}`)
		if _, err := h.Reload(); err != nil {
			t.Error(err)
		}
		after(2 * time.Minute)
		if got := s.LimitsAt(time.Now(), "api", "/orders/7").MaxAttempts; got != 1 {
			t.Errorf("%d attempts after the incident began, want 1", got)
		}
		stop()
		<-done
	})
}
