package gate

import (
	"crypto/rand"
	"encoding/binary"
	"sync/atomic"

	"github.com/comporta/comporta"
)

// requestIDs names requests that came without a name: a random beginning for the
// process and a count. An id need not be a secret, it must be one of its kind.
// It is put into text only when somebody reads it.
type requestIDs struct {
	process [8]byte
	count   *atomic.Uint64
}

func newRequestIDs() requestIDs {
	ids := requestIDs{count: new(atomic.Uint64)}
	_, _ = rand.Read(ids.process[:]) // never fails
	return ids
}

// next returns the next serial number, from 1.
func (ids *requestIDs) next() uint64 { return ids.count.Add(1) }

// RequestID returns the name of r: the caller's, or one of this process; empty if
// it has none.
func (s *State) RequestID(r *comporta.Request) string {
	if r.ID != "" || r.Serial == 0 {
		return r.ID
	}
	return s.ids.text(r.Serial)
}

// text returns 26 hex digits and a dash.
func (ids *requestIDs) text(n uint64) string {
	const digits = "0123456789abcdef"
	var raw [13]byte
	copy(raw[:], ids.process[:])
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
