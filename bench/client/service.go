package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// service is down, and counts who calls all the same.
type service struct {
	server             *httptest.Server
	calls, connections atomic.Int64
	arrived            sync.WaitGroup // of warm
	transport          *http.Transport
}

// failure is the body of every answer: too much to be in the reader's buffer by
// chance, so that whoever leaves it unread loses the connection.
var failure = bytes.Repeat([]byte("unavailable. "), 160)

// newService answers every call 503 with these header fields.
func newService(header ...string) *service {
	s := &service{transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		s.calls.Add(1)
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write(failure) // the client may be gone
	})
	mux.HandleFunc("/warm", func(http.ResponseWriter, *http.Request) { s.arrived.Done(); s.arrived.Wait() })
	s.server = httptest.NewUnstartedServer(mux)
	s.server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.server.Start()
	return s
}

// warm opens a connection for each of n workers: n calls that are all answered
// once the last has arrived. Otherwise net/http opens some more while the first
// ones are being opened, whatever the client on top of it does.
func (s *service) warm(n int) error {
	s.arrived.Add(n)
	failed := make(chan error, n)
	for range n {
		go func() {
			resp, err := get(context.Background(), s.below(), s.server.URL+"/warm")
			if err == nil {
				read(resp)
			}
			failed <- err
		}()
	}
	var err error
	for range n {
		err = errors.Join(err, <-failed)
	}
	return err
}

// below is what a client of the service stands on.
func (s *service) below() doer { return direct{s.transport} }

func (s *service) close() {
	s.transport.CloseIdleConnections()
	s.server.Close()
}

// read reads an answer to its end, as a caller does, and reports whether it was
// all there.
func read(resp *http.Response) bool {
	if resp == nil || resp.Body == nil {
		return false
	}
	body, err := io.ReadAll(resp.Body)
	closed := resp.Body.Close()
	return err == nil && closed == nil && bytes.Equal(body, failure)
}

// goroutinesAfter is how many goroutines there are more than before, once those
// that are about to end had the time to.
func goroutinesAfter(before int) int {
	left := 0
	for range 100 {
		if left = runtime.NumGoroutine() - before; left <= 0 {
			return 0
		}
		<-time.After(10 * time.Millisecond)
	}
	return left
}
