package redisstore

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/comporta/comporta/store"
)

// buckets is the number of parts in which records lie, each in one slot of a
// cluster.
const buckets = 256

// keys are the record of a name and the index of its bucket.
func (s *Store) keys(n store.Name) []string {
	bucket := s.index(int(n[0]))
	return []string{bucket + ":" + hex.EncodeToString(n[:]), bucket}
}

func (s *Store) index(bucket int) string { return fmt.Sprintf("%s:{%02x}", s.prefix, bucket) }

// errReply is an error of this package or of a server that is none.
var errReply = errors.New("redisstore: Redis said something else than expected")

// headSize is the number of values in the head of a record, see claim.lua.
const headSize = 13

// head reads the values of a head one after the other, and remembers the first
// fault.
type head struct {
	values []any
	err    error
}

func (h *head) text() string {
	text, ok := h.values[0].(string)
	if !ok && h.err == nil {
		h.err = fmt.Errorf("%w: %T in a record", errReply, h.values[0])
	}
	h.values = h.values[1:]
	return text
}

func (h *head) number() int64 {
	text := h.text()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && h.err == nil {
		h.err = fmt.Errorf("%w: the number %q in a record", errReply, text)
	}
	return n
}

func (h *head) instant() time.Time { return time.UnixMicro(h.number()) }

// readHead makes a record of its head. There is none when the list is empty, or when
// its time is over.
func readHead(name store.Name, now int64, values []any) (r store.Record, there bool, err error) {
	if len(values) == 0 {
		return r, false, nil
	}
	if len(values) != headSize {
		return r, false, fmt.Errorf("%w: a record of %d values", errReply, len(values))
	}
	h := head{values: values}
	r.Name, r.Fence, r.Created = name, h.number(), h.instant()
	left := h.number() - now
	r.Expires = h.instant()
	switch finished := h.text(); {
	case finished != "":
		n, err := strconv.ParseInt(finished, 10, 64)
		if err != nil {
			return r, false, fmt.Errorf("%w: finished at %q", errReply, finished)
		}
		r.State, r.Finished = store.Finished, time.UnixMicro(n)
	case left > 0:
		r.State, r.LeaseLeft = store.Running, time.Duration(left)*time.Microsecond
	default:
		r.State = store.Lapsed
	}
	r.Label = store.Label{Client: h.text(), Method: h.text(), Route: h.text(), Key: h.text()}
	r.Fingerprint = []byte(h.text())
	r.Answer.Status, r.Answer.Omitted = int(h.number()), h.text() == "1"
	r.BodySize = int(h.number())
	return r, h.err == nil && r.Expires.UnixMicro() > now, h.err
}

// readAll reads {now, header, body, head…}.
func readAll(name store.Name, reply []any) (r store.Record, there bool, err error) {
	if len(reply) == 0 {
		return r, false, fmt.Errorf("%w: nothing", errReply)
	}
	now, err := micros(reply[0])
	if err != nil || len(reply) == 1 {
		return r, false, err
	}
	if len(reply) < 3 {
		return r, false, fmt.Errorf("%w: %d values", errReply, len(reply))
	}
	header, ok := reply[1].(string)
	body, ok2 := reply[2].(string)
	if !ok || !ok2 {
		return r, false, fmt.Errorf("%w: %T, %T", errReply, reply[1], reply[2])
	}
	r, there, err = readHead(name, now, reply[3:])
	r.Answer.Header, r.Answer.Body = []byte(header), []byte(body)
	return r, there, err
}

func micros(reply any) (int64, error) {
	text, ok := reply.(string)
	if !ok {
		return 0, fmt.Errorf("%w: %T", errReply, reply)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: the instant %q", errReply, text)
	}
	return n, nil
}
