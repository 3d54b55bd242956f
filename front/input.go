package front

// bufferSize is what a buffer holds that is kept for reuse, in bytes. Nearly every
// head, and an answer of 1 KiB with its head, fits.
const bufferSize = 4 << 10

// input is what was read from a connection and not yet used.
type input struct {
	buf      []byte
	from, to int
}

func (in *input) len() int      { return in.to - in.from }
func (in *input) bytes() []byte { return in.buf[in.from:in.to] }
func (in *input) free() []byte  { return in.buf[in.to:] }
func (in *input) room() int     { return len(in.buf) - in.to }
func (in *input) discard(n int) { in.from += n }
func (in *input) take(p []byte) int {
	n := copy(p, in.bytes())
	in.from += n
	return n
}

// compact makes room behind what is unused, and grows the buffer when there is
// none: callers bound what they wait for.
func (in *input) compact() {
	switch {
	case in.from == in.to:
		in.from, in.to = 0, 0
	case in.from > 0 && in.room() < len(in.buf)/2:
		in.to = copy(in.buf, in.bytes())
		in.from = 0
	}
	if in.room() == 0 {
		grown := make([]byte, 2*len(in.buf))
		copy(grown, in.buf[:in.to])
		in.buf = grown
	}
}

// reset forgets everything, and a buffer that has grown.
func (in *input) reset() {
	in.from, in.to = 0, 0
	if len(in.buf) > bufferSize {
		in.buf = make([]byte, bufferSize)
	}
}
