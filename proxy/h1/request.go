package h1

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strconv"
)

// ErrRequest is what a request is, by errors.Is, that cannot be written without
// becoming another: there is a line break or a NUL in it, or a space in its first line.
var ErrRequest = errors.New("h1: the head of the request has a line break, a NUL or a space where none may be")

// Request is the head of a request.
type Request struct {
	Method, Path, Host string
	// Query follows the path behind a question mark; Asks writes the mark also for an
	// empty one.
	Query string
	Asks  bool
	// Header is written with its names sorted. What frames the message is not taken
	// from it.
	Header http.Header
	// Length is that of the body; -1 sends it in chunks.
	Length int64
	// Trailer names the fields that will follow a body in chunks.
	Trailer http.Header
}

// framing reports whether AppendHead writes a field itself.
func framing(name string) bool {
	switch name {
	case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
		return true
	}
	return false
}

// AppendHead appends the head of a request to dst.
func AppendHead(dst []byte, r *Request) ([]byte, error) {
	start := len(dst)
	dst = append(dst, r.Method...)
	dst = append(dst, ' ')
	dst = append(dst, r.Path...)
	if r.Query != "" || r.Asks {
		dst = append(dst, '?')
		dst = append(dst, r.Query...)
	}
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, r.Host...)
	dst = append(dst, "\r\n"...)
	lines, spaces := 2, bytes.Count(dst[start:], space)

	var room [32]string // enough for nearly all; append goes on elsewhere
	names := room[:0]
	for name := range r.Header {
		if !framing(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range r.Header[name] {
			dst = appendField(dst, name, value)
			lines++
		}
	}
	switch {
	case r.Length > 0, r.Length == 0 && (r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch):
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, r.Length, 10)
		dst = append(dst, "\r\n"...)
		lines++
	case r.Length < 0:
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
		lines++
		for name := range r.Trailer {
			if TrailerFits(name) {
				dst = appendField(dst, "Trailer", name)
				lines++
			}
		}
	}
	dst = append(dst, "\r\n"...)
	// One look at the whole is cheaper than one at each value: whatever they hold, no
	// line may begin that was not meant.
	head := dst[start:]
	if n := lines + 1; spaces != requestSpaces || bytes.Count(head, newline) != n || bytes.Count(head, carriageReturn) != n || bytes.IndexByte(head, 0) >= 0 {
		return dst[:start], ErrRequest
	}
	return dst, nil
}

// requestSpaces are those of "GET / HTTP/1.1" and of "Host: h".
const requestSpaces = 3

var newline, carriageReturn, space = []byte{'\n'}, []byte{'\r'}, []byte{' '}

func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// ChunkRoom is how many bytes a chunk needs before its data, at most.
const ChunkRoom = 18

// Chunk makes a chunk in place: the data is p[ChunkRoom:ChunkRoom+n], and p has room
// for two bytes behind it.
func Chunk(p []byte, n int) []byte {
	var digits [ChunkRoom]byte
	size := append(strconv.AppendInt(digits[:0], int64(n), 16), "\r\n"...)
	start := ChunkRoom - len(size)
	copy(p[start:], size)
	end := ChunkRoom + n
	copy(p[end:end+2], "\r\n")
	return p[start : end+2]
}

// AppendLastChunk appends the end of a body in chunks, with its trailer. Fields that
// no trailer may have are left out.
func AppendLastChunk(dst []byte, trailer http.Header) ([]byte, error) {
	start, lines := len(dst), 2
	dst = append(dst, "0\r\n"...)
	for name, values := range trailer {
		if !TrailerFits(name) {
			continue
		}
		for _, value := range values {
			dst = appendField(dst, name, value)
			lines++
		}
	}
	dst = append(dst, "\r\n"...)
	if end := dst[start:]; bytes.Count(end, newline) != lines || bytes.Count(end, carriageReturn) != lines || bytes.IndexByte(end, 0) >= 0 {
		return dst[:start], ErrRequest
	}
	return dst, nil
}

// TrailerFits reports whether a trailer may have a field of that name: not one that
// frames the message, routes it or belongs to its connection (RFC 9110, 6.5.1).
func TrailerFits(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "", "Transfer-Encoding", "Content-Length", "Host", "Trailer", "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Upgrade",
		"Content-Encoding", "Content-Type", "Content-Range", "Authorization", "Set-Cookie":
		return false
	}
	return true
}
