package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/comporta/comporta/proxy"
)

// A tunnel of which one side has ended goes on while the other says something, and not
// for ever when that is silent. Without an end it may be silent for as long as it likes.
func TestTunnelHalfClosed(t *testing.T) {
	const idle = 5 * time.Minute // proxy.halfClosedIdle
	for _, tt := range []struct {
		name      string
		byService bool          // it ends first
		first     time.Duration // both are silent for so long before
		words     int           // that the other says then, one each four minutes
		last      bool          // it ends after them
		lives     time.Duration // after the first end
	}{
		{name: "silent service", first: time.Hour, lives: idle},
		{name: "silent caller", byService: true, first: time.Hour, lives: idle},
		{name: "service that goes on", words: 100, last: true, lives: 400 * time.Minute},
		{name: "caller that goes on", byService: true, words: 100, last: true, lives: 400 * time.Minute},
		// It speaks last after 36 minutes: heard at 40, silent at 45.
		{name: "service that stops", words: 9, lives: 45 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var ends chan net.Conn // of the bubble
			switching := func(w http.ResponseWriter, _ *http.Request) {
				conn, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				_ = rw.Flush()
				ends <- conn
			}
			timed(t, proxy.Config{}, switching, func(t *testing.T, h *house) {
				ends = make(chan net.Conn, 1)
				caller, err := h.network.DialContext(t.Context(), "tcp", "gate")
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprint(caller, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				if res, err := http.ReadResponse(bufio.NewReader(caller), nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
					t.Fatalf("%v, %v", res, err)
				}
				ending, other := caller, <-ends
				if tt.byService {
					ending, other = other, ending
				}
				defer func() { _, _ = caller.Close(), other.Close() }()
				time.Sleep(tt.first)
				start := time.Now()
				_ = ending.(interface{ CloseWrite() error }).CloseWrite()
				if got, err := io.ReadAll(other); len(got) > 0 || err != nil { // the end is passed on at once
					t.Errorf("%q, %v", got, err)
				}
				go func() {
					for range tt.words {
						time.Sleep(4 * time.Minute)
						_, _ = io.WriteString(other, "x")
					}
					if tt.last {
						_ = other.(interface{ CloseWrite() error }).CloseWrite()
					}
				}()
				got, _ := io.ReadAll(ending)
				if took := time.Since(start); len(got) != tt.words || took != tt.lives {
					t.Errorf("%d words, over after %v", len(got), took)
				}
			})
		})
	}
}
