package redisstore

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
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

var errReply = errors.New("redisstore: Redis said something else than expected")

// fields are those of a record but for header and body, as [read] wants them.
var fields = []string{"name", "fence", "created", "lease", "ends", "finished", "client", "method", "route", "key", "fingerprint", "status", "omitted"}

// reader reads values of a reply and remembers the first fault.
type reader struct {
	at  func(field string) (string, bool)
	err error
}

func (r *reader) text(field string) string {
	text, _ := r.at(field)
	return text
}

func (r *reader) number(field string) int64 {
	text, ok := r.at(field)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%w: %s is %q", errReply, field, text)
	}
	return n
}

func (r *reader) instant(field string) time.Time { return time.UnixMicro(r.number(field)) }

// read makes a record of its fields. There is none when it has no fence, or when
// its time is over.
func read(now int64, at func(field string) (string, bool)) (rec store.Record, there bool, err error) {
	r := reader{at: at}
	if _, ok := at("fence"); !ok || r.number("ends") <= now {
		return store.Record{}, false, r.err
	}
	if copy(rec.Name[:], r.text("name")) != len(rec.Name) {
		return store.Record{}, false, fmt.Errorf("%w: a name of %d bytes", errReply, len(r.text("name")))
	}
	rec.Fence, rec.Created, rec.Expires = r.number("fence"), r.instant("created"), r.instant("ends")
	rec.Label = store.Label{Client: r.text("client"), Method: r.text("method"), Route: r.text("route"), Key: r.text("key")}
	rec.Fingerprint = []byte(r.text("fingerprint"))
	a := &rec.Answer
	a.Status, a.Omitted = int(r.number("status")), r.text("omitted") == "1"
	a.Header, a.Body = []byte(r.text("header")), []byte(r.text("body"))
	rec.BodySize = len(a.Body)
	_, finished := at("finished")
	switch left := r.number("lease") - now; {
	case finished:
		rec.State, rec.Finished = store.Finished, r.instant("finished")
	case left > 0:
		rec.State, rec.LeaseLeft = store.Running, time.Duration(left)*time.Microsecond
	default:
		rec.State = store.Lapsed
	}
	return rec, true, r.err
}

// pairs reads {now, field, value, …}.
func pairs(reply []any) (rec store.Record, there bool, err error) {
	if len(reply)%2 != 1 {
		return rec, false, fmt.Errorf("%w: %d values", errReply, len(reply))
	}
	m := make(map[string]string, len(reply)/2)
	for pair := range slices.Chunk(reply[1:], 2) {
		field, ok := pair[0].(string)
		value, ok2 := pair[1].(string)
		if !ok || !ok2 {
			return rec, false, fmt.Errorf("%w: %T, %T", errReply, pair[0], pair[1])
		}
		m[field] = value
	}
	now, err := micros(reply[0])
	if err != nil {
		return rec, false, err
	}
	return read(now, func(field string) (string, bool) { v, ok := m[field]; return v, ok })
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
