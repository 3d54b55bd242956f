package calendar

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"sync"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/keys"
)

// A ticket is "v1." and the unpadded base64url of 30 bytes:
//
//	 0  key id, 4 bytes
//	 4  due, 6 bytes, Unix milliseconds
//	10  how long after due it is good for, 2 bytes, seconds
//	12  the attempt that was refused, 1 byte
//	13  class of the client, 2 bits, and the marks aged and plain, 1 byte
//	14  the first 16 bytes of HMAC-SHA256 over the 14 bytes above and the operation
//
// The operation itself does not travel: whoever verifies builds it from the
// request at hand. 128 bits of MAC are out of reach of guessing on line, and
// the shorter header is sent thousands of times in the worst moment.
const (
	ticketPrefix = "v1."
	ticketHead   = 14
	ticketMAC    = 16
	ticketBytes  = ticketHead + ticketMAC
	ticketLength = len(ticketPrefix) + (ticketBytes*8+5)/6
)

const (
	ticketClass = 0b0011
	ticketAged  = 0b0100
	ticketPlain = 0b1000
	ticketRest  = 0xf0 // unused: must be 0
)

// Ticket is what a request's ticket proves.
type Ticket struct {
	// Authentic says that one of our gateways gave this operation an instant,
	// which has not passed for good yet. It proves that the request is a repeat.
	Authentic bool
	// Attempt is the attempt that was refused when the ticket was written,
	// 1 = the first; 15 stands for 15 and more.
	Attempt int
	// Class is the client's class at that moment.
	Class comporta.Class

	slot slot
}

// signer makes the MACs of one key. The hash states are pooled: an HMAC that was
// used before starts from its saved inner state, which is a third faster than
// hashing the padded key anew, and writes of any length need no buffer of theirs.
type signer struct {
	id   [4]byte
	pool sync.Pool // of *macState
}

type macState struct {
	mac hash.Hash
	n   int
	sum [sha256.Size]byte
	buf [512]byte
}

func newSigner(key keys.Key) *signer {
	s := &signer{id: key.ID}
	s.pool.New = func() any { return &macState{mac: hmac.New(sha256.New, key.Secret[:])} }
	return s
}

// sum returns the MAC of a ticket's head for the operation of r.
// The client is that of r, as the key's time named it.
func (s *signer) sum(head *[ticketHead]byte, r *comporta.Request, client *comporta.Client) [ticketMAC]byte {
	m, ok := s.pool.Get().(*macState)
	if !ok {
		return [ticketMAC]byte{} // cannot be: the pool holds nothing else
	}
	m.mac.Reset()
	m.n = copy(m.buf[:], head[:])
	m.client(client)
	m.part(r.Method)
	m.part(r.Host)
	m.part(r.Path)
	m.part(r.Query)
	m.part(r.IdempotencyKey)
	m.flush()
	mac := [ticketMAC]byte(m.mac.Sum(m.sum[:0]))
	s.pool.Put(m)
	return mac
}

// client adds who asks: nothing for a network, since a phone that changes its
// address between two asks is still the one that was told to come.
func (m *macState) client(c *comporta.Client) {
	if c.Shared && !c.Class.Believed() {
		m.length(0)
		return
	}
	m.length(8)
	binary.BigEndian.PutUint64(m.buf[m.n:], c.Key)
	m.n += 8
}

// part adds a part of the operation behind its length, so that no two
// operations are the same sequence of bytes.
func (m *macState) part(p string) {
	m.length(len(p))
	for p != "" {
		if m.n == len(m.buf) {
			m.flush()
		}
		k := copy(m.buf[m.n:], p)
		m.n, p = m.n+k, p[k:]
	}
}

func (m *macState) length(n int) {
	if m.n+4+8 > len(m.buf) { // room for a length and a client key
		m.flush()
	}
	binary.BigEndian.PutUint32(m.buf[m.n:], uint32(n))
	m.n += 4
}

func (m *macState) flush() {
	m.mac.Write(m.buf[:m.n]) // a hash.Hash never fails
	m.n = 0
}

