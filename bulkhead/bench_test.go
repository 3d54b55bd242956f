package bulkhead

import "testing"

func BenchmarkAcquireRelease(b *testing.B) {
	bh := newBulkhead(b, Config{Limit: 10, Queue: 10})
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		p, _ := bh.Acquire(ctx)
		p.Release()
	}
}

func BenchmarkFull(b *testing.B) {
	bh := newBulkhead(b, Config{Limit: 1})
	take(b, bh)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = bh.Acquire(ctx)
	}
}
