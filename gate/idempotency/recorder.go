package idempotency

import (
	"bufio"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/comporta/comporta/internal/retryafter"
	"github.com/comporta/comporta/store"
)

// Recorder is the ResponseWriter of a call: what passes through it is recorded,
// as far as it may be kept. It tells the call how it ended before the last byte of
// the answer leaves, so that a client who has its answer finds it recorded. A
// client that has left does not end the call: what is written on is recorded, and
// the next repeat collects it.
//
// It belongs to the goroutine of the handler.
type Recorder struct {
	http.ResponseWriter

	limit int
	end   func(complete bool) // called once
	// begins is called before the first byte of the body; nil: nobody wants to know.
	begins func()

	status    int // 0 until the head
	header    []byte
	trailers  []string // announced
	body      []byte
	size      int64
	length    int64 // declared; -1 unknown
	omitted   bool
	wait      time.Duration // until the service wants to be asked again; 0: it does not say; below: never
	gone      bool          // the client does not read any more
	ended     bool
	completed bool
}

// NewRecorder returns a Recorder in front of w that keeps bodies up to limit
// bytes. end is called once: before the last byte of the answer, or from Close.
func NewRecorder(w http.ResponseWriter, limit int, end func(complete bool)) *Recorder {
	return &Recorder{ResponseWriter: w, limit: limit, end: end, length: -1}
}

// Unwrap lets http.ResponseController reach what the Recorder does not change.
func (r *Recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Status is the final status; 0 while there is none.
func (r *Recorder) Status() int { return r.status }

// Completed reports whether the whole answer was written.
func (r *Recorder) Completed() bool { return r.completed }

// Answer is what was recorded. It may be kept.
func (r *Recorder) Answer() store.Answer {
	return store.Answer{Status: r.status, Header: r.header, Body: r.body, Omitted: r.omitted}
}

// WriteHeader implements http.ResponseWriter.
func (r *Recorder) WriteHeader(status int) {
	if r.status != 0 || status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		r.ResponseWriter.WriteHeader(status) // an answer yet to come, or one too many
		return
	}
	h := r.Header()
	r.status, r.wait = status, retryafter.WaitAt(time.Now(), h).Exact()
	if retryafter.Says(h) == retryafter.Stop {
		r.wait = -1
	}
	r.readPushback(h[retryafter.HeaderPushback])
	var fits bool
	if r.header, fits = AppendHeader(nil, status, h); !fits {
		r.omitted = true // a body is not what it was without its header
	}
	for _, line := range h["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			r.trailers = append(r.trailers, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	if vs := h["Content-Length"]; len(vs) == 1 {
		if n, err := strconv.ParseInt(vs[0], 10, 64); err == nil {
			r.length = n
		}
	}
	if status == http.StatusNoContent || status == http.StatusNotModified {
		r.length = 0
	}
	if r.length == 0 {
		r.settle(true)
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter. It reports no failure of the client's.
func (r *Recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if r.size == 0 && len(p) > 0 && r.begins != nil {
		r.begins()
	}
	r.size += int64(len(p))
	switch {
	case r.omitted:
	case len(r.body)+len(p) > r.limit:
		r.omit()
	default:
		r.body = append(r.body, p...)
	}
	if r.length >= 0 && r.size >= r.length {
		r.settle(true)
	}
	if !r.gone {
		_, err := r.ResponseWriter.Write(p)
		r.gone = err != nil
	}
	return len(p), nil
}

// FlushError flushes, for http.ResponseController.
func (r *Recorder) FlushError() error {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if !r.gone {
		return http.NewResponseController(r.ResponseWriter).Flush()
	}
	return nil
}

// Flush implements http.Flusher.
func (r *Recorder) Flush() {
	_ = r.FlushError() // http.Flusher has no place for the error; the next Write says it
}

// Hijack implements http.Hijacker. What is said on a connection that was taken over
// is no answer that could be given again, so that the operation is in doubt.
func (r *Recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.settle(false)
	}
	return conn, rw, err
}

// Close ends the recording when the handler has returned, or, with returned
// false, panicked.
func (r *Recorder) Close(returned bool) {
	if r.ended {
		return
	}
	if returned && r.status == 0 { // as net/http would
		if h := r.Header(); len(h["Content-Length"]) == 0 {
			h["Content-Length"] = []string{"0"}
		}
		r.WriteHeader(http.StatusOK)
	}
	if returned {
		r.readTrailers()
	}
	r.settle(returned && (r.length < 0 || r.size >= r.length))
}

func (r *Recorder) settle(complete bool) {
	if r.ended {
		return
	}
	r.ended, r.completed = true, complete
	r.end(complete)
}

// readTrailers adds to the header what comes after the body.
func (r *Recorder) readTrailers() {
	trailers := http.Header{}
	for name, vs := range r.Header() {
		if rest, ok := strings.CutPrefix(name, http.TrailerPrefix); ok { // as it was written, which may be in lower case
			trailers[http.TrailerPrefix+http.CanonicalHeaderKey(rest)] = vs
		}
	}
	for _, name := range r.trailers {
		if vs := r.Header()[name]; len(vs) > 0 {
			trailers[http.TrailerPrefix+name] = vs
		}
	}
	if len(trailers) == 0 {
		return
	}
	r.readPushback(trailers[http.TrailerPrefix+retryafter.HeaderPushback])
	var fits bool
	if r.header, fits = AppendHeader(r.header, r.status, trailers); !fits {
		r.omit()
	}
}

// readPushback takes in when a gRPC service wants to be asked again.
func (r *Recorder) readPushback(values []string) {
	if wait, said := ReadPushback(values); said {
		r.wait = wait
	}
}

// omit leaves the body out of what is recorded.
func (r *Recorder) omit() { r.body, r.omitted = nil, true }

// Ending reads a complete answer by its status; of a gRPC call, one without any is in
// doubt.
func (r *Recorder) Ending(p *Policy, grpc bool) Ending {
	if !grpc || r.status != http.StatusOK {
		return p.EndingOf(r.status)
	}
	if code, ok := GRPCStatus(r.header); ok {
		return p.EndingOfGRPC(code)
	}
	return Doubt
}

const grpcStatus = "Grpc-Status"

// GRPCStatus returns the status of a gRPC call in the recorded header of its answer,
// from the head or from behind the body.
func GRPCStatus(header []byte) (code int, ok bool) {
	h := ParseHeader(header)
	vs := h[http.TrailerPrefix+grpcStatus]
	if len(vs) == 0 {
		vs = h[grpcStatus]
	}
	if len(vs) == 0 {
		return 0, false
	}
	code, err := strconv.Atoi(vs[0])
	return code, err == nil
}
