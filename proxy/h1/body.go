package h1

import (
	"bytes"
	"io"
	"strings"
)

// bodyKind says how the end of a body is found.
type bodyKind uint8

const (
	bodyNone bodyKind = iota
	bodyLength
	bodyChunked
	bodyToEnd // of the connection
)

// body is how far the body of the answer was read.
type body struct {
	kind    bodyKind
	left    int64 // of the length, or of the chunk
	inside  bool  // of a chunk: its line was read, its end was not
	ended   bool  // of chunks and of the connection: the end was read
	err     error // ends all reading
	trailer []Field
}

func (b *body) over() bool {
	switch b.kind {
	case bodyNone:
		return true
	case bodyLength:
		return b.left == 0
	default:
		return b.ended
	}
}

// maxChunkLine bounds the line before a chunk, extensions and all. It fits into the
// buffer.
const maxChunkLine = 1 << 10

// Trailer returns the fields after a chunked body that was read to its end. They
// are valid until Release.
func (c *Conn) Trailer() []Field { return c.body.trailer }

// Ready reports whether Read will return something without waiting for the
// upstream. It may err to the side of no.
func (c *Conn) Ready() bool {
	b, p := &c.body, c.buffer[c.r:c.w]
	switch {
	case b.err != nil, b.over():
		return true
	case b.kind != bodyChunked, b.left > 0:
		return len(p) > 0
	case b.inside && len(p) < len("\r\n"):
		return false
	case b.inside:
		p = p[len("\r\n"):]
	}
	line := bytes.IndexByte(p, '\n')
	if line < 0 {
		return false
	}
	rest := p[line+1:]
	if p[0] != '0' {
		return len(rest) > 0
	}
	return bytes.HasPrefix(rest, crlf) || endOfHead(rest, 0) > 0 // the last chunk, or what is written like it
}

var crlf = []byte("\r\n")

// Next returns what has already come of the body, without a copy; it is valid until
// the next call. It is for bodies that are not chunked: of those it returns nothing.
func (c *Conn) Next() []byte {
	n := int64(c.w - c.r)
	switch c.body.kind {
	case bodyLength:
		n = min(n, c.body.left)
		c.body.left -= n
	case bodyToEnd:
	default:
		return nil
	}
	p := c.buffer[c.r : c.r+int(n)]
	c.r += int(n)
	return p
}

// Read reads the body. It returns io.EOF at its end, and io.ErrUnexpectedEOF when
// the connection ends before it.
func (c *Conn) Read(p []byte) (n int, err error) {
	b := &c.body
	if b.err != nil {
		return 0, b.err
	}
	switch {
	case b.over():
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	case b.kind == bodyChunked:
		n, err = c.readChunks(p)
	default:
		n, err = c.readPlain(p)
	}
	if err == nil && b.over() {
		return n, io.EOF
	}
	if err != nil && err != io.EOF { //nolint:errorlint // the bare value, by the contract of io.Reader
		b.err = err
	}
	return n, err
}

// readPlain reads a body that is no more than its bytes, or the inside of a chunk.
func (c *Conn) readPlain(p []byte) (n int, err error) {
	b := &c.body
	if b.kind != bodyToEnd && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	switch {
	case c.r < c.w:
		n = copy(p, c.buffer[c.r:c.w])
		c.r += n
	case len(p) >= len(c.buffer):
		n, err = c.receive(p) // past the buffer
	default:
		c.compact()
		if err = c.fill(); err == nil {
			n = copy(p, c.buffer[c.r:c.w])
			c.r += n
		}
	}
	if b.kind != bodyToEnd {
		b.left -= int64(n)
		return n, unexpected(err)
	}
	if err == io.EOF { //nolint:errorlint // the bare value, by the contract of io.Reader
		b.ended = true
	}
	return n, err
}

func unexpected(err error) error {
	if err == io.EOF { //nolint:errorlint // the bare value, by the contract of io.Reader
		return io.ErrUnexpectedEOF
	}
	return err
}

