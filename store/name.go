package store

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Name is the name of a record: a keyed hash of all that the key is bound to.
// What a client sent cannot be read from it.
type Name [32]byte

// String writes the name in hexadecimal digits.
func (n Name) String() string { return hex.EncodeToString(n[:]) }

// ParseName reads what String writes.
func ParseName(s string) (n Name, err error) {
	if len(s) != hex.EncodedLen(len(n)) {
		return n, fmt.Errorf("store: %q is no name: it has %d characters, not %d", s, len(s), hex.EncodedLen(len(n)))
	}
	if _, err = hex.Decode(n[:], []byte(s)); err != nil {
		return Name{}, fmt.Errorf("store: %q is no name: %w", s, err)
	}
	return n, nil
}

// NewFence draws a fence. It is drawn by who claims and not by the store, so that
// a claim whose answer was lost can be asked again, or released.
func NewFence() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return max(int64(binary.LittleEndian.Uint64(b[:])>>1), 1)
}

// SecretSize is the length of a secret in bytes.
const SecretSize = 32

// NewSecret draws a secret, for an engine that makes its state.
func NewSecret() []byte {
	b := make([]byte, SecretSize)
	_, _ = rand.Read(b) // it never fails
	return b
}
