package front

import "bytes"

// Bounds of a chunked body, in bytes.
const (
	maxChunkLine    = 1 << 10 // the line of a chunk: its size and extensions
	maxChunkDigits  = 15      // a size stays within 60 bits
	usualChunkLine  = 10      // eight digits and CR LF
	maxChunkExtra   = 8 << 10 // what the lines of a body hold beyond the usual, together
	maxTrailerBytes = 8 << 10
	maxTrailers     = 32
)

// nextLine finds the line with which b begins. It returns its length without and
// with its end; 0 for the latter means that more is needed.
func nextLine(b []byte, limit int, tooLong *Fault) (line, whole int, f *Fault) {
	i := bytes.IndexByte(b, '\n')
	switch {
	case i < 0 && len(b) > limit, i > limit:
		return 0, 0, tooLong
	case i < 0:
		return 0, 0, nil
	case i == 0 || b[i-1] != '\r':
		return 0, 0, tooLong
	}
	return i - 1, i + 1, nil
}

// chunkSize reads the line of a chunk, without its end: hexadecimal digits, then
// nothing or extensions, which are passed over.
func chunkSize(line []byte) (size int64, ok bool) {
	digits := 0
	for digits < len(line) && octets[line[digits]]&octHex != 0 {
		size = size<<4 | int64(unhex(line[digits]))
		if digits++; digits > maxChunkDigits {
			return 0, false
		}
	}
	if digits == 0 {
		return 0, false
	}
	rest := line[digits:]
	return size, len(rest) == 0 || rest[0] == ';' && text(rest)
}

// unhex returns the value of a hexadecimal digit.
func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&0xdf - 'A' + 10
}

// outOfPlace reports whether a field must not come as a trailer: one of framing,
// routing, authentication or the body's form (RFC 9110, 6.5.1), or of those that
// only a proxy may say. name is canonical.
func outOfPlace(name []byte) bool {
	switch string(name) {
	case "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Host", "Connection", "Keep-Alive",
		"Proxy-Connection", "Upgrade", "Expect", "Authorization", "Proxy-Authorization", "Proxy-Authenticate",
		"Www-Authenticate", "Cookie", "Set-Cookie", "Content-Encoding", "Content-Type", "Content-Range",
		"Cache-Control", "Pragma", "Max-Forwards", "Range", "If-Match", "If-None-Match", "If-Modified-Since",
		"If-Unmodified-Since", "If-Range", "Forwarded", "X-Real-Ip", "Idempotency-Key":
		return true
	}
	return bytes.HasPrefix(name, []byte("X-Forwarded-")) || bytes.HasPrefix(name, []byte("Comporta-")) ||
		bytes.IndexByte(name, '_') >= 0
}
