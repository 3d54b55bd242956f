package identity

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// spread makes keys as a keyed hash would.
func spread(i uint64) uint64 {
	i += 0x9e3779b97f4a7c15
	i = (i ^ i>>30) * 0xbf58476d1ce4e5b9
	i = (i ^ i>>27) * 0x94d049bb133111eb
	return i ^ i>>31
}

func TestProvenIsBounded(t *testing.T) {
	p := NewProven(64 << 10)
	slots := uint64(p.Bytes() / 8)
	if slots != 8192 {
		t.Fatalf("%d slots", slots)
	}
	// Half full: nobody makes room. The other choice of line sees to that.
	for i := range slots / 2 {
		p.ProveAt(noon, spread(i))
	}
	if p.Evicted() != 0 {
		t.Errorf("%d evicted at half load", p.Evicted())
	}
	// A flood of ten times the size, later: memory stays, and the oldest went.
	later := noon.Add(time.Hour)
	for i := range 10 * slots {
		p.ProveAt(later, spread(1<<40+i))
	}
	if p.Bytes() != 64<<10 || p.Evicted() < 8*slots {
		t.Errorf("%d bytes, %d evicted", p.Bytes(), p.Evicted())
	}
	last := 10*slots - 1
	if !p.ProvenAt(later, spread(1<<40+last)) {
		t.Error("the newest key is gone")
	}
}

func TestOldestMakesRoom(t *testing.T) {
	p := &Proven{lines: make([]line, 1)}
	for i := range uint64(8) {
		p.ProveAt(noon.Add(time.Duration(i)*time.Minute), i+1)
	}
	p.ProveAt(noon.Add(20*time.Minute), 1) // proven again: no longer the oldest
	p.ProveAt(noon.Add(21*time.Minute), 100)
	for key, want := range map[uint64]bool{1: true, 2: false, 3: true, 8: true, 100: true} {
		if got := p.ProvenAt(noon.Add(21*time.Minute), key); got != want {
			t.Errorf("key %d: %v", key, got)
		}
	}
	if p.Evicted() != 1 {
		t.Errorf("%d evicted", p.Evicted())
	}
	p.ProveAt(noon.Add(72*time.Hour), 200) // into the place of what is over: no eviction
	if p.Evicted() != 1 {
		t.Errorf("%d evicted", p.Evicted())
	}
}

func TestZeroAndExtremes(t *testing.T) {
	var none *Proven
	none.ProveAt(noon, 1)
	none.Forget(1)
	if none.ProvenAt(noon, 1) || none.Bytes() != 0 || none.Evicted() != 0 {
		t.Error("nil holds something")
	}
	for bytes, want := range map[int]int{-1: 4096, 0: 2 << 20, 1: 4096, 5000: 4992} {
		if got := NewProven(bytes).Bytes(); got != want {
			t.Errorf("NewProven(%d): %d bytes, want %d", bytes, got, want)
		}
	}
	p := NewProven(1)
	for _, now := range []time.Time{{}, time.Unix(0, 0), time.Unix(-1<<40, 0), time.Unix(1<<40, 0)} {
		for _, key := range []uint64{0, 1, 1 << 40, ^uint64(0)} {
			p.ProveAt(now, key)
			if !p.ProvenAt(now, key) {
				t.Errorf("%v: key %#x", now, key)
			}
			p.Forget(key)
			if p.ProvenAt(now, key) {
				t.Errorf("%v: key %#x after Forget", now, key)
			}
		}
	}
}

// Held against a map: as long as nothing was evicted, the table and the map say
// the same, but for the minute to which the table is exact.
func TestProvenAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, model, now := NewProven(8<<10), map[uint64]time.Time{}, noon
		t.Repeat(map[string]func(*rapid.T){
			"prove": func(t *rapid.T) {
				key := spread(rapid.Uint64Range(0, 60).Draw(t, "key"))
				p.ProveAt(now, key)
				model[key] = now
			},
			"forget": func(t *rapid.T) {
				key := spread(rapid.Uint64Range(0, 60).Draw(t, "key"))
				p.Forget(key)
				delete(model, key)
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 40_000).Draw(t, "seconds")) * time.Second)
			},
			"": func(t *rapid.T) {
				for i := range uint64(61) {
					at, ok := model[spread(i)]
					age := now.Sub(at)
					if ok && age > 24*time.Hour-time.Minute && age < 24*time.Hour+time.Minute {
						continue
					}
					if got := p.ProvenAt(now, spread(i)); got != (ok && age <= 24*time.Hour) {
						t.Fatalf("key %d, %v old: %v", i, age, got)
					}
				}
				if p.Evicted() != 0 {
					t.Fatalf("%d evicted", p.Evicted())
				}
			},
		})
	})
}

func TestProvenTogether(t *testing.T) {
	p := NewProven(4096)
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			for i := range uint64(5000) {
				key, now := spread(i%700), noon.Add(time.Duration(i)*time.Second)
				p.ProveAt(now, key)
				p.ProvenAt(now, spread(i*g))
				if i%16 == 0 {
					p.Forget(key)
				}
			}
		})
	}
	wg.Wait()
	key := spread(1 << 50)
	p.ProveAt(noon.Add(3*time.Hour), key)
	if !p.ProvenAt(noon.Add(3*time.Hour), key) {
		t.Error("the table is broken")
	}
}

func BenchmarkProven(b *testing.B) {
	p := NewProven(0)
	for i := range uint64(p.Bytes() / 16) {
		p.ProveAt(noon, spread(i))
	}
	for _, known := range []bool{true, false} {
		b.Run(fmt.Sprint("known=", known), func(b *testing.B) {
			b.ReportAllocs()
			i := uint64(0)
			for b.Loop() {
				i++
				key := spread(i % 100_000)
				if !known {
					key = ^key
				}
				p.ProvenAt(noon, key)
			}
		})
	}
}
