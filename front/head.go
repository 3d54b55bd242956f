package front

import "bytes"

// span is a part of the buffer in which a head is read.
type span struct{ from, to int }

func (s span) of(text string) string { return text[s.from:s.to] }
func (s span) in(b []byte) []byte    { return b[s.from:s.to] }
func (s span) len() int              { return s.to - s.from }

// field is a line of the header.
type field struct{ name, value span }

// headLimits bound a head.
type headLimits struct {
	target int // bytes of the request target
	header int // bytes of all header lines
	fields int
}

// head is a request's head in the buffer: found line by line as it arrives, each
// octet looked at once. Names are put into canonical form in place.
type head struct {
	method, target, version span
	fields                  []field
	next                    int // where the next line begins
	lines                   int // where the header lines begin; 0 before the request line is whole
	seen                    int // up to here there is no end of line
}

func (h *head) reset() {
	*h = head{fields: h.fields[:0]}
}

// scan goes on in b, which begins with the head and has grown since. It reports
// whether the head is complete; h.next is its size then.
func (h *head) scan(b []byte, limits *headLimits) (complete bool, f *Fault) {
	for {
		i := bytes.IndexByte(b[h.seen:], '\n')
		if i < 0 {
			h.seen = len(b)
			return false, h.unfinished(b, limits)
		}
		end := h.seen + i // of the line, at its LF
		if end == h.next || b[end-1] != '\r' {
			return false, errLF
		}
		line := span{h.next, end - 1}
		h.next, h.seen = end+1, end+1
		switch {
		case h.lines == 0:
			if fault := h.requestLine(b, line, limits); fault != nil {
				return false, fault
			}
			h.lines = h.next
		case h.next-h.lines > limits.header:
			return false, errHeader
		case line.len() == 0:
			return true, nil
		default:
			if fault := h.line(b, line, limits); fault != nil {
				return false, fault
			}
		}
	}
}

// unfinished judges what is there of a line that has no end yet.
func (h *head) unfinished(b []byte, limits *headLimits) *Fault {
	if h.lines > 0 {
		if len(b)-h.lines > limits.header {
			return errHeader
		}
		return nil
	}
	if len(b) > 0 && octets[b[0]]&octToken == 0 {
		return errLine // no HTTP at all, a TLS handshake perhaps: do not wait for its end
	}
	if len(b) > limits.target+maxMethod+len("  HTTP/1.1\r\n") {
		return errURI
	}
	return nil
}

// maxMethod bounds a method, in bytes.
const maxMethod = 64

func (h *head) requestLine(b []byte, line span, limits *headLimits) *Fault {
	text := line.in(b)
	first := bytes.IndexByte(text, ' ')
	last := bytes.LastIndexByte(text, ' ')
	if first <= 0 || last == first || last == first+1 {
		return errLine
	}
	h.method = span{line.from, line.from + first}
	h.target = span{h.method.to + 1, line.from + last}
	h.version = span{h.target.to + 1, line.to}
	if !all(h.method.in(b), octToken) || h.method.len() > maxMethod {
		return errMethod
	}
	if f := version(h.version.in(b)); f != nil {
		return f
	}
	if h.target.len() > limits.target {
		return errURI
	}
	if target := h.target.in(b); !all(target, octTarget) {
		if bytes.IndexByte(target, '#') >= 0 {
			return errFragment
		}
		return errTarget
	}
	return nil
}

func version(b []byte) *Fault {
	switch string(b) {
	case "HTTP/1.1", "HTTP/1.0":
		return nil
	}
	if len(b) == len("HTTP/1.1") && string(b[:5]) == "HTTP/" && b[6] == '.' && b[5]-'0' <= 9 && b[7]-'0' <= 9 {
		return errVersion
	}
	return errLine
}

func (h *head) line(b []byte, line span, limits *headLimits) *Fault {
	if c := b[line.from]; c == ' ' || c == '\t' {
		return errFold
	}
	if len(h.fields) == limits.fields {
		return errFields
	}
	f, fault := splitField(b, line)
	if fault != nil {
		return fault
	}
	h.fields = append(h.fields, f)
	return nil
}

// splitField reads a line of a header or a trailer, without its end.
func splitField(b []byte, line span) (field, *Fault) {
	colon := bytes.IndexByte(line.in(b), ':')
	if colon < 0 {
		return field{}, errName
	}
	f := field{span{line.from, line.from + colon}, span{line.from + colon + 1, line.to}}
	if !canonicalName(f.name.in(b)) {
		return field{}, errName
	}
	if !text(f.value.in(b)) {
		return field{}, errControl
	}
	for f.value.from < f.value.to && blank(b[f.value.from]) {
		f.value.from++
	}
	for f.value.from < f.value.to && blank(b[f.value.to-1]) {
		f.value.to--
	}
	return f, nil
}

func blank(c byte) bool { return c == ' ' || c == '\t' }
