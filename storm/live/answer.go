package live

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/comporta/comporta"
)

// answer is what a client learns from one attempt.
type answer struct {
	status int           // 0: no answer in time
	wait   time.Duration // what the server said; 0 = nothing
	stop   bool          // the server said that a repeat is of no use
	ticket string
}

func (a *answer) ok() bool { return a.status >= 200 && a.status < 400 }

// refused means turned away before any work.
func (a *answer) refused() bool {
	return a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests
}

// mostBody bounds what of a body is read so that the connection can be used again.
const mostBody = 64 << 10

// readAnswer takes what an obedient client would read, and closes the body.
func readAnswer(resp *http.Response) answer {
	h := resp.Header
	a := answer{
		status: resp.StatusCode, wait: waitOf(h), ticket: h.Get(comporta.HeaderRetryTicket),
		stop: h.Get(comporta.HeaderShouldRetry) == "false",
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, mostBody)); err != nil {
		a.status = 0
	}
	if err := resp.Body.Close(); err != nil {
		a.status = 0
	}
	return a
}

// waitOf prefers the exact form. Dates are not read: nothing here sends them.
func waitOf(h http.Header) time.Duration {
	if ms, err := strconv.ParseUint(h.Get(comporta.HeaderRetryAfterMs), 10, 31); err == nil {
		return time.Duration(ms) * time.Millisecond
	}
	if s, err := strconv.ParseUint(h.Get(comporta.HeaderRetryAfter), 10, 31); err == nil {
		return time.Duration(s) * time.Second
	}
	return 0
}
