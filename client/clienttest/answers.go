package clienttest

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/comporta/comporta"
)

// bulk is the body of big-bodies, in bytes: more than any socket holds.
const bulk = 4 << 20

// trickleEvery is the time between two bytes of slow-headers.
const trickleEvery = 100 * time.Millisecond

func busy(retryAfter string) func(*call, http.ResponseWriter) {
	return func(_ *call, w http.ResponseWriter) {
		if retryAfter != "" {
			w.Header().Set(comporta.HeaderRetryAfter, retryAfter)
		}
		http.Error(w, "busy", http.StatusServiceUnavailable)
	}
}

func bulky(_ *call, w http.ResponseWriter) {
	w.Header().Set("Content-Length", strconv.Itoa(bulk))
	w.WriteHeader(http.StatusServiceUnavailable)
	for chunk, left := bytes.Repeat([]byte("busy "), 4<<10), bulk; left > 0; {
		n, err := w.Write(chunk[:min(len(chunk), left)])
		if left -= n; err != nil {
			return // the client let go
		}
	}
}

func dated(c *call, w http.ResponseWriter) {
	w.Header().Set("Date", c.at.UTC().Format(http.TimeFormat))
	w.Header().Set(comporta.HeaderRetryAfter, c.notBefore.UTC().Format(http.TimeFormat))
	http.Error(w, "busy", http.StatusServiceUnavailable)
}

func hopeless(_ *call, w http.ResponseWriter) {
	w.Header().Set(comporta.HeaderShouldRetry, "false")
	document(w, http.StatusInternalServerError, `{"code":"invalid_state","retryable":false}`)
}

func inviting(_ *call, w http.ResponseWriter) {
	w.Header().Set(comporta.HeaderRetryAfter, "0")
	w.Header().Set(comporta.HeaderShouldRetry, "true")
	document(w, http.StatusServiceUnavailable, `{"code":"capacity_exhausted","retryable":true}`)
}

func document(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = fmt.Fprint(w, body) // who left does not read
}

// reset closes the connection with a RST instead of an answer.
func reset(_ *call, w http.ResponseWriter) {
	conn, err := hijack(w)
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the close is an orderly one, which is as good
	}
	_ = conn.Close() // there is nothing to be lost on it
}

func trickle(c *call, w http.ResponseWriter) {
	conn, err := hijack(w)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }() // as above
	ticker := time.NewTicker(trickleEvery)
	defer ticker.Stop()
	for text := []byte("HTTP/1.1 200 OK\r\nX-Wait: "); ; text = []byte("x") {
		if _, err := conn.Write(text); err != nil {
			return // the client has lost its patience
		}
		select {
		case <-c.closed:
			return
		case <-ticker.C:
		}
	}
}

func hijack(w http.ResponseWriter) (net.Conn, error) {
	conn, _, err := http.NewResponseController(w).Hijack()
	return conn, err
}
