package front

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// statusLines are made once, for the statuses that have a text.
var statusLines = func() (t [600]string) {
	for code := range t {
		if text := http.StatusText(code); text != "" {
			t[code] = "HTTP/1.1 " + strconv.Itoa(code) + " " + text + "\r\n"
		}
	}
	return t
}()

func appendStatus(b []byte, status int) []byte {
	if status < len(statusLines) && statusLines[status] != "" {
		return append(b, statusLines[status]...)
	}
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	return append(b, " \r\n"...)
}

// appendField adds the lines of a field. What would break the head is left out, or
// turned into spaces.
func appendField(b []byte, name string, values []string) []byte {
	if !validFieldName(name) {
		return b
	}
	for _, v := range values {
		b = append(b, name...)
		b = append(b, ": "...)
		from := len(b)
		b = append(b, v...)
		for i, c := range b[from:] {
			if c == '\r' || c == '\n' || c == 0 {
				b[from+i] = ' '
			}
		}
		b = append(b, "\r\n"...)
	}
	return b
}

func validFieldName(name string) bool {
	for i := range len(name) {
		if octets[name[i]]&octToken == 0 {
			return false
		}
	}
	return name != ""
}

// ofFraming reports whether a field is for this package to write.
func ofFraming(name string) bool {
	return name == "Content-Length" || name == "Transfer-Encoding"
}

// encodeHead writes the head into x.out, but for what appendFrame adds. The
// header may change from now on: for trailers.
func (r *response) encodeHead() {
	b := appendStatus(r.x.out[:0], r.status)
	dated := false
	for name, values := range r.header {
		switch name {
		case "Content-Length":
			if len(values) == 1 && !r.upgrade {
				if n, ok := decimal(values[0]); ok {
					r.length = n
				}
			}
			continue
		case "Transfer-Encoding":
			continue
		case "Connection":
			b = r.appendConnection(b, values)
			continue
		case "Trailer":
			r.announce(values)
		case "Date":
			dated = true
		default:
			if strings.HasPrefix(name, http.TrailerPrefix) {
				continue
			}
		}
		b = appendField(b, name, values)
	}
	if !dated {
		b = append(b, "Date: "...)
		b = append(b, r.x.c.s.date.at(r.x.now.Add(time.Since(r.x.now)))...)
		b = append(b, "\r\n"...)
	}
	r.x.out, r.head = b, len(b)
}

// appendConnection reads what the handler says about the connection, and passes
// on what is not for us.
func (r *response) appendConnection(b []byte, values []string) []byte {
	for _, v := range values {
		if hasToken(v, "close") {
			r.closes = true
		}
		if !strings.EqualFold(v, "close") && !strings.EqualFold(v, "keep-alive") {
			b = appendField(b, "Connection", []string{v})
		}
	}
	return b
}

// appendFrame adds the last lines of the head, which say where the answer ends.
func (r *response) appendFrame(b []byte) []byte {
	x := r.x
	switch {
	case r.framing == framedChunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case r.length >= 0 && r.status >= 200 && r.status != http.StatusNoContent:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, r.length, 10)
		b = append(b, "\r\n"...)
	}
	if x.req.Close || x.c.s.draining.Load() || !x.body.small() {
		r.closes = true
	}
	switch {
	case r.upgrade:
	case r.closes:
		b = append(b, "Connection: close\r\n"...)
	case x.req.ProtoMinor == 0:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	return append(b, "\r\n"...)
}

const hexDigits = "0123456789abcdef"

func appendHex(b []byte, n int) []byte {
	shift := 60
	for shift > 0 && n>>shift == 0 {
		shift -= 4
	}
	for ; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[n>>shift&15])
	}
	return b
}

func (r *response) announce(values []string) {
	for _, v := range values {
		for name := range strings.SplitSeq(v, ",") {
			if key := http.CanonicalHeaderKey(strings.Trim(name, " \t")); key != "" && !ofFraming(key) && key != "Trailer" {
				r.trailers = append(r.trailers, key)
			}
		}
	}
}

func (r *response) hasTrailers() bool {
	if len(r.trailers) > 0 {
		return true
	}
	for name := range r.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// appendTrailers adds the trailers: those that were announced, and those that
// carry http.TrailerPrefix.
func (r *response) appendTrailers(b []byte) []byte {
	for _, name := range r.trailers {
		b = appendField(b, name, r.header[name])
	}
	for name, values := range r.header {
		if key, ok := strings.CutPrefix(name, http.TrailerPrefix); ok && !ofFraming(key) {
			b = appendField(b, key, values)
		}
	}
	return b
}

// dateLine is the value of Date, made once a second.
type dateLine struct{ now atomic.Pointer[dated] }

type dated struct {
	second int64
	text   string
}

func (d *dateLine) at(now time.Time) string {
	second := now.Unix()
	if got := d.now.Load(); got != nil && got.second == second {
		return got.text
	}
	text := now.UTC().Format(http.TimeFormat)
	d.now.Store(&dated{second, text})
	return text
}
