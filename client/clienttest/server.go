package clienttest

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/comporta/comporta"
)

// maxCalls bounds what is remembered of single calls. All are counted.
const maxCalls = 100

// Server plays one scenario on loopback and counts. Its methods may be called
// from many goroutines.
type Server struct {
	scenario Scenario
	base     string
	http     http.Server
	served   sync.WaitGroup // Serve and the calls under way
	closed   chan struct{}  // closed by Close, so that slow answers end

	mu          sync.Mutex
	connections int
	count       int
	calls       []*call
	stray       string
}

// call is one request as it arrived; nothing in it changes after.
type call struct {
	at        time.Time
	method    string
	key       string
	notBefore time.Time // the instant that the answer named; zero is none
	closed    <-chan struct{}
}

// Measurement is what a server saw of a run, and what the runner knows of it.
type Measurement struct {
	Calls       int // that reached the scenario
	Connections int // opened, whether or not a call came over them
	// Stray is the path of a call outside the scenario, if there was one: the
	// client dropped the path of its base URL.
	Stray string

	Elapsed time.Duration // of the run; the runner sets it
	Ended   bool          // whether the limit ended the run; the runner sets it

	calls []call // the first hundred
}

// Start listens on a port of its own. The caller must close the server.
func Start(s Scenario) (*Server, error) {
	if s.answer == nil {
		return nil, errors.New("clienttest: the scenario has no answer; take one of Scenarios")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends at once
	if err != nil {
		return nil, fmt.Errorf("clienttest: %w", err)
	}
	v := &Server{scenario: s, closed: make(chan struct{})}
	v.base = (&url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/" + s.Name}).String()
	v.http = http.Server{
		Handler:           v,
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // clients that leave are the test
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				v.mu.Lock()
				v.connections++
				v.mu.Unlock()
			}
		},
	}
	v.served.Go(func() { _ = v.http.Serve(l) }) // ends with Close, and says so
	return v, nil
}

// URL is the base URL of the scenario; every path below it is the same.
func (v *Server) URL() string { return v.base }

// ServeHTTP counts a call and answers it.
func (v *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	root := "/" + v.scenario.Name
	if r.URL.Path != root && !strings.HasPrefix(r.URL.Path, root+"/") {
		v.mu.Lock()
		v.stray = r.URL.Path[:min(len(r.URL.Path), 100)]
		v.mu.Unlock()
		http.Error(w, "the scenario is in the path: keep the path of the base URL "+v.base, http.StatusNotFound)
		return
	}
	c := &call{at: time.Now(), method: r.Method, key: r.Header.Get(comporta.HeaderIdempotencyKey), closed: v.closed}
	if v.scenario.ahead > 0 {
		// Dates are whole seconds: the instant lies up to a second nearer by the
		// client's clock, and the whole way ahead by the answer's own Date.
		c.notBefore = c.at.Truncate(time.Second).Add(v.scenario.ahead)
	}
	if !v.enter(c) {
		return
	}
	defer v.served.Done()
	_, _ = io.CopyN(io.Discard, r.Body, bulk) // a body that is unread would reset the connection
	v.scenario.answer(c, w)
}

// enter counts a call, unless the server is closed.
func (v *Server) enter(c *call) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	select {
	case <-v.closed:
		return false
	default:
	}
	v.served.Add(1)
	v.count++
	if len(v.calls) < maxCalls {
		v.calls = append(v.calls, c)
	}
	return true
}

// Measure returns what has been seen so far.
func (v *Server) Measure() Measurement {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := Measurement{Calls: v.count, Connections: v.connections, Stray: v.stray, calls: make([]call, len(v.calls))}
	for i, c := range v.calls {
		m.calls[i] = *c
	}
	return m
}

// Close ends the server and its connections, and waits for what it started. Call
// it once.
func (v *Server) Close() error {
	v.mu.Lock()
	close(v.closed)
	v.mu.Unlock()
	err := v.http.Close()
	v.served.Wait()
	return err
}
