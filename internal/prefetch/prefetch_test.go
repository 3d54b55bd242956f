package prefetch

import (
	"math/rand/v2"
	"testing"
)

func TestHintsAreHarmless(t *testing.T) {
	Line[int](nil)
	var block [4]uint64
	Lines(&block, 1)
	n := testing.AllocsPerRun(100, func() {
		var local int
		Line(&local)
	})
	if n != 0 {
		t.Errorf("%v allocations: the pointer escapes", n)
	}
}

// BenchmarkFour reads four random lines of 64 MiB that depend on each other's
// outcome by a branch, with and without a hint.
func BenchmarkFour(b *testing.B) {
	table := make([][8]uint64, 1<<20)
	for _, hint := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "hinted"}[hint]
		b.Run(name, func(b *testing.B) {
			rng, sum := rand.New(rand.NewPCG(1, 1)), uint64(0)
			for b.Loop() {
				x := rng.Uint64()
				if hint {
					for i := range 4 {
						Line(&table[x>>(i*11)&(1<<20-1)])
					}
				}
				for i := range 4 {
					line := &table[(x>>(i*11)+sum)&(1<<20-1)]
					sum += line[0] // 0, which the processor does not know
				}
			}
		})
	}
}
