package queue

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"
)

// The file is a header and records:
//
//	header: magic (8) | marker (4) | checksum of both (4)
//	record: marker (4) | the body's length (4) | checksum (4) | body
//	body:   kind (1) | id (8) | at (8) | wait (8) | number (4) | length of text (2) | text | payload
//
// All numbers are little-endian, times are nanoseconds since 1970, and the
// checksum is CRC-32C over the length and the body: a torn length must not be
// believed. The marker is random and drawn for each file. It lets recovery find
// the next record behind damaged bytes, and no payload can contain a record that
// it would take for one.
const (
	magic      = "comporq1"
	headerSize = len(magic) + 8
	frameSize  = 12
	bodySize   = 31
	maxText    = 1 << 10
	maxBody    = bodySize + maxText + LargestPayload
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// kind says what a record does. Their numbers are the file format.
type kind uint8

const (
	kindPut    kind = 1 + iota // an item enters: at, number = attempts, text = key, payload
	kindStart                  // an attempt begins: number = attempts, this one included
	kindHold                   // the item stays where it is: number = attempts, text = ticket
	kindBack                   // the item goes to the end: likewise
	kindDone                   // the item was sent
	kindDead                   // the item is a dead letter: at, number = attempts, text = reason
	kindRevive                 // a dead letter waits again, at the end
	kindDrop                   // a dead letter is gone
	kindPause                  // nothing is sent from at, for wait: id = its cause, number = failures in a row
)

// record is one line of the log. Which fields mean something depends on the kind.
type record struct {
	kind    kind
	id      uint64
	at      int64
	wait    time.Duration
	number  uint32
	text    string
	payload []byte
}

func newHeader(marker uint32) []byte {
	b := append(make([]byte, 0, headerSize), magic...)
	b = binary.LittleEndian.AppendUint32(b, marker)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func parseHeader(b []byte) (marker uint32, ok bool) {
	if len(b) < headerSize || string(b[:len(magic)]) != magic {
		return 0, false
	}
	sum := binary.LittleEndian.Uint32(b[headerSize-4:])
	return binary.LittleEndian.Uint32(b[len(magic):]), sum == crc32.Checksum(b[:headerSize-4], castagnoli)
}

// appendTo appends the record in its frame.
func (r *record) appendTo(b []byte, marker uint32) []byte {
	text := r.text[:min(len(r.text), maxText)]
	length := bodySize + len(text) + len(r.payload)
	b = binary.LittleEndian.AppendUint32(b, marker)
	start := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(length))
	b = binary.LittleEndian.AppendUint32(b, 0) // the checksum's place
	body := len(b)
	b = append(b, byte(r.kind))
	b = binary.LittleEndian.AppendUint64(b, r.id)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.at))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.wait))
	b = binary.LittleEndian.AppendUint32(b, r.number)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	b = append(b, text...)
	b = append(b, r.payload...)
	binary.LittleEndian.PutUint32(b[start+4:], checksum(b[start:start+4], b[body:]))
	return b
}

func checksum(length, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, body)
}

// parseRecord reads the record at the start of b; size is what it takes. The
// payload is a part of b.
func parseRecord(b []byte, marker uint32) (r record, size int, ok bool) {
	if len(b) < frameSize+bodySize || binary.LittleEndian.Uint32(b) != marker {
		return r, 0, false
	}
	length := binary.LittleEndian.Uint32(b[4:])
	if length < bodySize || length > maxBody || int(length) > len(b)-frameSize {
		return r, 0, false
	}
	body := b[frameSize : frameSize+int(length)]
	if binary.LittleEndian.Uint32(b[8:]) != checksum(b[4:8], body) {
		return r, 0, false
	}
	text := int(binary.LittleEndian.Uint16(body[bodySize-2:]))
	if text > maxText || text > len(body)-bodySize {
		return r, 0, false
	}
	r = record{
		kind:    kind(body[0]),
		id:      binary.LittleEndian.Uint64(body[1:]),
		at:      int64(binary.LittleEndian.Uint64(body[9:])),
		wait:    time.Duration(binary.LittleEndian.Uint64(body[17:])),
		number:  binary.LittleEndian.Uint32(body[25:]),
		text:    string(body[bodySize : bodySize+text]),
		payload: body[bodySize+text:],
	}
	return r, frameSize + int(length), true
}

// replay hands every record of b to apply, in order. Bytes that are no record
// are passed over if a record follows (the medium lost them) and end the log if
// none does (the tail of a write that a crash cut off). end is where the log
// ends, skipped counts the bytes passed over before it.
func replay(b []byte, marker uint32, apply func(*record)) (end, skipped int) {
	var mark [4]byte
	binary.LittleEndian.PutUint32(mark[:], marker)
	for pos := 0; pos < len(b); {
		r, size, ok := parseRecord(b[pos:], marker)
		if ok {
			apply(&r)
			skipped += pos - end
			pos += size
			end = pos
			continue
		}
		next := bytes.Index(b[pos+1:], mark[:])
		if next < 0 {
			break
		}
		pos += 1 + next
	}
	return end, skipped
}

// saturate bounds a count to what a record holds.
func saturate(n int) uint32 { return uint32(min(max(int64(n), 0), math.MaxUint32)) }
