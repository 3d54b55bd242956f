package live

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta/storm"
)

func ask(ctx context.Context, s *Service) int {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
	return w.Code
}

var small = storm.Service{Slots: 2, Latency: 100 * time.Millisecond, Queue: 3, HangsFor: 500 * time.Millisecond}

func TestServiceQueuesAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewService(small)
		defer s.Close()
		var mu sync.Mutex
		counts := map[int]int{}
		var all sync.WaitGroup
		for range small.Slots + small.Queue + 4 {
			all.Go(func() {
				code := ask(t.Context(), s)
				mu.Lock()
				counts[code]++
				mu.Unlock()
			})
		}
		all.Wait()
		if counts[http.StatusOK] != small.Slots+small.Queue || counts[http.StatusServiceUnavailable] != 4 {
			t.Errorf("answers %v", counts)
		}
		if s.Worked() != small.Slots+small.Queue {
			t.Errorf("worked on %d", s.Worked())
		}
	})
}

// Work goes on for a client that left: what makes the bare service stay down.
func TestServiceWorksForTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewService(small)
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		if code := ask(ctx, s); code != http.StatusOK || s.Worked() != 1 || time.Since(start) < small.Latency/2 {
			t.Errorf("%d after %v, worked %d", code, time.Since(start), s.Worked())
		}
	})
}

func TestServiceHangsWhileItsDependencyIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewService(small)
		defer s.Close()
		s.SetDown(true)
		start := time.Now()
		if code := ask(t.Context(), s); code != http.StatusInternalServerError || time.Since(start) != small.HangsFor {
			t.Errorf("%d after %v", code, time.Since(start))
		}
		s.SetDown(false)
		if code := ask(t.Context(), s); code != http.StatusOK {
			t.Errorf("%d after the dependency came back", code)
		}
	})
}

func TestServiceCloseDropsWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewService(small)
		var all sync.WaitGroup
		for range small.Slots + small.Queue {
			all.Go(func() {
				if code := ask(t.Context(), s); code != http.StatusServiceUnavailable {
					t.Errorf("%d from a service that closes", code)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		s.Close()
		s.Close() // twice is fine
		all.Wait()
		if time.Since(start) != 0 {
			t.Errorf("close took %v", time.Since(start))
		}
		if code := ask(t.Context(), s); code != http.StatusServiceUnavailable {
			t.Errorf("%d after close", code)
		}
	})
}
