// Package hash names things by 64 bits.
//
// A name is made of parts. Each part is hashed on its own with a keyed hash and
// folded into the sum in order, so that ("a|b", "c") and ("a", "b|c") differ
// whatever the parts contain: what length prefixes do, without copying the
// parts into one buffer. Names are of one process: the seed is random. Those of a
// simulation are of its number instead, so that a run can be repeated.
package hash

import (
	"hash/maphash"
	"math/bits"
)

// Seed keys the names. Names made with different seeds have nothing in common.
type Seed struct {
	seed  maphash.Seed
	fixed uint64 // instead of seed, unless 0
}

// NewSeed returns a random seed.
func NewSeed() Seed { return Seed{seed: maphash.MakeSeed()} }

// Fixed returns the seed of a simulation: the same names for the same number, in
// every process. Whoever knows the number can make names that collide, so it is
// not for names of what others send.
func Fixed(n uint64) Seed { return Seed{fixed: fold(n, 0xa0761d6478bd642f) | 1} }

// Sum collects the parts of a name. It is a value: copy it to give two names a
// common beginning.
type Sum struct {
	seed Seed
	acc  uint64
}

// Start begins a name.
func (s Seed) Start() Sum { return Sum{s, 0x9e3779b97f4a7c15} }

// Str adds a part.
func (s Sum) Str(part string) Sum {
	if s.seed.fixed != 0 {
		return s.part(fixed(s.seed.fixed, part))
	}
	return s.part(maphash.String(s.seed.seed, part))
}

// Bytes adds a part.
func (s Sum) Bytes(part []byte) Sum {
	if s.seed.fixed != 0 {
		return s.part(fixed(s.seed.fixed, part))
	}
	return s.part(maphash.Bytes(s.seed.seed, part))
}

func (s Sum) part(h uint64) Sum {
	s.acc = fold(s.acc^h, 0xd6e8feb86659fd93)
	return s
}

// fixed is FNV-1a (Fowler, Noll and Vo) from a key on.
func fixed[T string | []byte](key uint64, part T) uint64 {
	h := key ^ 0xcbf29ce484222325
	for i := range len(part) {
		h = (h ^ uint64(part[i])) * 0x100000001b3
	}
	return h
}

// Uint adds a number, which is no part of text: Uint(1) and Str("\x01") differ.
func (s Sum) Uint(n uint64) Sum {
	s.acc = fold(s.acc^n, 0xa0761d6478bd642f)
	return s
}

// Name returns the name; it is never 0, so that 0 can mean none.
func (s Sum) Name() uint64 {
	if n := fold(s.acc, 0xe7037ed1a0b428db); n != 0 {
		return n
	}
	return 1
}

// fold multiplies to 128 bits and folds the halves. Each step rotates first, so
// that order matters and a zero does not stick.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(bits.RotateLeft64(a, 23)+0x9e3779b97f4a7c15, b)
	return hi ^ lo
}
