package ratelimit

import (
	"context"
	"strconv"
	"testing"
	"time"
)

func BenchmarkTakeAtOneKey(b *testing.B) {
	bucket := newBucket(b, perSecond(1_000_000, 1_000_000))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = bucket.TakeAt(t0, "client", 1)
	}
}

func BenchmarkTakeMillionKeys(b *testing.B) {
	const keys = 1 << 20
	bucket, err := NewBucket(BucketConfig{Limit: perSecond(100, 200), Keys: keys})
	if err != nil {
		b.Fatal(err)
	}
	names := make([]string, keys)
	for i := range names {
		names[i] = "client-" + strconv.Itoa(i*7919)
		_, _ = bucket.Take(names[i], 1)
	}
	b.ReportAllocs()
	b.ResetTimer()
	i := uint32(0)
	for b.Loop() {
		i = i*1664525 + 1013904223
		_, _ = bucket.Take(names[i>>12], 1)
	}
}

func BenchmarkLimiterTakeAt(b *testing.B) {
	rule := Rule{Name: "r", Limit: perSecond(1_000_000, 1_000_000)}
	l := newLimiter(b, newTable(b), rule)
	for _, bb := range []struct {
		name string
		key  uint64
	}{{"believed", 7}, {"anonymous", 0}} {
		b.Run(bb.name, func(b *testing.B) {
			r := from("192.0.2.1")
			if bb.key != 0 {
				r = known(bb.key)
			}
			var v Verdict
			now := t0
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Microsecond)
				l.TakeAt(context.Background(), now, r, &v)
			}
		})
	}
}
