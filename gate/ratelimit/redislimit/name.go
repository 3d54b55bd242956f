package redislimit

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// name is what a key is called in Redis, the same on every node. It is a hash
// under the secret: what a client sent never reaches Redis, and nobody without
// the secret can choose two keys that share a bucket. Two of a billion keys do
// with a probability of 1 in 10^21.
type name [16]byte

// labelOf begins what is hashed for the keys of a policy: the secret in a fixed
// length, then the policy's name with its length.
func labelOf(secret []byte, policy string) []byte {
	sum := sha256.Sum256(secret)
	label := append(make([]byte, 0, sha256.Size+8+len(policy)), sum[:]...)
	label = binary.BigEndian.AppendUint64(label, uint64(len(policy)))
	return append(label, policy...)
}

// nameOf is the name of a key under a label. Truncated, the hash tells nothing
// from which a longer one could be computed.
func nameOf(label []byte, key ...[]byte) (n name) {
	var room [256]byte
	buf := append(room[:0], label...)
	for _, part := range key {
		buf = append(buf, part...)
	}
	sum := sha256.Sum256(buf)
	return name(sum[:len(n)])
}

// lane is the part of the key space that a name is in. All keys of a lane have
// one hash tag, hence one slot of a cluster.
func (n name) lane(lanes int) int { return int(n[0]) % lanes }

const hexDigits = "0123456789abcdef"

// appendKey appends the key in Redis: prefix, the tag of its lane, the name.
func appendKey(dst []byte, prefix string, lane int, n name) []byte {
	dst = append(dst, prefix...)
	dst = append(dst, ':', '{', hexDigits[lane>>4&15], hexDigits[lane&15], '}', ':')
	return base64.RawURLEncoding.AppendEncode(dst, n[:])
}
