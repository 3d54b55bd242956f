package main

import (
	"math/bits"
	"time"
)

// spread counts durations in steps of an eighth of a power of two, so that a
// quantile is too high by at most an eighth.
type spread struct {
	counts [8 * 48]uint64
	total  uint64
}

func (s *spread) add(d time.Duration) {
	s.counts[step(uint64(max(d, 1)))]++
	s.total++
}

func step(ns uint64) int {
	if ns < 8 {
		return int(ns)
	}
	exponent := bits.Len64(ns) - 4 // ns>>exponent is within 8 and 15
	return min(8*exponent+int(ns>>exponent), len(spread{}.counts)-1)
}

// upper is the end of a step.
func upper(i int) time.Duration {
	if i < 8 {
		return time.Duration(i)
	}
	exponent := i/8 - 1
	return time.Duration((uint64(i%8+8)+1)<<exponent - 1)
}

func (s *spread) join(o *spread) {
	for i, n := range &o.counts {
		s.counts[i] += n
	}
	s.total += o.total
}

// quantile is a duration that at least the part q of all does not exceed.
func (s *spread) quantile(q float64) time.Duration {
	need, seen := uint64(q*float64(s.total)), uint64(0)
	for i, n := range &s.counts {
		if seen += n; seen >= need && n > 0 {
			return upper(i)
		}
	}
	return 0
}