// readChunks reads as many chunks as have come, and waits for the first only.
func (c *Conn) readChunks(p []byte) (n int, err error) {
	b := &c.body
	for n < len(p) {
		if n > 0 && !c.Ready() {
			return n, nil
		}
		if b.left == 0 {
			if err := c.nextChunk(); err != nil || b.ended {
				return n, err
			}
			continue
		}
		m, err := c.readPlain(p[n:])
		n += m
		if err != nil {
			return n, err
		}
	}
	// The end may have come with the last byte: who knows it need not ask again.
	for b.left == 0 && !b.ended && c.Ready() {
		if err := c.nextChunk(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// nextChunk reads the end of the chunk before, and the line of the next; after the
// last chunk, the trailer.
func (c *Conn) nextChunk() error {
	b := &c.body
	line, err := c.chunkLine()
	if err != nil {
		return err
	}
	if b.inside {
		b.inside = false
		if len(line) != 0 {
			return malformed("a chunk is longer than it said")
		}
		return nil
	}
	size, err := chunkSize(line)
	if err != nil {
		return err
	}
	if size > 0 {
		b.left, b.inside = size, true
		return nil
	}
	return c.readTrailer()
}

// chunkLine returns a line of the chunked coding without its end, which must be
// CRLF. It is valid until the next read.
func (c *Conn) chunkLine() ([]byte, error) {
	for {
		p := c.buffer[c.r:c.w]
		if i := bytes.IndexByte(p, '\n'); i >= 0 {
			if i == 0 || p[i-1] != '\r' {
				return nil, malformed("a line of its chunks ends without a carriage return")
			}
			c.r += i + 1
			return p[:i-1], nil
		}
		if len(p) > maxChunkLine || c.body.inside && len(p) > 1 {
			return nil, malformed("a chunk is longer than it said, or its line too long")
		}
		c.compact()
		if err := c.fill(); err != nil {
			return nil, unexpected(err)
		}
	}
}

// chunkSize reads the line of a chunk: hexadecimal digits, and perhaps extensions
// (RFC 9112, 7.1).
func chunkSize(line []byte) (int64, error) {
	const maxDigits = 15 // 60 bits
	if len(line) > maxChunkLine {
		return 0, malformed("the line of a chunk is too long")
	}
	var size int64
	i := 0
	for ; i < len(line); i++ {
		d, ok := hexDigit(line[i])
		if !ok {
			break
		}
		if size = size<<4 | d; i >= maxDigits {
			return 0, malformed("the size of a chunk is too large")
		}
	}
	rest := bytes.TrimLeft(line[i:], " \t")
	if i == 0 || len(rest) > 0 && rest[0] != ';' {
		return 0, malformed("the size of a chunk is no number")
	}
	for _, b := range rest {
		if !valueByte[b] {
			return 0, malformed("there is a control character in the line of a chunk")
		}
	}
	return size, nil
}

func hexDigit(c byte) (int64, bool) {
	switch {
	case c >= '0' && c <= '9':
		return int64(c - '0'), true
	case c >= 'a' && c <= 'f':
		return int64(c-'a') + 10, true
	case c >= 'A' && c <= 'F':
		return int64(c-'A') + 10, true
	}
	return 0, false
}

// readTrailer reads what follows the last chunk: fields, and an empty line.
func (c *Conn) readTrailer() error {
	b := &c.body
	for len(c.buffer[c.r:c.w]) < 2 {
		c.compact()
		if err := c.fill(); err != nil {
			return unexpected(err)
		}
	}
	if bytes.HasPrefix(c.buffer[c.r:c.w], crlf) {
		c.r += len(crlf)
		b.ended = true
		return nil
	}
	text, err := c.headText(c.r)
	if err != nil {
		return unexpected(err)
	}
	if strings.Count(text, "\n") != strings.Count(text, "\r\n") {
		return malformed("a line of its trailer ends without a carriage return")
	}
	if b.trailer, err = appendFields(b.trailer, text); err != nil {
		return err
	}
	b.ended = true
	return nil
}
