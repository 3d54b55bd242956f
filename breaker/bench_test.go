package breaker

import "testing"

func BenchmarkClosed(b *testing.B) {
	br := newBreaker(b, Config{})
	b.ReportAllocs()
	for b.Loop() {
		p, _ := br.AllowAt(epoch)
		p.DoneAt(epoch, good)
	}
}

func BenchmarkOpen(b *testing.B) {
	br := newBreaker(b, Config{})
	open(b, br, epoch)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = br.AllowAt(epoch)
	}
}
