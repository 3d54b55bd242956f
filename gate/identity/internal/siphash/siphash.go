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
	h.v3 ^= w
	h.v0, h.v1, h.v2, h.v3 = round(h.v0, h.v1, h.v2, h.v3)
	h.v0, h.v1, h.v2, h.v3 = round(h.v0, h.v1, h.v2, h.v3)
	h.v0 ^= w
	h.size += 8
	return h
}

// Part absorbs a text: its length as a word, then its bytes, filled up with
// zeros to whole words.
func (h Hash) Part(s string) Hash {
	h = h.Word(uint64(len(s)))
	h, s = h.words(s)
	if s == "" {
		return h
	}
	return h.Word(rest(s))
}

// words absorbs the whole words of s and returns what is left of it.
func (h Hash) words(s string) (Hash, string) {
	v0, v1, v2, v3 := h.v0, h.v1, h.v2, h.v3
	n := len(s) &^ 7
	for ; len(s) >= 8; s = s[8:] {
		w := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		v3 ^= w
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
		v0 ^= w
	}
	return Hash{v0, v1, v2, v3, h.size + uint64(n)}, s
}

// rest packs the last one to seven bytes.
func rest(s string) (w uint64) {
	for i := range len(s) {
		w |= uint64(s[i]) << (8 * i)
	}
	return w
}

// Sum64 absorbs tail to the byte and returns the name. h itself stays as it was.
func (h Hash) Sum64(tail string) uint64 {
	h, s := h.words(tail)
	h = h.Word(rest(s) | (h.size+uint64(len(s)))<<56)
	v0, v1, v2, v3 := h.v0, h.v1, h.v2^0xff, h.v3
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	return v0 ^ v1 ^ v2 ^ v3
}

// Sum128 absorbs tail to the byte and returns the name of a Hash begun with New128.
func (h Hash) Sum128(tail string) (lo, hi uint64) {
	h, s := h.words(tail)
	h = h.Word(rest(s) | (h.size+uint64(len(s)))<<56)
	v0, v1, v2, v3 := h.v0, h.v1, h.v2^0xee, h.v3
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

// round is one SipRound. The rotations are spelled out because the function then
// stays within what the compiler inlines.
func round(v0, v1, v2, v3 uint64) (a, b, c, d uint64) {
	v0 += v1
	v2 += v3
	v1 = v1<<13 | v1>>51
	v3 = v3<<16 | v3>>48
	v1 ^= v0
	v3 ^= v2
	v0 = v0<<32 | v0>>32
	v2 += v1
	v0 += v3
	v1 = v1<<17 | v1>>47
	v3 = v3<<21 | v3>>43
	v1 ^= v2
	v3 ^= v0
	v2 = v2<<32 | v2>>32
	return v0, v1, v2, v3
}
