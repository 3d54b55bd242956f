package calendar

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/comporta/comporta"
)

// macByHand computes a ticket's MAC from its description, in one piece.
func macByHand(key, head []byte, r *comporta.Request) []byte {
	msg := append([]byte(nil), head...)
	msg = binary.BigEndian.AppendUint32(msg, 8)
	msg = binary.BigEndian.AppendUint64(msg, r.Client.Key)
	for _, p := range []string{r.Method, r.Host, r.Path, r.Query, r.IdempotencyKey} {
		msg = binary.BigEndian.AppendUint32(msg, uint32(len(p)))
		msg = append(msg, p...)
	}
	m := hmac.New(sha256.New, key)
	m.Write(msg)
	return m.Sum(nil)
}
