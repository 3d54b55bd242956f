package overload

import (
	"net/http"
	"strconv"
	"time"

	"github.com/comporta/comporta"
)

func seconds(d time.Duration) int64 { return ceil(d, time.Second) }
func millis(d time.Duration) int64  { return ceil(d, time.Millisecond) }

// forget removes what an earlier hand wrote about a body or a wait that will now
// not be sent.
func forget(h http.Header) {
	for name := range h {
		switch name {
		case "Content-Encoding", "Content-Length", "Content-Range", "Content-Disposition",
			"Content-Language", "Etag", "Last-Modified", "Trailer", "Transfer-Encoding",
			comporta.HeaderRetryAfter, comporta.HeaderRetryAfterMs, comporta.HeaderRetryTicket,
			comporta.HeaderRetryPolicy:
			delete(h, name)
		}
	}
}

// span is a part of scratch.text.
type span struct{ from, to int }

func (s *scratch) digits(n int64) span {
	from := len(s.text)
	s.text = strconv.AppendInt(s.text, n, 10)
	return span{from, len(s.text)}
}

func (s *scratch) copy(b []byte) span {
	from := len(s.text)
	s.text = append(s.text, b...)
	return span{from, len(s.text)}
}

// head writes header lines. All values share one array, and all values made for
// this refusal share one string: two allocations, however many lines.
type head struct {
	h      http.Header
	values []string
	text   string
}

// maxLines is the most lines that a refusal sets; more would cost an allocation.
const maxLines = 14

func newHead(h http.Header, s *scratch) head {
	return head{h: h, values: make([]string, 0, maxLines), text: string(s.text)}
}

// set replaces a line. The slice has no spare room, so that a later Add to one
// line cannot write into the next.
func (d *head) set(name, value string) {
	n := len(d.values)
	d.values = append(d.values, value)
	d.h[name] = d.values[n : n+1 : n+1]
}

func (d *head) setSpan(name string, s span) { d.set(name, d.text[s.from:s.to]) }

// waits are the spans of what a refusal says about returning.
type waits struct {
	retryable        bool
	secs, ms, ticket span
}

func (s *scratch) waits(ref *Refusal) waits {
	wait := ref.wait()
	if wait <= 0 {
		return waits{}
	}
	return waits{true, s.digits(seconds(wait)), s.digits(millis(wait)), s.copy(ref.Ticket)}
}

// httpHead writes the header of an HTTP refusal.
func (wr *Writer) httpHead(h http.Header, r *http.Request, ref *Refusal, s *scratch, length int) {
	w := s.waits(ref)
	size := s.digits(int64(length))
	d := newHead(h, s)
	kind := "application/problem+json"
	if a := ref.Answer; a != nil {
		kind = a.ContentType
		if a.Encoding != "" {
			d.set("Content-Encoding", a.Encoding)
		}
	}
	if kind != "" {
		d.set("Content-Type", kind)
	}
	d.setSpan("Content-Length", size)
	wr.contract(&d, ref, w)
	if r.ProtoMajor == 1 && closes(ref.reason()) {
		d.set("Connection", "close")
	}
	wr.allow(&d, r, exposed)
}

// contract writes the lines that every refusal carries, in every protocol.
func (wr *Writer) contract(d *head, ref *Refusal, w waits) {
	d.set("Cache-Control", "no-store")
	if !ref.FromService {
		d.set(comporta.HeaderDecision, ref.code())
	}
	if w.retryable {
		d.setSpan(comporta.HeaderRetryAfter, w.secs)
		d.setSpan(comporta.HeaderRetryAfterMs, w.ms)
		d.set(comporta.HeaderShouldRetry, "true")
		if w.ticket.from < w.ticket.to {
			d.setSpan(comporta.HeaderRetryTicket, w.ticket)
		}
	} else {
		d.set(comporta.HeaderShouldRetry, "false")
	}
	if wr.policy != nil {
		if p := wr.policy(); p != "" {
			d.set(comporta.HeaderRetryPolicy, p)
		}
	}
}

// closes reports whether an HTTP/1 connection ends with the refusal: where its
// framing is in doubt, part of the request may still be unread, or the gateway
// wants the client to connect elsewhere. HTTP/2 resets the stream instead.
func closes(r comporta.Reason) bool {
	switch r {
	case comporta.MalformedRequest, comporta.RequestTimeout, comporta.BodyTooLarge,
		comporta.URITooLong, comporta.HeaderTooLarge, comporta.UnimplementedTransferCoding,
		comporta.Draining, comporta.ConnectionLimit:
		return true
	default:
		return false
	}
}
