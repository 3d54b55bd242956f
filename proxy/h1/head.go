package h1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// ErrMalformed is what an answer is, by errors.Is, that cannot be read, or could be
// read in two ways.
var ErrMalformed = errors.New("malformed answer")

// ErrTooLarge is what a head or a trailer is that is larger than Config.MaxHead.
var ErrTooLarge = errors.New("the head of the answer is too large")

func malformed(why string) error { return fmt.Errorf("%w: %s", ErrMalformed, why) }

// Field is a line of a head or of a trailer. Name is in the canonical spelling of
// net/http.
type Field struct{ Name, Value string }

// Head is the head of an answer. It belongs to its connection, and is valid until the
// next one is read there, and until Release.
type Head struct {
	Status int
	Fields []Field // in their order
	// Length is that of the body in bytes, -1 when its end will show it.
	Length int64
	// Chunked is set when trailers may follow the body.
	Chunked bool
	// Announced are the trailers that the head names, as it names them.
	Announced []string

	minor      int // of the version
	closes     bool
	keepsAlive bool
	lengths    []string // of Content-Length
	codings    []string // of Transfer-Encoding
}

// Interim reports whether the final answer is still to come.
func (h *Head) Interim() bool {
	return h.Status >= 100 && h.Status < 200 && h.Status != http.StatusSwitchingProtocols
}

// ReadHead reads the next head: an interim one, after which it is to be called
// again, or that of the answer, after which Read returns its body. bodiless says
// that the request was one whose answers have none (HEAD).
//
// After an error of the Guard it may be called again, and goes on where it was.
func (c *Conn) ReadHead(bodiless bool) (*Head, error) {
	text, err := c.headText(c.r)
	if err != nil {
		return nil, err
	}
	h := &c.head
	if err := h.parse(text); err != nil {
		return nil, err
	}
	if h.Interim() {
		return h, nil
	}
	c.keep = !h.closes && (h.minor > 0 || h.keepsAlive)
	return h, c.frame(h, bodiless)
}

// headText returns all lines up to the next empty one, and takes them out of the
// buffer. scanned is up to where no end can be.
func (c *Conn) headText(scanned int) (string, error) {
	scanned = max(scanned, c.r)
	for {
		if end := endOfHead(c.buffer[c.r:c.w], scanned-c.r); end > 0 {
			if end > c.pool.config.MaxHead {
				return "", ErrTooLarge
			}
			text := string(c.buffer[c.r : c.r+end])
			c.r += end
			return text, nil
		}
		if c.w-c.r > c.pool.config.MaxHead {
			return "", ErrTooLarge
		}
		scanned = max(c.w-3, c.r)
		if c.w == len(c.buffer) {
			scanned -= c.r
			c.grow()
		}
		if err := c.fill(); err != nil {
			if err == io.EOF && c.w > c.r { //nolint:errorlint // the bare value, by the contract of io.Reader
				err = io.ErrUnexpectedEOF
			}
			return "", err
		}
	}
}

// grow makes room for more of a head than the buffer has.
func (c *Conn) grow() {
	if c.r == 0 {
		larger := make([]byte, 2*len(c.buffer))
		c.w = copy(larger, c.buffer[:c.w])
		c.buffer = larger
		return
	}
	c.compact()
}

// endOfHead returns the length of a head with its empty line; 0 while it is not
// there. Before from there is no end.
func endOfHead(p []byte, from int) int {
	for i := from; ; {
		j := bytes.IndexByte(p[i:], '\n')
		if j < 0 {
			return 0
		}
		i += j + 1
		switch rest := p[i:]; {
		case len(rest) > 0 && rest[0] == '\n':
			return i + 1
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			return i + 2
		}
	}
}

// parse reads a head with its empty line.
func (h *Head) parse(text string) error {
	*h = Head{Fields: h.Fields[:0], Announced: h.Announced[:0], lengths: h.lengths[:0], codings: h.codings[:0]}
	line, rest := cutLine(text)
	if err := h.parseStatus(line); err != nil {
		return err
	}
	var err error
	if h.Fields, err = appendFields(h.Fields, rest); err != nil {
		return err
	}
	for i := range h.Fields {
		h.note(&h.Fields[i])
	}
	return nil
}

// forget drops what the head holds, but for the room.
func (h *Head) forget() {
	clear(h.Fields)
	clear(h.Announced)
	clear(h.lengths)
	clear(h.codings)
}

// cutLine returns the first line of text without its end, and what follows it.
func cutLine(text string) (line, rest string) {
	i := strings.IndexByte(text, '\n')
	if i < 0 {
		return text, ""
	}
	line, rest = text[:i], text[i+1:]
	if i > 0 && line[i-1] == '\r' {
		line = line[:i-1]
	}
	return line, rest
}

