package repeat

import (
	"testing"
	"time"

	"github.com/comporta/comporta"
)

// crowd is a detector with a million live fingerprints over a table of the
// default size, and a request whose client is set to name one of them.
func crowd(b *testing.B) (*Detector, *comporta.Request) {
	b.Helper()
	table, err := NewTable(0)
	if err != nil {
		b.Fatal(err)
	}
	d, err := New(Config{}, table)
	if err != nil {
		b.Fatal(err)
	}
	r := get("/v1/orders")
	for i := range live {
		r.Client.Key, r.Sighting = spread(uint64(i)), comporta.Sighting{}
		run(d, noon, r, 0, answered(200))
	}
	return d, r
}

const live = 1_000_000

// spread turns a counter into something like a client key.
func spread(i uint64) uint64 { return (i + 1) * 0x9e3779b97f4a7c15 }

func BenchmarkRepeat(b *testing.B) {
	d, r := crowd(b)
	o := answered(200)
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		i = i*6364136223846793005 + 1442695040888963407
		r.Client.Key, r.Sighting = spread(i>>33%live), comporta.Sighting{}
		d.SeeAt(noon, r, 0, false)
		d.ResolveAt(noon, r, o)
	}
}

func BenchmarkOriginal(b *testing.B) {
	d, r := crowd(b)
	o := answered(200)
	now, i := noon, uint64(live)
	b.ReportAllocs()
	for b.Loop() {
		// One window sees a million originals: the table stays as full as it was.
		i++
		if i%1000 == 0 {
			now = now.Add(60 * time.Millisecond)
		}
		r.Client.Key, r.Sighting = spread(i), comporta.Sighting{}
		d.SeeAt(now, r, 0, false)
		d.ResolveAt(now, r, o)
	}
}

func BenchmarkKeyed(b *testing.B) {
	d, r := crowd(b)
	r.Method, r.IdempotencyKey, r.BodySize = "POST", "6f1c2f3e-5a5c-4d38-a2a0-0b6d1d4f7a11", 512
	o := answered(200)
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		i++
		r.Client.Key, r.Sighting = spread(i%live), comporta.Sighting{}
		d.SeeAt(noon, r, 0, false)
		d.ResolveAt(noon, r, o)
	}
}
