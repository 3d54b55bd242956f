package sqlitestore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/comporta/comporta/store"
)

// SQLite keeps no checksum of its pages: a body that the disk gives back altered
// would be answered as it is. So each record has sums of what a caller is answered
// from: of the fingerprint, and, once it is finished, of all that Finish has
// written.
//
// CRC-32C finds every burst of up to 32 bits, and all but one of 2³² other damages, for
// a tenth of a microsecond a KiB. A digest would keep out nobody: who can write to
// the file can write the sum as well.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf covers the name too, so that a record is not taken for another one where
// an index is damaged.
func sumOf(n store.Name, parts ...[]byte) int64 {
	sum := crc32.Update(0, castagnoli, n[:])
	for _, p := range parts {
		sum = crc32.Update(sum, castagnoli, p)
	}
	return int64(sum)
}

// sumOfFinish is the sum of what Finish writes, without the fingerprint. Nothing
// changes it afterwards.
func sumOfFinish(h store.Hold, finished, expires int64, a *store.Answer) int64 {
	var fixed [41]byte
	fields := fixed[:0]
	for _, v := range [...]int64{h.Fence, finished, expires, int64(a.Status), int64(len(a.Header))} {
		fields = binary.LittleEndian.AppendUint64(fields, uint64(v))
	}
	if a.Omitted {
		fixed[40] = 1
	}
	return sumOf(h.Name, fixed[:], a.Header, a.Body)
}

// sums are those of a row; nil: it was written before there were any.
type sums struct{ fingerprint, finish *int64 }

// sound says whether a row, with its answer, is what was written: nil, or what is
// not, as an altered.
func (r *row) sound() error {
	rec, kept := &r.record, &r.sums
	ok := kept.fingerprint == nil || *kept.fingerprint == sumOf(rec.Name, rec.Fingerprint)
	switch {
	case kept.finish == nil: // a record that has the one sum gets the other one
		ok = ok && (r.finished == nil || kept.fingerprint == nil)
	case r.finished == nil:
		ok = false
	default:
		ok = ok && *kept.finish == sumOfFinish(store.Hold{Name: rec.Name, Fence: rec.Fence}, *r.finished, r.expires, &rec.Answer)
	}
	if ok {
		return nil
	}
	return &altered{rec.Name, rec.Label.Route}
}

// altered is the error of a record that is not what was written.
type altered struct {
	name  store.Name
	route string
}

func (a *altered) Error() string {
	return fmt.Sprintf("record %v of route %q is not what was written", a.name, a.route)
}
