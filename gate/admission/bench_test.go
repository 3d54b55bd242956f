package admission

import (
	"testing"
	"time"

	"github.com/comporta/comporta"
)

func BenchmarkAdmitRelease(b *testing.B) {
	c := newController(b, Config{Capacity: 1000, QueueWait: 100 * ms}, new(State))
	r, now, o := original(1), time.Now(), success(ms)
	b.ReportAllocs()
	for b.Loop() {
		g := c.AdmitAt(now, r, View{})
		g.Permit.ReleaseAt(now, o)
	}
}

func BenchmarkAdmitReleaseParallel(b *testing.B) {
	c := newController(b, Config{Capacity: 1000, QueueWait: 100 * ms}, new(State))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r, now, o := original(1), time.Now(), success(ms)
		for pb.Next() {
			g := c.AdmitAt(now, r, View{})
			g.Permit.ReleaseAt(now, o)
		}
	})
}

func BenchmarkRefuseRetry(b *testing.B) {
	c := newController(b, Config{Capacity: 100, QueueWait: 100 * ms}, new(State))
	fill(b, c, t0, 100)
	r := slotted(1, comporta.SlotEarly)
	b.ReportAllocs()
	for b.Loop() {
		c.AdmitAt(t0, r, View{})
	}
}

func BenchmarkRefuseOriginalAtFullQueue(b *testing.B) {
	c := newController(b, Config{Capacity: 1000, QueueWait: time.Hour}, new(State))
	fill(b, c, t0, 1000)
	for i := range 250 {
		mustWait(b, c, t0, original(uint64(i)), View{})
	}
	r := original(1 << 40)
	b.ReportAllocs()
	for b.Loop() {
		c.AdmitAt(t0, r, View{})
	}
}

// A full house that works: each departure hands its permit to a waiter, and one more comes.
func BenchmarkHandOver(b *testing.B) {
	c := newController(b, Config{Capacity: 1000, QueueWait: time.Hour}, new(State))
	permits := fill(b, c, t0, 1000)
	var waiters [200]*Waiter
	for i := range waiters {
		waiters[i] = mustWait(b, c, t0, original(uint64(i)), View{})
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p, w := &permits[i%len(permits)], &waiters[i%len(waiters)]
		p.ReleaseAt(t0, success(ms))
		*p = got(*w, t0)
		*w = c.AdmitAt(t0, original(uint64(i)), View{}).Waiter
	}
}