// AppendTicket appends the ticket of a booking that BookAt made for r. It does
// not allocate if dst has room for 43 bytes.
func (c *Calendar) AppendTicket(dst []byte, r *comporta.Request, b Booking) []byte {
	s := c.signers[0]
	var raw [ticketBytes]byte
	head := (*[ticketHead]byte)(raw[:])
	copy(head[:4], s.id[:])
	put48(head[4:], b.slot.due)
	binary.BigEndian.PutUint16(head[10:], uint16(b.slot.window))
	head[12] = byte(b.slot.attempt)
	if b.slot.has(slotBelieved) { // else it was booked as anonymous, whoever it was
		head[13] = byte(r.Client.Class) & ticketClass
	}
	if b.slot.flags&slotAged != 0 {
		head[13] |= ticketAged
	}
	if b.slot.flags&slotPlain != 0 {
		head[13] |= ticketPlain
	}
	mac := s.sum(head, r, &r.Client)
	copy(raw[ticketHead:], mac[:])
	dst = append(dst, ticketPrefix...)
	return base64.RawURLEncoding.AppendEncode(dst, raw[:])
}

// verify reads the ticket of r. What is not ours, not of this operation or too
// late to be of use counts as absent, and is counted.
func (c *Calendar) verify(at time.Time, r *comporta.Request) Ticket {
	now := at.UnixMilli()
	stats := &c.state.counters
	raw, ok := decodeTicket(r.Ticket)
	if !ok {
		stats.foreign.Add(1)
		return Ticket{}
	}
	head := (*[ticketHead]byte)(raw[:])
	known, genuine := false, false
	for i, s := range c.signers {
		if s.id == [4]byte(head[:4]) {
			client := r.Client
			if i > 0 && c.alias != nil {
				client = c.alias(at, i, r)
			}
			mac := s.sum(head, r, &client)
			known, genuine = true, genuine || hmac.Equal(mac[:], raw[ticketHead:])
		}
	}
	switch {
	case !known:
		stats.foreign.Add(1)
		return Ticket{}
	case !genuine:
		stats.forged.Add(1)
		return Ticket{}
	}
	t := readHead(head)
	if !t.slot.live(now) {
		stats.expired.Add(1)
		return Ticket{}
	}
	return t
}

func readHead(head *[ticketHead]byte) Ticket {
	t := Ticket{Authentic: true, Attempt: int(head[12]), Class: comporta.Class(head[13] & ticketClass)}
	t.slot = slot{
		due:     get48(head[4:]),
		window:  int64(binary.BigEndian.Uint16(head[10:])) & maxWindow,
		attempt: min(t.Attempt, maxAttempt),
	}
	if t.Class.Believed() {
		t.slot.flags |= slotBelieved
	}
	if head[13]&ticketAged != 0 {
		t.slot.flags |= slotAged
	}
	if head[13]&ticketPlain != 0 {
		t.slot.flags |= slotPlain
	}
	return t
}

// decodeTicket undoes the encoding, and is strict: one spelling per ticket.
func decodeTicket(v string) (raw [ticketBytes]byte, ok bool) {
	if len(v) != ticketLength || v[:len(ticketPrefix)] != ticketPrefix {
		return raw, false
	}
	var text [ticketLength - len(ticketPrefix)]byte
	copy(text[:], v[len(ticketPrefix):])
	n, err := base64.RawURLEncoding.Strict().Decode(raw[:], text[:])
	if err != nil || n != ticketBytes || raw[13]&ticketRest != 0 {
		return raw, false
	}
	return raw, true
}

func put48(b []byte, v int64) {
	for i := range 6 {
		b[i] = byte(v >> (40 - 8*i))
	}
}

func get48(b []byte) int64 {
	var v int64
	for i := range 6 {
		v = v<<8 | int64(b[i])
	}
	return v
}

// windowOf is how long after its instant a client is on time, in whole seconds.
func (c *Calendar) windowOf(wait time.Duration) int64 {
	w := max(c.grace, wait/10)
	return min(int64((w+time.Second-1)/time.Second), maxWindow)
}
