package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"sync"

	"github.com/comporta/comporta"
)

// Fingerprint tells the operations of one key apart: by the target of the request,
// and by its body as far as that is known. Its zero value has no body yet.
type Fingerprint struct {
	target [sha256.Size]byte
	body   [sha256.Size]byte
	size   int64 // bytes of the body that were read
	known  bool  // body and size are set
	whole  bool  // they are those of the whole body
}

// NewFingerprint returns the fingerprint of a target, without its body.
func NewFingerprint(path, query string) (f Fingerprint) {
	h := sha256.New()
	part(h, path)
	part(h, query)
	h.Sum(f.target[:0])
	return f
}

// WithBody returns the fingerprint with a whole body.
func (f Fingerprint) WithBody(body []byte) Fingerprint {
	f.body, f.size, f.known, f.whole = sha256.Sum256(body), int64(len(body)), true, true
	return f
}

// WithNoBody returns the fingerprint of a request that has none.
func (f Fingerprint) WithNoBody() Fingerprint { return f.WithBody(nil) }

const (
	version     = 1
	encodedSize = 2 + 8 + 2*sha256.Size
	flagKnown   = 1
	flagWhole   = 2
)

// AppendTo appends the fingerprint as a store keeps it.
func (f Fingerprint) AppendTo(b []byte) []byte {
	flags := byte(0)
	if f.known {
		flags |= flagKnown
	}
	if f.whole {
		flags |= flagWhole
	}
	b = append(b, version, flags)
	b = binary.BigEndian.AppendUint64(b, uint64(f.size))
	b = append(b, f.target[:]...)
	return append(b, f.body[:]...)
}

// parseFingerprint reads what AppendTo wrote.
func parseFingerprint(b []byte) (f Fingerprint, ok bool) {
	if len(b) != encodedSize || b[0] != version {
		return Fingerprint{}, false
	}
	f.known, f.whole = b[1]&flagKnown != 0, b[1]&flagWhole != 0
	f.size = int64(binary.BigEndian.Uint64(b[2:]))
	if f.size < 0 {
		return Fingerprint{}, false
	}
	copy(f.target[:], b[10:])
	copy(f.body[:], b[10+sha256.Size:])
	return f, true
}

// likeness is how two fingerprints stand to each other.
type likeness uint8

const (
	alike     likeness = iota
	different          // for certain
	undecided          // the bodies have to be compared
)

// like compares a fingerprint with a recorded one.
func (f Fingerprint) like(recorded []byte) likeness {
	r, ok := parseFingerprint(recorded)
	switch {
	case len(recorded) == 0:
		return alike // there is nothing to differ from
	case !ok:
		return different // rather than another's answer, no answer
	case f.target != r.target:
		return different
	case !r.known:
		return alike // the first run ended before its body was known
	case !f.known:
		return undecided
	case f.whole && f.size < r.size, f.whole && r.whole && f.size != r.size, r.whole && f.size > r.size:
		return different
	case f.size != r.size:
		return undecided // one of the two was read in part only
	case f.body != r.body:
		return different
	}
	return alike
}

// difference says in what a fingerprint differs from a recorded one that it is not
// like; DetailNone: that cannot be told.
func (f Fingerprint) difference(recorded []byte) comporta.Detail {
	switch r, ok := parseFingerprint(recorded); {
	case !ok:
		return comporta.DetailNone
	case f.target != r.target:
		return comporta.OtherTarget
	}
	return comporta.OtherBody
}

// Sum digests a body that passes, whatever its length, and keeps none of it. A
// service may read its body in a goroutine of its own while the answer is under
// way: its methods may be called from many.
type Sum struct {
	mu      sync.Mutex
	h       hash.Hash
	size    int64
	whole   bool
	opening *Fingerprint // what had passed when the first of the answer left; only if Answered
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

// Answered says that the first of the answer is about to leave, and that its client may
// have waited for it: what follows of the body may depend on it. So the body's opening
// is what tells it from others. A repeat that is held against more would be waited for
// while it waits.
func (s *Sum) Answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opening == nil {
		p := s.passed()
		s.opening = &p
	}
}

// Conversation reports whether the body went on after the first of the answer had left.
func (s *Sum) Conversation() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opening != nil && s.size > s.opening.size
}

// Fingerprint returns base with the body as far as it has passed, or had when it was
// answered.
func (s *Sum) Fingerprint(base *Fingerprint) Fingerprint {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.opening
	if p == nil {
		all := s.passed()
		p = &all
	}
	p.target = base.target
	return *p
}

func (s *Sum) passed() (p Fingerprint) {
	s.h.Sum(p.body[:0])
	p.size, p.known, p.whole = s.size, true, s.whole
	return p
}

// Compare holds a body that passes against a recorded one. It is an io.Writer
// that never fails.
type Compare struct {
	recorded Fingerprint
	h        hash.Hash
	size     int64
	extra    bool // there was more than was recorded
}

// NewCompare returns a Compare with the fingerprint of a record.
func NewCompare(recorded []byte) *Compare {
	r, ok := parseFingerprint(recorded)
	if !ok {
		r = Fingerprint{}
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

// Left is how much more of the body can change the answer, at most: what is left
// of the recorded one, and a byte that tells that there is more.
func (c *Compare) Left() int64 { return c.recorded.size - c.size + 1 }

// Enough reports whether more of the body cannot change the answer.
func (c *Compare) Enough() bool {
	return !c.recorded.known || c.extra || !c.recorded.whole && c.size == c.recorded.size
}

// Verdict says whether the body that has passed lets an operation go on to the
// recorded answer: it is zero, or that of a mismatch.
func (c *Compare) Verdict() (v Verdict) {
	if !c.Same() {
		v.Reason, v.Detail = comporta.IdempotencyPayloadMismatch, comporta.OtherBody
	}
	return v
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
