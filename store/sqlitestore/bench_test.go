//go:build unix

package sqlitestore

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A keyed request's work in the store, by sixty-four callers: a claim, and an
// answer of half a KiB. The CPU is that of the whole process.
func BenchmarkClaimAndFinish(b *testing.B) {
	s := open(b, Config{Path: b.TempDir() + "/state.db"})
	f := answerOf(strings.Repeat("x", 512))
	var n atomic.Int64
	b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
	b.ReportAllocs()
	before := cpu(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h := granted(b, s, keyOf(int(n.Add(1))))
			if err := s.Finish(context.Background(), time.Now(), h, f); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "µs-cpu/op")
	b.ReportMetric(float64(s.Stats().Writes)/float64(s.Stats().Commits), "writes/commit")
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
