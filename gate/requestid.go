package gate

import (
	"crypto/rand"
	"encoding/binary"
	"sync/atomic"
)

// requestIDs names requests that came without a name: a random beginning for the
// process and a count. An id need not be a secret, it must be one of its kind.
type requestIDs struct {
	process [8]byte
	count   *atomic.Uint64
}

func newRequestIDs() requestIDs {
	ids := requestIDs{count: new(atomic.Uint64)}
	_, _ = rand.Read(ids.process[:]) // never fails
	return ids
}

// next returns 26 hex digits and a dash.
func (ids *requestIDs) next() string {
	const digits = "0123456789abcdef"
	var raw [13]byte
	copy(raw[:], ids.process[:])
	n := ids.count.Add(1)
	binary.BigEndian.PutUint32(raw[8:], uint32(n>>8))
	raw[12] = byte(n)
	var text [27]byte
	at := 0
	for i, b := range raw {
		if i == len(ids.process) {
			text[at] = '-'
			at++
		}
		text[at], text[at+1] = digits[b>>4], digits[b&15]
		at += 2
	}
	return string(text[:])
}
