// Package siphash gives short text a keyed name that is the same on every
// machine that holds the key.
//
// It is SipHash-2-4 of Aumasson and Bernstein ("SipHash: a fast short-input
// PRF", 2012) with 64 and 128 bits of output. hash/maphash, which the rest of
// the project uses, is faster and of one process only; a client's key must
// survive a restart and be one on all replicas.
//
// # Basics
//
// A [Hash] is a value: what many names begin with is absorbed once and the copy
// finished with each tail.
//
//	prefix := siphash.New(key).Part("header").Part("X-Api-Key")
//	name := prefix.Sum64(credential)
//
// # Caveats
//
// [Hash.Part] writes the length before the text and fills up to whole words, so
// parts never run together. The result is SipHash of those bytes, not of the
// bare texts.
package siphash

import "encoding/binary"

// Hash is the state of a name that has absorbed whole words. Use New or New128;
// the zero value is no valid state.
type Hash struct {
	v0, v1, v2, v3 uint64
	size           uint64 // bytes absorbed; always a multiple of 8
}

// New begins a name of 64 bits.
func New(key [16]byte) Hash {
	k0, k1 := binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:])
	return Hash{
		v0: k0 ^ 0x736f6d6570736575,
		v1: k1 ^ 0x646f72616e646f6d,
		v2: k0 ^ 0x6c7967656e657261,
		v3: k1 ^ 0x7465646279746573,
	}
}

// New128 begins a name of 128 bits, to be finished with Sum128.
func New128(key [16]byte) Hash {
	h := New(key)
	h.v1 ^= 0xee
	return h
}

// Word absorbs eight bytes, the lowest first.
func (h Hash) Word(w uint64) Hash {
	v0, v1, v2, v3 := round(h.v0, h.v1, h.v2, h.v3^w)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	return Hash{v0 ^ w, v1, v2, v3, h.size + 8}
}

// Part absorbs a text: its length as a word, then its bytes, filled up with
// zeros to whole words.
func (h Hash) Part(s string) Hash {
	h = h.Word(uint64(len(s)))
	for ; len(s) >= 8; s = s[8:] {
		h = h.Word(word(s))
	}
	if s == "" {
		return h
	}
	return h.Word(rest(s))
}

// word packs the first eight bytes; the compiler makes it one load.
func word(s string) uint64 {
	_ = s[7] // one bounds check
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// rest packs the last one to seven bytes.
func rest(s string) (w uint64) {
	for i := range len(s) {
		w |= uint64(s[i]) << (8 * i)
	}
	return w
}

// Sum64 absorbs tail to the byte and returns the name. It works on local words
// throughout: a struct of five would be spilled to memory at each step, which
// more than doubles the cost.
func (h Hash) Sum64(tail string) uint64 {
	v0, v1, v2, v3 := h.v0, h.v1, h.v2, h.v3
	last := (h.size + uint64(len(tail))) << 56
	for ; len(tail) >= 8; tail = tail[8:] {
		w := word(tail)
		v0, v1, v2, v3 = round(v0, v1, v2, v3^w)
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
		v0 ^= w
	}
	last |= rest(tail)
	v0, v1, v2, v3 = round(v0, v1, v2, v3^last)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0^last, v1, v2^0xff, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	return v0 ^ v1 ^ v2 ^ v3
}

// SumBytes is Sum64 for bytes. It takes the plain way, word by word: it is for
// what is off the common path.
func (h Hash) SumBytes(tail []byte) uint64 {
	for ; len(tail) >= 8; tail = tail[8:] {
		h = h.Word(binary.LittleEndian.Uint64(tail))
	}
	return h.Sum64(string(tail)) // less than eight bytes: on the stack
}

// SumUint32 absorbs four bytes, the lowest first, and returns the name.
func (h Hash) SumUint32(w uint32) uint64 {
	last := (h.size+4)<<56 | uint64(w)
	v0, v1, v2, v3 := round(h.v0, h.v1, h.v2, h.v3^last)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0^last, v1, v2^0xff, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	return v0 ^ v1 ^ v2 ^ v3
}

// SumWord absorbs eight bytes, the lowest first, and returns the name.
func (h Hash) SumWord(w uint64) uint64 {
	last := (h.size + 8) << 56
	v0, v1, v2, v3 := round(h.v0, h.v1, h.v2, h.v3^w)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0^w, v1, v2, v3^last)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0^last, v1, v2^0xff, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	return v0 ^ v1 ^ v2 ^ v3
}

// Sum128 absorbs tail to the byte and returns the name of a Hash begun with New128.
func (h Hash) Sum128(tail string) (lo, hi uint64) {
	v0, v1, v2, v3 := h.v0, h.v1, h.v2, h.v3
	last := (h.size + uint64(len(tail))) << 56
	for ; len(tail) >= 8; tail = tail[8:] {
		w := word(tail)
		v0, v1, v2, v3 = round(v0, v1, v2, v3^w)
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
		v0 ^= w
	}
	last |= rest(tail)
	v0, v1, v2, v3 = round(v0, v1, v2, v3^last)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0 ^= last
	v2 ^= 0xee
	for range 4 {
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
	}
	lo = v0 ^ v1 ^ v2 ^ v3
	v1 ^= 0xdd
	for range 4 {
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
	}
	return lo, v0 ^ v1 ^ v2 ^ v3
}

// round is one SipRound, folded into as few assignments as keep it within what
// the compiler inlines.
func round(v0, v1, v2, v3 uint64) (a, b, c, d uint64) {
	v0 += v1
	v2 += v3
	v1 = v1<<13 | v1>>51
	v3 = v3<<16 | v3>>48
	v1 ^= v0
	v3 ^= v2
	v2 += v1
	v0 = (v0<<32 | v0>>32) + v3
	return v0, (v1<<17 | v1>>47) ^ v2, v2<<32 | v2>>32, (v3<<21 | v3>>43) ^ v0
}
