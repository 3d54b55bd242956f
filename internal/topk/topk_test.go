package topk

import (
	"math/rand/v2"
	"testing"
)

func TestHeavyKeysSurviveAFlood(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	s, truth := New[int](100), map[int]uint64{}
	for range 200_000 {
		key := rng.IntN(5) // five heavy keys, half of the stream
		if rng.IntN(2) == 0 {
			key = 1000 + rng.IntN(1_000_000)
		}
		truth[key]++
		s.Add(key)
	}
	top := s.Top(5)
	for _, item := range top {
		if item.Key >= 5 {
			t.Errorf("%+v is not one of the heavy keys", item)
		}
	}
	for _, item := range s.Top(1000) {
		if item.Count < truth[item.Key] || item.Count-item.Error > truth[item.Key] {
			t.Errorf("%+v: the truth is %d", item, truth[item.Key])
		}
	}
	if len(s.Top(1000)) != 100 || len(s.where) != 100 {
		t.Errorf("%d and %d keys are held, want 100", len(s.Top(1000)), len(s.where))
	}
}

func TestCountsNeverFall(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	s, seen := New[int](8), map[int]uint64{}
	for range 50_000 {
		s.Add(rng.IntN(40))
		for _, item := range s.Top(8) {
			if item.Count < seen[item.Key] {
				t.Fatalf("%+v fell from %d", item, seen[item.Key])
			}
			seen[item.Key] = item.Count
		}
	}
}

// BenchmarkAdd is more keys than are held, all of them equally heavy: each takes the
// place of another.
func BenchmarkAdd(b *testing.B) {
	s, i := New[[2]uint64](160), uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		s.Add([2]uint64{i % 1000, 0})
		i++
	}
}
