package front

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errBodyIdle = fmt.Errorf("front: the body stands still: %w", os.ErrDeadlineExceeded)
	errBodySlow = fmt.Errorf("front: the body comes too slowly: %w", os.ErrDeadlineExceeded)
)

// body is the body of one request after another. Any one goroutine may read it.
type body struct {
	x      *exchange
	closed atomic.Bool // by the handler, or by its return

	mu      sync.Mutex
	chunked bool
	left    int64 // of the body, or of the chunk under way
	inChunk bool  // the end of a chunk is still to come
	extra   int   // what the lines of chunks hold beyond the usual
	err     error // io.EOF once it is whole
	got     int64
	waited  time.Duration // for the client
}

// begin makes b the body of a new request; length is -1 for chunked.
func (b *body) begin(length int64) {
	b.closed.Store(false)
	b.chunked, b.left = length < 0, max(length, 0)
	b.inChunk, b.extra, b.err, b.got, b.waited = false, 0, nil, 0, 0
	if length == 0 {
		b.err = io.EOF
	}
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if b.err == nil && len(p) > 0 {
		b.x.res.sendContinue()
	}
	n, err := b.read(p)
	if errors.Is(err, io.EOF) && n >= 0 && !b.closed.Load() && !b.x.watch.armed {
		b.x.watch.later()
	}
	return n, err
}

// Close implements io.Closer. What is unread is the server's to deal with.
func (b *body) Close() error {
	b.closed.Store(true)
	return nil
}

// read is Read for those who hold mu.
func (b *body) read(p []byte) (n int, err error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if b.left == 0 { // a chunk begins
		if b.err = b.nextChunk(); b.err != nil {
			return 0, b.err
		}
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err = b.take(p)
	b.left -= int64(n)
	switch {
	case err != nil:
		b.err = asBody(err)
	case b.left == 0 && !b.chunked:
		b.err = io.EOF
	}
	return n, b.err
}

// take reads of what there is, or waits. Large reads go past the buffer.
func (b *body) take(p []byte) (int, error) {
	in := &b.x.in
	if in.len() > 0 {
		return in.take(p), nil
	}
	if len(p) >= bufferSize/2 {
		return b.await(p)
	}
	if err := b.fill(); err != nil {
		return 0, err
	}
	return in.take(p), nil
}

// fill reads into the buffer.
func (b *body) fill() error {
	in := &b.x.in
	in.compact()
	n, err := b.await(in.free())
	in.to += n
	return err
}

// await reads from the connection, for no longer than a body may stand still, and
// no longer than its rate allows.
func (b *body) await(p []byte) (int, error) {
	x := b.x
	l, limits := x.c.link, &x.c.s.config.Limits
	if x.c.gone != nil {
		return 0, x.c.gone
	}
	if l.expired(x.now) {
		return 0, os.ErrDeadlineExceeded
	}
	cause := os.ErrDeadlineExceeded
	l.wait(0)
	var start time.Time
	if limits.BodyIdle > 0 || limits.BodyRate > 0 {
		start = time.Now()
		l.ends, cause = b.deadline(start, limits)
	}
	n, err := l.read(p)
	b.got += int64(n)
	if limits.BodyRate > 0 {
		b.waited += time.Since(start)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && !l.ends.IsZero() && !time.Now().Before(l.ends) {
		err = cause
	}
	if lost(err) {
		x.c.gone = err
		x.ctx.cancel()
	}
	return n, err
}

// deadline returns when a read that begins now must end, and what is wrong then.
func (b *body) deadline(now time.Time, limits *Limits) (ends time.Time, cause error) {
	if limits.BodyIdle > 0 {
		ends, cause = now.Add(limits.BodyIdle), errBodyIdle
	}
	if limits.BodyRate > 0 {
		if t := now.Add(timeFor(b.got, limits.BodyRate) - b.waited); ends.IsZero() || t.Before(ends) {
			ends, cause = t, errBodySlow
		}
	}
	return ends, cause
}

// nextChunk reads up to the data of the next chunk. At the last one it reads the
// trailers, and returns io.EOF.
func (b *body) nextChunk() error {
	if b.inChunk {
		b.inChunk = false
		for b.x.in.len() < 2 {
			if err := b.fill(); err != nil {
				return asBody(err)
			}
		}
		if string(b.x.in.bytes()[:2]) != "\r\n" {
			return errChunk
		}
		b.x.in.discard(2)
	}
	line, err := b.line(maxChunkLine, errChunk)
	if err != nil {
		return err
	}
	size, ok := chunkSize(line)
	if b.extra += max(len(line)+2-usualChunkLine, 0); !ok || b.extra > maxChunkExtra {
		return errChunk
	}
	if size == 0 {
		return b.trailers()
	}
	b.left, b.inChunk = size, true
	return nil
}

// line takes a line off the buffer. It is valid until the next read.
func (b *body) line(limit int, tooLong *Fault) ([]byte, error) {
	for {
		text := b.x.in.bytes()
		n, whole, f := nextLine(text, limit, tooLong)
		if f != nil {
			return nil, f
		}
		if whole > 0 {
			b.x.in.discard(whole)
			return text[:n], nil
		}
		if err := b.fill(); err != nil {
			return nil, asBody(err)
		}
	}
}

// trailers reads the trailers into the request's Trailer.
func (b *body) trailers() error {
	size := 0
	for count := 0; ; count++ {
		line, err := b.line(maxTrailerBytes, errTrailer)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return io.EOF
		}
		if size += len(line); size > maxTrailerBytes || count == maxTrailers {
			return errTrailer
		}
		f, fault := splitField(line, span{0, len(line)})
		if fault != nil || outOfPlace(f.name.in(line)) {
			return errTrailer
		}
		if b.x.req.Trailer == nil {
			b.x.req.Trailer = http.Header{}
		}
		b.x.req.Trailer.Add(string(f.name.in(line)), string(f.value.in(line)))
	}
}

// Bounds of what is read of a body that the handler left, to keep the connection.
const (
	drainSize = 64 << 10
	drainTime = 250 * time.Millisecond
)

// small reports whether what is unread is worth reading, as far as is known.
func (b *body) small() bool {
	if !b.mu.TryLock() {
		return false // somebody still reads
	}
	defer b.mu.Unlock()
	return b.err == io.EOF || b.err == nil && !b.x.res.expects.Load() && (b.chunked || b.left <= drainSize) //nolint:errorlint // our own value
}

// end takes the body from the handler. It reports whether the next request begins
// where reading stands, after reading a small rest.
func (b *body) end() (whole bool) {
	b.closed.Store(true)
	l := b.x.c.link
	if !b.mu.TryLock() {
		l.interrupt() // somebody still reads, against the rules
		b.mu.Lock()
		l.resume()
		b.err = http.ErrBodyReadAfterClose // where the next request begins, nobody knows
	}
	defer b.mu.Unlock()
	if b.err == nil && !b.x.res.closes && b.x.c.gone == nil && (b.chunked || b.left <= drainSize) {
		b.drain()
	}
	return b.err == io.EOF //nolint:errorlint // our own value
}

func (b *body) drain() {
	l := b.x.c.link
	l.setReadDeadline(time.Now().Add(drainTime))
	scrap := b.x.out[:cap(b.x.out)]
	for total := 0; total < drainSize && b.err == nil; {
		n, _ := b.read(scrap)
		total += n
	}
}
