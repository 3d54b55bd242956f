package front

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// rateGrace is how long a body may be slower than Limits.BodyRate at its beginning.
const rateGrace = 5 * time.Second

// rateMost bounds the seconds that a body can earn: with some more, as a large body
// earns at a low rate, a Duration would overflow, and the body be late at once.
const rateMost = 1e9

// timeFor returns how long may be waited for a body of which got bytes have come, at
// rate bytes a second.
func timeFor(got, rate int64) time.Duration {
	return rateGrace + time.Duration(min(float64(got)/float64(rate), rateMost)*float64(time.Second))
}

// paced ends bodies over HTTP/2 that are slower than rate, which the server of HTTP/2
// does not. Calls of gRPC are left alone: their bodies are conversations, in which
// silence means nothing.
func paced(next http.Handler, rate int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody || strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			next.ServeHTTP(w, r)
			return
		}
		b := &pacedBody{ReadCloser: r.Body, w: w, rate: rate}
		defer b.end()
		r.Body = b // the server has no use for it: it asks its stream
		next.ServeHTTP(w, r)
	})
}

// pacedBody bounds the waiting for a body. Its one timer is armed by the first read that
// waits, and looks for itself whether it came too early: a deadline for each read would
// cost a word to the connection's goroutine each time.
type pacedBody struct {
	io.ReadCloser // the stream's; one goroutine reads

	w    http.ResponseWriter
	rate int64

	mu     sync.Mutex
	timer  *time.Timer
	since  time.Time // a read waits; zero: none does
	got    int64
	waited time.Duration
	slow   bool // it was ended
	over   bool // the body has ended, or the handler, after which nothing may be asked of w
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	b.begin(time.Now())
	n, err := b.ReadCloser.Read(p)
	if b.done(time.Now(), n, err) && errors.Is(err, os.ErrDeadlineExceeded) {
		err = errBodySlow
	}
	return n, err
}

func (b *pacedBody) begin(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since = now
	if b.timer == nil && !b.over {
		b.timer = time.AfterFunc(timeFor(b.got, b.rate)-b.waited, b.look)
	}
}

// done takes the end of a read. It reports whether the body was ended as too slow.
func (b *pacedBody) done(now time.Time, n int, err error) (slow bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waited += now.Sub(b.since)
	b.since = time.Time{}
	b.got += int64(n)
	if err != nil {
		b.stop()
	}
	return b.slow
}

// look ends the read that waits for too long.
func (b *pacedBody) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
		return
	case b.since.IsZero():
		b.timer = nil // the next read arms another
		return
	}
	left := timeFor(b.got, b.rate) - b.waited - time.Since(b.since)
	if left > 0 {
		b.timer.Reset(left)
		return
	}
	b.slow = true
	_ = http.NewResponseController(b.w).SetReadDeadline(past) // the stream's writer knows deadlines
}

// end takes the body from the timer, when the handler returns.
func (b *pacedBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop()
}

// stop ends the timer; the caller holds mu.
func (b *pacedBody) stop() {
	b.over = true
	if b.timer != nil {
		b.timer.Stop()
	}
}
