package idempotency

import (
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/comporta/comporta/store"
)

func nameOf(i uint64) (n store.Name) {
	binary.LittleEndian.PutUint64(n[:], i*0x9e3779b97f4a7c15)
	binary.LittleEndian.PutUint64(n[8:], i)
	return n
}

// What the index says is finished was said to be, and had not ended; while there
// is room it forgets nothing.
func TestIndexAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Unix(1e9, 0)
		now := start
		x := newIndex(start, 1<<12) // room for all
		model := map[uint64]time.Time{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				i := rapid.Uint64Range(0, 30).Draw(t, "name")
				ends := now.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "ends")) * time.Second)
				n := nameOf(i)
				x.addAt(now, &n, ends)
				model[i] = ends
			},
			"remove": func(t *rapid.T) {
				i := rapid.Uint64Range(0, 30).Draw(t, "name")
				n := nameOf(i)
				x.remove(&n)
				delete(model, i)
			},
			"pass": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "passes")) * time.Second)
			},
			"": func(t *rapid.T) {
				for i := range uint64(31) {
					n := nameOf(i)
					if got, want := x.hasAt(now, &n), model[i].After(now); got != want {
						t.Fatalf("name %d: %v, want %v", i, got, want)
					}
				}
			},
		})
	})
}

// A full index forgets what ends first, and does not grow.
func TestFullIndexForgetsWhatEndsFirst(t *testing.T) {
	now := time.Now()
	x := newIndex(now, indexWays) // one set
	for i := range uint64(indexWays) {
		n := nameOf(i)
		x.addAt(now, &n, now.Add(time.Duration(i+1)*time.Minute))
	}
	n := nameOf(100)
	x.addAt(now, &n, now.Add(time.Hour))
	for i := range uint64(indexWays) {
		n := nameOf(i)
		if got := x.hasAt(now, &n); got != (i != 0) {
			t.Errorf("name %d: %v", i, got)
		}
	}
	if !x.hasAt(now, &n) || len(x.sets) != 1 {
		t.Errorf("%v, %d sets", x.hasAt(now, &n), len(x.sets))
	}
}
