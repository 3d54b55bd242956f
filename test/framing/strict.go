package framing

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// field is a header field or a trailer field, as it was sent.
type field struct{ name, value string }

// arrival is a request as it reached the service.
type arrival struct {
	line     string
	fields   []field
	trailers []field
	body     []byte
	complete bool     // with its whole body
	early    bool     // answered as soon as its head was there
	faults   []string // what another reader might see otherwise
}

func (a *arrival) faultf(format string, args ...any) {
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

// values returns those of a field's name.
func (a *arrival) values(name string) []string {
	var all []string
	for _, f := range a.fields {
		if strings.EqualFold(f.name, name) {
			all = append(all, f.value)
		}
	}
	return all
}

// maxLine bounds a line of a message: nothing in the corpus comes near.
const maxLine = 1 << 20

// readLine reads up to a line feed and says what is wrong with the end.
func (a *arrival) readLine(r *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > maxLine {
			return "", err
		}
	}
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		a.faultf("the line %q ends in a bare line feed", line)
		text = bytes.TrimSuffix(line, []byte("\n"))
	}
	return string(text), nil
}

// readHead reads a request's head. Whatever the error, there is an arrival.
func readHead(r *bufio.Reader) (a *arrival, err error) {
	a = &arrival{}
	if a.line, err = a.readLine(r); err != nil {
		a.faultf("its head is cut off")
		return a, err
	}
	if parts := strings.Split(a.line, " "); len(parts) != 3 || !isToken(parts[0]) || parts[2] != "HTTP/1.1" || hasControl(parts[1]) {
		a.faultf("the first line %q is not method, target and HTTP/1.1", a.line)
	}
	if a.fields, err = a.readFields(r); err != nil {
		a.faultf("its head is cut off")
		return a, err
	}
	if n := len(a.values("Host")); n != 1 {
		a.faultf("it has %d Host fields", n)
	}
	return a, nil
}

// readFields reads fields up to an empty line.
func (a *arrival) readFields(r *bufio.Reader) ([]field, error) {
	var fields []field
	for {
		line, err := a.readLine(r)
		if err != nil || line == "" {
			return fields, err
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) {
			a.faultf("the line %q does not begin with a name", line)
		}
		if hasControl(value) {
			a.faultf("the field %q holds a control character", line)
		}
		fields = append(fields, field{name, strings.Trim(value, " \t")})
	}
}

// readBody reads what the framing fields announce. An error leaves the arrival
// incomplete.
func (a *arrival) readBody(r *bufio.Reader) error {
	lengths, codings := a.values("Content-Length"), a.values("Transfer-Encoding")
	switch {
	case len(lengths)+len(codings) > 1:
		a.faultf("it has more than one length: %q and %q", lengths, codings)
		return io.ErrUnexpectedEOF
	case len(codings) == 1:
		if codings[0] != "chunked" {
			a.faultf("its transfer coding is %q", codings[0])
			return io.ErrUnexpectedEOF
		}
		if err := a.readChunks(r); err != nil {
			return err
		}
	case len(lengths) == 1:
		n, err := strconv.ParseInt(lengths[0], 10, 32)
		if err != nil || strconv.FormatInt(n, 10) != lengths[0] {
			a.faultf("its length is %q", lengths[0])
			return io.ErrUnexpectedEOF
		}
		a.body = make([]byte, n)
		if got, err := io.ReadFull(r, a.body); err != nil {
			a.body = a.body[:got]
			return err
		}
	}
	a.complete = true
	return nil
}

func (a *arrival) readChunks(r *bufio.Reader) error {
	for {
		line, err := a.readLine(r)
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(line, 16, 24)
		if err != nil || strings.TrimLeft(line, "0123456789abcdefABCDEF") != "" {
			a.faultf("a chunk begins with %q", line)
			return io.ErrUnexpectedEOF
		}
		if n == 0 {
			a.trailers, err = a.readFields(r)
			return err
		}
		chunk := make([]byte, n)
		if _, err := io.ReadFull(r, chunk); err != nil {
			return err
		}
		a.body = append(a.body, chunk...)
		if end, err := a.readLine(r); err != nil || end != "" {
			a.faultf("a chunk of %d bytes goes on with %q", n, end)
			return io.ErrUnexpectedEOF
		}
	}
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

// hasControl reports a control character other than the tab.
func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
