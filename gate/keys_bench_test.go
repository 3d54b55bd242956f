package gate_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/comporta/comporta/gate"
	"github.com/comporta/comporta/gate/idempotency"
	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/memstore"
	"github.com/comporta/comporta/store/sqlitestore"
)

// cpu is the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkKeys measures what a key adds to a request through the gate, with 64
// callers at once: cpu-µs/op beside that of the same request without one.
func BenchmarkKeys(b *testing.B) {
	engines := map[string]func() store.Keys{
		"memory": func() store.Keys { return memstore.New(memstore.Config{MaxRecords: 10_000_000, MaxBytes: 8 << 30}) },
		"sqlite": func() store.Keys {
			s, err := sqlitestore.Open(context.Background(), sqlitestore.Config{Path: filepath.Join(b.TempDir(), "state.db")})
			if err != nil {
				b.Fatal(err)
			}
			return s
		},
	}
	for _, engine := range []string{"memory", "sqlite"} {
		for _, what := range []string{"none", "new", "replay"} {
			b.Run(engine+"/"+what, func(b *testing.B) { benchmarkKeys(b, engines[engine](), what) })
		}
	}
}

func benchmarkKeys(b *testing.B, s store.Keys, what string) {
	b.Helper()
	k, err := idempotency.New(idempotency.Config{Store: s, Budget: time.Minute}) // the machine may be busy
	if err != nil {
		b.Fatal(err)
	}
	c := static(1000, 0)
	c.Idempotency = gate.Idempotency{Keeper: k, Other: &idempotency.Policy{}}
	g, err := gate.New(c, nil)
	if err != nil {
		b.Fatal(err)
	}
	answer := []byte(`{"order":1,"state":"placed"}`)
	service := g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(answer)
	}))
	ask := func(key string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(`{"item":"apple","count":1}`))
		r.Header.Set("X-Api-Key", "a")
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		w := httptest.NewRecorder()
		service.ServeHTTP(w, r)
		return w
	}
	ask("replay")
	var n atomic.Int64
	b.SetParallelism(64 / runtime.GOMAXPROCS(0))
	before := cpu(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			key := ""
			switch what {
			case "new":
				key = strconv.FormatInt(n.Add(1), 36)
			case "replay":
				key = "replay"
			}
			if w := ask(key); w.Code != http.StatusCreated {
				b.Fatalf("status %d: %s", w.Code, w.Body)
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
	if err := k.Close(context.Background()); err != nil {
		b.Error(err)
	}
	if err := s.Close(); err != nil {
		b.Error(err)
	}
}
