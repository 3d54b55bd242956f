package remote

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/internal/memhttp"
)

// cases/client.md D13, through a whole client: the very call that meets the
// policy stops, calls make one attempt for ten minutes, then it is over.
func TestCase_Client_D13_ThroughAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network memhttp.Network
		var calls atomic.Int64
		var policy atomic.Pointer[string]
		server := network.Serve("api", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls.Add(1)
			if p := policy.Load(); p != nil {
				w.Header().Set(comporta.HeaderRetryPolicy, *p)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		defer server.Close()
		s, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(client.Config{Limits: s.Limits, Told: s.Heard})
		if err != nil {
			t.Fatal(err)
		}
		bare := network.Client()
		defer bare.CloseIdleConnections()
		web := c.HTTP(bare)
		ask := func() int64 {
			before := calls.Load()
			resp, err := web.Get(server.URL + "/orders")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			return calls.Load() - before
		}

		if n := ask(); n != 4 {
			t.Errorf("%d calls before the policy, want 4", n)
		}
		text := "max=1;ttl=600"
		policy.Store(&text)
		if n := ask(); n != 1 {
			t.Errorf("%d calls by the one that meets it, want 1", n)
		}
		policy.Store(nil)
		time.Sleep(10*time.Minute - time.Second)
		if n := ask(); n != 1 {
			t.Errorf("%d calls while it applies, want 1", n)
		}
		time.Sleep(time.Second)
		if n := ask(); n != 4 {
			t.Errorf("%d calls after it, want 4", n)
		}
	})
}

// A document that takes the budget away leaves a client its first attempts.
func TestBudgetThroughAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network memhttp.Network
		var calls atomic.Int64
		server := network.Serve("api", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		defer server.Close()
		c, err := client.New(client.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s := newSwitch(t, Config{Trace: Trace{Applied: func(s *Switch) { c.Budgets().Tighten(s.Budget()) }}})
		apply(t, s, `{"version":1,"budget":{"burst":0}}`)
		bare := network.Client()
		defer bare.CloseIdleConnections()
		resp, err := c.HTTP(bare).Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
	})
}
