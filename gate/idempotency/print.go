package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"sync"
)

// Print tells the operations of one key apart: by the target of the request, and
// by its body as far as that is known. Its zero value has no body yet.
type Print struct {
	target [sha256.Size]byte
	body   [sha256.Size]byte
	size   int64 // bytes of the body that were read
	known  bool  // body and size are set
	whole  bool  // they are those of the whole body
}

// NewPrint returns the print of a target, without its body.
func NewPrint(path, query string) (p Print) {
	h := sha256.New()
	part(h, path)
	part(h, query)
	h.Sum(p.target[:0])
	return p
}

// WithBody returns the print with a whole body.
func (p Print) WithBody(body []byte) Print {
	p.body, p.size, p.known, p.whole = sha256.Sum256(body), int64(len(body)), true, true
	return p
}

// WithNoBody returns the print of a request that has none.
func (p Print) WithNoBody() Print { return p.WithBody(nil) }

const (
	printVersion = 1
	printSize    = 2 + 8 + 2*sha256.Size
	flagKnown    = 1
	flagWhole    = 2
)

// AppendTo appends the print as a store keeps it.
func (p *Print) AppendTo(b []byte) []byte {
	flags := byte(0)
	if p.known {
		flags |= flagKnown
	}
	if p.whole {
		flags |= flagWhole
	}
	b = append(b, printVersion, flags)
	b = binary.BigEndian.AppendUint64(b, uint64(p.size))
	b = append(b, p.target[:]...)
	return append(b, p.body[:]...)
}

// parsePrint reads what AppendTo wrote. What it cannot read is no print: it
// matches everything, which is what a store without one says.
func parsePrint(b []byte) (p Print, ok bool) {
	if len(b) != printSize || b[0] != printVersion {
		return Print{}, false
	}
	p.known, p.whole = b[1]&flagKnown != 0, b[1]&flagWhole != 0
	p.size = int64(binary.BigEndian.Uint64(b[2:]))
	if p.size < 0 {
		return Print{}, false
	}
	copy(p.target[:], b[10:])
	copy(p.body[:], b[10+sha256.Size:])
	return p, true
}

// likeness is how two prints stand to each other.
type likeness uint8

const (
	alike     likeness = iota
	different          // for certain
	undecided          // the bodies have to be compared
)

// like compares a print with a recorded one.
func (p *Print) like(recorded []byte) likeness {
	r, ok := parsePrint(recorded)
	switch {
	case !ok:
		return alike // nothing was recorded to differ from
	case p.target != r.target:
		return different
	case !r.known:
		return alike // the first run ended before its body was known
	case !p.known:
		return undecided
	case p.whole && p.size < r.size, p.whole && r.whole && p.size != r.size, r.whole && p.size > r.size:
		return different
	case p.size != r.size:
		return undecided // one of the two was read in part only
	case p.body != r.body:
		return different
	}
	return alike
}

// Sum digests a body that passes, whatever its length, and keeps none of it. A
// service may read its body in a goroutine of its own while the answer is under
// way: its methods may be called from many.
type Sum struct {
	mu    sync.Mutex
	h     hash.Hash
	size  int64
	whole bool
}

// NewSum returns a Sum that has seen nothing.
func NewSum() *Sum { return &Sum{h: sha256.New()} }

// Read takes in what a Read of the body returned.
func (s *Sum) Read(p []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.whole {
		return
	}
	s.size += int64(len(p))
	_, _ = s.h.Write(p) // a hash takes everything
	s.whole = errors.Is(err, io.EOF)
}

// Print returns base with the body as far as it has passed.
func (s *Sum) Print(base *Print) Print {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := *base
	s.h.Sum(p.body[:0])
	p.size, p.known, p.whole = s.size, true, s.whole
	return p
}

// Compare holds a body that passes against a recorded one. It is an io.Writer
// that never fails.
type Compare struct {
	recorded Print
	h        hash.Hash
	size     int64
	extra    bool // there was more than was recorded
}

// NewCompare returns a Compare with the print of a record.
func NewCompare(recorded []byte) *Compare {
	r, ok := parsePrint(recorded)
	if !ok {
		r = Print{}
	}
	return &Compare{recorded: r, h: sha256.New()}
}

// Write implements io.Writer.
func (c *Compare) Write(p []byte) (int, error) {
	n := len(p)
	if left := c.recorded.size - c.size; int64(n) > left {
		c.extra = true
		p = p[:left]
	}
	c.size += int64(len(p))
	_, _ = c.h.Write(p)
	return n, nil
}

// Enough reports whether more of the body cannot change the answer.
func (c *Compare) Enough() bool {
	return !c.recorded.known || c.extra || !c.recorded.whole && c.size == c.recorded.size
}

// Same reports whether the body that has passed is the recorded one. Of a body
// that was read in part the first time, that part decides.
func (c *Compare) Same() bool {
	r := &c.recorded
	switch {
	case !r.known:
		return true
	case r.whole && c.extra, c.size != r.size:
		return false
	}
	return bytes.Equal(c.h.Sum(nil), r.body[:])
}