// parseStatus reads "HTTP/1.1 200 OK"; the reason may be missing.
func (h *Head) parseStatus(line string) error {
	const digits = len("HTTP/1.1 ")
	if len(line) < digits+3 || line[:7] != "HTTP/1." || line[7] != '0' && line[7] != '1' || line[8] != ' ' ||
		len(line) > digits+3 && line[digits+3] != ' ' {
		return malformed("it does not begin with the status of HTTP/1")
	}
	h.minor = int(line[7] - '0')
	for _, c := range []byte(line[digits : digits+3]) {
		if c < '0' || c > '9' {
			return malformed("its status is no number")
		}
		h.Status = 10*h.Status + int(c-'0')
	}
	if h.Status < 100 {
		return malformed("its status is below 100")
	}
	for i := digits + 3; i < len(line); i++ {
		if !valueByte[line[i]] {
			return malformed("there is a control character in its first line")
		}
	}
	return nil
}

// appendFields reads the lines of a head or a trailer up to the empty one.
func appendFields(fields []Field, text string) ([]Field, error) {
	for {
		var line string
		line, text = cutLine(text)
		if line == "" {
			return fields, nil
		}
		colon := strings.IndexByte(line, ':')
		if colon <= 0 {
			return fields, malformed("a line of its head has no name")
		}
		name := line[:colon]
		for i := range len(name) {
			if !tokenByte[name[i]] { // also a line that is folded, and a space before the colon
				return fields, malformed("the name of a field has a character that none may have")
			}
		}
		value := line[colon+1:]
		for i := range len(value) {
			if !valueByte[value[i]] {
				return fields, malformed("there is a control character in a field")
			}
		}
		fields = append(fields, Field{textproto.CanonicalMIMEHeaderKey(name), strings.Trim(value, " \t")})
	}
}

var tokenByte, valueByte = func() (token, value [256]bool) {
	for c := range 256 {
		value[c] = c >= ' ' && c != 0x7f || c == '\t'
		token[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c < 0x80 && strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return token, value
}()

// note keeps what says where the message ends.
func (h *Head) note(f *Field) {
	switch f.Name {
	case "Content-Length":
		h.lengths = append(h.lengths, f.Value)
	case "Transfer-Encoding":
		h.codings = append(h.codings, f.Value)
	case "Trailer":
		for name := range strings.SplitSeq(f.Value, ",") {
			if name = strings.TrimSpace(name); name != "" {
				h.Announced = append(h.Announced, textproto.CanonicalMIMEHeaderKey(name))
			}
		}
	case "Connection":
		for option := range strings.SplitSeq(f.Value, ",") {
			switch option = strings.TrimSpace(option); {
			case strings.EqualFold(option, "close"):
				h.closes = true
			case strings.EqualFold(option, "keep-alive"):
				h.keepsAlive = true
			}
		}
	}
}

// frame decides where the body ends (RFC 9112, 6.3), or that nobody can say.
func (c *Conn) frame(h *Head, bodiless bool) error {
	length, err := h.length()
	if err != nil {
		return err
	}
	switch {
	case h.Status == http.StatusSwitchingProtocols:
		c.body.kind, h.Length = bodyNone, 0
		c.keep = false // what comes next is no HTTP, whoever asked for it
	case bodiless, h.Status == http.StatusNoContent, h.Status == http.StatusNotModified:
		// A coding without a body may be followed by what somebody holds for one.
		c.keep = c.keep && (bodiless || len(h.codings) == 0) && (bodiless || h.Status == http.StatusNotModified || length <= 0)
		c.body.kind = bodyNone
		if h.Length = 0; bodiless {
			h.Length = max(length, 0)
		}
	case h.Chunked:
		c.body.kind, h.Length = bodyChunked, -1
	case length >= 0:
		c.body.kind, c.body.left, h.Length = bodyLength, length, length
	default:
		c.body.kind, h.Length = bodyToEnd, -1
		c.keep = false
	}
	return nil
}

// length reads the fields that say how long the body is; -1 if none says it.
func (h *Head) length() (int64, error) {
	switch n := len(h.codings); {
	case n == 0:
	case len(h.lengths) > 0:
		return 0, malformed("it has both Content-Length and Transfer-Encoding")
	case n > 1 || !strings.EqualFold(h.codings[0], "chunked"):
		return 0, malformed("its transfer coding is not chunked alone")
	case h.minor == 0:
		return 0, malformed("it is chunked, which HTTP/1.0 does not know")
	default:
		h.Chunked = true
		return -1, nil
	}
	if len(h.lengths) == 0 {
		return -1, nil
	}
	text := h.lengths[0]
	for _, other := range h.lengths[1:] {
		if other != text {
			return 0, malformed("it has two lengths that differ")
		}
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || text[0] == '+' {
		return 0, malformed("its Content-Length is no number")
	}
	return int64(n), nil
}
