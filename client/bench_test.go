package client

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
)

// memory answers at once, as a transport in memory does.
type memory struct{ resp http.Response }

func (m *memory) RoundTrip(*http.Request) (*http.Response, error) {
	resp := m.resp
	return &resp, nil
}

func inMemory() *memory {
	return &memory{http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}}
}

// everything is a client with all of its parts on.
func everything(t testing.TB) *Client {
	c, err := New(Config{
		Version: "acme/1.2.3", Breaker: &breaker.Config{}, Bulkhead: &bulkhead.Config{Limit: 100}, AutoKey: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func request(t testing.TB, ctx context.Context, method string) *http.Request { //nolint:revive // t first, as in all helpers
	req, err := http.NewRequestWithContext(ctx, method, "http://api.example.com/orders/7?x=1", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Authorization", "Bearer x")
	return req
}

func allocations(client *http.Client, req *http.Request) float64 {
	return testing.AllocsPerRun(200, func() {
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
	})
}

// A successful call costs at most three allocations over bare net/http when the
// context has a deadline, and eight otherwise, with everything on.
func TestSuccessAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are counted without the race detector")
	}
	bare := &http.Client{Transport: inMemory()}
	full := everything(t).HTTP(bare)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, c := range map[string]struct {
		ctx   context.Context
		lines int // of the caller's header
		limit float64
	}{
		"deadline": {ctx, 2, 3}, "none": {t.Context(), 2, 8}, "five lines": {ctx, 5, 3},
		"twelve lines": {ctx, 12, 5}, // a map of more than eight entries is four pieces and not two
		"fifty lines":  {ctx, 50, 5},
	} {
		req := request(t, c.ctx, "GET")
		for i := len(req.Header); i < c.lines; i++ {
			req.Header.Set("X-Line-"+strconv.Itoa(i), "value")
		}
		if over := allocations(full, req) - allocations(bare, req); over > c.limit {
			t.Errorf("%s: %v allocations over bare, want at most %v", name, over, c.limit)
		}
	}
}

// Every call allocates a call: what only some of them need stands elsewhere.
func TestCallIsSmall(t *testing.T) {
	if size := reflect.TypeFor[call]().Size(); size > 696 && strconv.IntSize == 64 {
		t.Errorf("%d bytes, want at most 696: those of the allocator's class of 704 but 8, which it needs itself", size)
	}
}

func BenchmarkSuccess(b *testing.B) {
	bare := &http.Client{Transport: inMemory()}
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	req := request(b, ctx, "GET")
	for _, c := range []struct {
		name   string
		client *http.Client
	}{{"bare", bare}, {"everything", everything(b).HTTP(bare)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				resp, err := c.client.Do(req)
				if err != nil {
					b.Fatal(err)
				}
				_ = resp.Body.Close()
			}
		})
	}
}
