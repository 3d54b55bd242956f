package gate

import (
	"errors"
	"hash/maphash"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/gate/idempotency"
)

// body stands between the transport and the service. Where a repeat can only be
// told by its body and that can matter, it reads the body ahead to digest it;
// otherwise it digests what passes, never delaying it, and files the sighting
// when the last byte has passed.
type body struct {
	io.ReadCloser // the transport's

	x        *exchange
	idle     time.Duration
	ahead    []byte // read ahead, and not yet given to the service
	aheadErr error  // what ended the reading ahead, other than the size
	reserved int64  // bytes taken from the budget of buffered bodies
	passing  *maphash.Hash
	sum      *idempotency.Sum // of a body under a key that was not read ahead; else nil

	got   atomic.Int64 // bytes that arrived
	whole atomic.Bool  // all of them did
	given atomic.Bool  // the minder gave it up

	// A service may read its body in a goroutine of its own, as http.Transport
	// does, while the answer is under way: what both sides touch is guarded.
	mu     sync.Mutex
	late   comporta.Sighting // filed at the end of the body
	filed  bool
	broken bool // the client's body failed: its fault, not the service's
}

func newBody(x *exchange) *body {
	if x.req.Body == nil || x.req.Body == http.NoBody || x.req.ContentLength == 0 {
		return nil
	}
	b := &body{ReadCloser: x.req.Body, x: x, idle: x.gate.limits.BodyIdle}
	if most := x.gate.limits.Body; most > 0 && x.req.ContentLength < 0 {
		b.ReadCloser = http.MaxBytesReader(x.ResponseWriter, b.ReadCloser, most)
	}
	return b
}

// read reads from the transport, for no longer than the limit of silence.
func (b *body) read(p []byte) (int, error) {
	rc := http.NewResponseController(b.x.ResponseWriter)
	if b.idle > 0 {
		// A transport without deadlines reads without the limit.
		_ = rc.SetReadDeadline(time.Now().Add(b.idle))
	}
	if b.given.Load() {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := b.ReadCloser.Read(p)
	b.got.Add(int64(n))
	if err != nil {
		b.whole.Store(true) // or as much of it as there will be
	}
	if b.idle > 0 && errors.Is(err, io.EOF) {
		// The next request has a limit of its own. After a failure the deadline
		// stays: net/http would wait without one for the rest.
		_ = rc.SetReadDeadline(time.Time{})
	}
	return n, err
}

// DigestBody implements comporta.BodyDigester. A client that waits for 100
// Continue is not asked for its body before it is admitted.
func (b *body) DigestBody() (uint64, bool) {
	g, size := b.x.gate, b.x.r.BodySize
	if size <= 0 || size > g.bodyLimit || b.reserved > 0 || len(b.x.req.Header["Expect"]) > 0 {
		return 0, false
	}
	if !b.readAhead(size) || !errors.Is(b.aheadErr, io.EOF) {
		return 0, false
	}
	return nonzero(maphash.Bytes(g.state.bodySeed, b.ahead)), true
}

// readAhead reads a body of a declared size into memory; false: there is no room.
// aheadErr is io.EOF when all of it has come.
func (b *body) readAhead(size int64) bool {
	g := b.x.gate
	if g.state.buffered.Add(size) > g.bufferedLimit {
		g.state.buffered.Add(-size)
		return false
	}
	b.reserved = size
	buf := make([]byte, size)
	n, err := io.ReadFull(readerFunc(b.read), buf)
	b.ahead, b.aheadErr = buf[:n], err
	if err == nil {
		b.aheadErr = io.EOF
	}
	return true
}

func nonzero(digest uint64) uint64 { return max(digest, 1) }

// admitted makes the body digest what passes, if its sighting is still to be filed.
func (b *body) admitted() {
	if b.reserved == 0 && b.x.r.Sighting.Ref == 0 && !b.x.d.exempt {
		b.passing = new(maphash.Hash)
		b.passing.SetSeed(b.x.gate.state.bodySeed)
	}
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if len(b.ahead) > 0 {
		n := copy(p, b.ahead)
		b.ahead = b.ahead[n:]
		return n, nil
	}
	if b.aheadErr != nil {
		if !errors.Is(b.aheadErr, io.EOF) {
			b.fail()
		}
		return 0, b.aheadErr
	}
	n, err := b.read(p)
	if b.sum != nil {
		b.sum.Read(p[:n], err)
	}
	if b.passing != nil && n > 0 {
		_, _ = b.passing.Write(p[:n]) // a hash takes everything
	}
	switch {
	case err == nil:
	case !errors.Is(err, io.EOF):
		b.fail()
	case b.passing != nil:
		b.file(nonzero(b.passing.Sum64()))
		b.passing = nil
	}
	return n, err
}

func (b *body) fail() {
	b.mu.Lock()
	b.broken = true
	b.mu.Unlock()
}

// file files the sighting of a body that has passed. It works on a copy: the
// exchange may be ending at this moment.
func (b *body) file(digest uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.filed {
		return
	}
	r := b.x.r
	b.x.gate.detector.FileAt(time.Now(), &r, digest)
	b.late, b.filed = r.Sighting, true
}

// settle takes over what was filed, for the last word on the request. After it
// nothing is filed any more.
func (b *body) settle() (broken bool) {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.filed && b.late.Ref != 0 {
		b.x.r.Sighting = b.late
	}
	b.filed = true
	return b.broken
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// release gives the buffered bytes back to the budget.
func (b *body) release() {
	if b.reserved > 0 {
		b.x.gate.state.buffered.Add(-b.reserved)
	}
}
