package siphash

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// The vectors of the reference implementation (vectors.h): key 00 01 … 0f,
// message of n bytes 00 01 … n-1; the first 32, every tail length four times.
const vectors64 = `
310e0edd47db6f72 fd67dc93c539f874 5a4fa9d909806c0d 2d7efbd796666785
b7877127e09427cf 8da699cd64557618 cee3fe586e46c9cb 37d1018bf50002ab
6224939a79f5f593 b0e4a90bdf82009e f3b9dd94c5bb5d7a a7ad6b22462fb3f4
fbe50e86bc8f1e75 903d84c02756ea14 eef27a8e90ca23f7 e545be4961ca29a1
db9bc2577fcc2a3f 9447be2cf5e99a69 9cd38d96f0b3c14b bd6179a71dc96dbb
98eea21af25cd6be c7673b2eb0cbf2d0 883ea3e395675393 c8ce5ccd8c030ca8
94af49f6c650adb8 eab8858ade92e1bc f315bb5bb835d817 adcf6b0763612e2f
a5c91da7acaa4dde 716595876650a2a6 28ef495c53a387ad 42c341d8fa92d832`

const vectors128 = `
a3817f04ba25a8e66df67214c7550293 da87c1d86b99af44347659119b22fc45
8177228da4a45dc7fca38bdef60affe4 9c70b60c5267a94e5f33b6b02985ed51
f88164c12d9c8faf7d0f6e7c7bcd5579 1368875980776f8854527a07690e9627
14eeca338b208613485ea0308fd7a15e a1f1ebbed8dbc153c0b84aa61ff08239
3b62a9ba6258f5610f83e264f31497b4 264499060ad9baabc47f8b02bb6d71ed`

func referenceInput() (key [16]byte, message string) {
	var b strings.Builder
	for i := range 64 {
		b.WriteByte(byte(i))
		if i < 16 {
			key[i] = byte(i)
		}
	}
	return key, b.String()
}

func TestPublishedVectors(t *testing.T) {
	key, message := referenceInput()
	for n, want := range strings.Fields(vectors64) {
		var got [8]byte
		binary.LittleEndian.PutUint64(got[:], New(key).Sum64(message[:n]))
		if hex.EncodeToString(got[:]) != want {
			t.Errorf("64 bits of %d bytes: %x, want %s", n, got, want)
		}
		if a, b := New(key).Sum64(message[:n]), New(key).SumBytes([]byte(message[:n])); a != b {
			t.Errorf("%d bytes: Sum64 %x, SumBytes %x", n, a, b)
		}
	}
	for n, want := range strings.Fields(vectors128) {
		var got [16]byte
		lo, hi := New128(key).Sum128(message[:n])
		binary.LittleEndian.PutUint64(got[:8], lo)
		binary.LittleEndian.PutUint64(got[8:], hi)
		if hex.EncodeToString(got[:]) != want {
			t.Errorf("128 bits of %d bytes: %x, want %s", n, got, want)
		}
	}
}

// The worked example of the paper, appendix A.
func TestPaperExample(t *testing.T) {
	key, message := referenceInput()
	if got := New(key).Sum64(message[:15]); got != 0xa129ca6149be45e5 {
		t.Errorf("%#x", got)
	}
}

// A name built in parts is SipHash of the bytes that the parts stand for.
func TestPartsAreOneMessage(t *testing.T) {
	key, message := referenceInput()
	for n := range 20 {
		part, tail := message[:n], message[n:40]
		var bytes []byte
		bytes = binary.LittleEndian.AppendUint64(bytes, uint64(n))
		bytes = append(bytes, part...)
		for len(bytes)%8 != 0 {
			bytes = append(bytes, 0)
		}
		bytes = binary.LittleEndian.AppendUint64(bytes, 0x1122334455667788)
		want := New(key).Sum64(string(bytes) + tail)
		if got := New(key).Part(part).Word(0x1122334455667788).Sum64(tail); got != want {
			t.Errorf("part of %d bytes: %x, want %x", n, got, want)
		}
	}
}

func TestNumbersAreTheirBytes(t *testing.T) {
	key, message := referenceInput()
	if got, want := New(key).SumUint32(binary.LittleEndian.Uint32([]byte(message[:4]))), New(key).Sum64(message[:4]); got != want {
		t.Errorf("%x, want %x", got, want)
	}
	want := New(key).Part("network").Sum64(message[:8])
	if got := New(key).Part("network").SumWord(binary.LittleEndian.Uint64([]byte(message[:8]))); got != want {
		t.Errorf("%x, want %x", got, want)
	}
}

func TestPartsDoNotRunTogether(t *testing.T) {
	seen := map[uint64]string{}
	for _, parts := range [][]string{{"a|b", "c"}, {"a", "b|c"}, {"a", "b", "c"}, {"", "abc"}, {"abc", ""}, {"abc\x00", ""}} {
		h := New([16]byte{1})
		for _, p := range parts[:len(parts)-1] {
			h = h.Part(p)
		}
		name := h.Sum64(parts[len(parts)-1])
		if was, ok := seen[name]; ok {
			t.Errorf("%q has the name of %s", parts, was)
		}
		seen[name] = fmt.Sprintf("%q", parts)
	}
}

func BenchmarkSum64(b *testing.B) {
	key, message := referenceInput()
	for _, n := range []int{0, 8, 32, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			h := New(key)
			var sum uint64
			for b.Loop() {
				sum ^= h.Sum64(message[:n])
			}
			_ = sum // keeps the loop's work observable
		})
	}
}
