package framing

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Trial plays cases against a proxy.
type Trial struct {
	Addr    string        // of the proxy; required
	Service *Service      // behind the proxy; nil judges the answers alone
	Slow    bool          // send byte by byte
	Timeout time.Duration // for an answer, and for a close; 0 is five seconds
}

// Result is what came of a case.
type Result struct {
	Case     Case
	Status   int // of the first final answer; StatusNone for none
	Probed   bool
	Closed   bool
	Silent   bool     // neither answer nor close within the time
	Problems []string // why it is wrong; none: it is right
}

// The requests that say nothing unusual.
const (
	cleanPrefix = "/framing-"
	probe       = "GET " + cleanPrefix + "probe HTTP/1.1\r\nHost: framing.example\r\n\r\n"
	probeLine   = "GET " + cleanPrefix + "probe HTTP/1.1"
	fenceLine   = "GET " + cleanPrefix + "fence HTTP/1.1"
)

// pace is the pause after each byte of a slow caller: enough for a proxy that
// waits for it to read that byte alone. Timers are too coarse for it.
const pace = 20 * time.Microsecond

func pause() {
	for start := time.Now(); time.Since(start) < pace; {
		runtime.Gosched()
	}
}

// Play plays one case. An error says that the proxy cannot be judged at all: it
// does not listen, or does not serve the fence.
func (t *Trial) Play(ctx context.Context, c *Case) (Result, error) {
	r := Result{Case: *c}
	if t.Service != nil {
		t.Service.begin(c.Reply)
	}
	if err := t.talk(ctx, c, &r); err != nil {
		return r, err
	}
	if err := t.fence(ctx); err != nil {
		return r, fmt.Errorf("after %s: %w", c.Name, err)
	}
	var seen *record
	hanging := false
	if t.Service != nil {
		var rec record
		rec, hanging = t.Service.settle(ctx, c.Unlink, 2*time.Second)
		seen = &rec
	}
	r.Problems = judge(c, &r, seen)
	if hanging {
		r.Problems = append(r.Problems, "a request to the service was begun and neither ended nor broken off")
	}
	return r, nil
}

func (t *Trial) timeout() time.Duration {
	if t.Timeout > 0 {
		return t.Timeout
	}
	return 5 * time.Second
}

func (t *Trial) dial(ctx context.Context) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", t.Addr)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(t.timeout()))
}

// talk sends the bytes and the probe, and reads the answers.
func (t *Trial) talk(ctx context.Context, c *Case, r *Result) error {
	conn, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		t.send(conn, append(append([]byte(nil), c.Send...), probe...))
	}()
	method, _, _ := strings.Cut(string(c.Send), " ")
	answers := bufio.NewReader(conn)
	for done := false; !done; {
		status, body, last, err := answer(answers, method)
		switch {
		case err != nil:
			r.Silent = errors.Is(err, errSilent)
			r.Closed, done = !r.Silent, true
		case r.Status != StatusNone && (t.Service == nil || body == probeLine):
			r.Probed, done = true, true
		case r.Status != StatusNone && status >= http.StatusBadRequest: // of what follows
			done = last && ends(answers, r)
		case r.Status != StatusNone:
			r.Problems = append(r.Problems, fmt.Sprintf("a second answer, %d with %q, is not that of the probe", status, body))
			done = true
		default:
			r.Status, method = status, http.MethodGet
			done = last && ends(answers, r)
		}
	}
	_ = conn.Close() // ends a write under way
	<-sent
	return nil
}

// ends reads to the end of a connection that was announced to close.
func ends(answers io.Reader, r *Result) bool {
	rest, err := io.ReadAll(answers)
	r.Silent = isTimeout(err)
	r.Closed = !r.Silent
	if len(rest) > 0 {
		r.Problems = append(r.Problems, fmt.Sprintf("after an answer that closes the connection came %q", rest))
	}
	return true
}

// singly is how many bytes at each end a slow caller sends one by one. What lies
// between is the filling of the few large cases, and goes in pieces.
const (
	singly = 1 << 10
	piece  = 1009
)

// send writes everything, or as much as the proxy takes before it hangs up.
func (t *Trial) send(w io.Writer, text []byte) {
	for from := 0; from < len(text); {
		to := len(text)
		switch {
		case !t.Slow:
		case from < singly || to-from <= singly:
			to = from + 1
		default:
			to = min(from+piece, len(text)-singly)
		}
		if _, err := w.Write(text[from:to]); err != nil {
			return
		}
		if from = to; t.Slow {
			pause()
		}
	}
}

// errSilent says that nothing came in time.
var errSilent = errors.New("framing: no answer in time")

// answer reads a final answer. last says that the connection closes after it.
func answer(r *bufio.Reader, method string) (status int, body string, last bool, err error) {
	for {
		res, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			if isTimeout(err) {
				return 0, "", false, errSilent
			}
			return 0, "", false, err
		}
		if res.StatusCode < http.StatusOK && res.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil && isTimeout(err) {
			return 0, "", false, errSilent
		}
		return res.StatusCode, string(text), res.Close || err != nil, nil
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// fence asks for something clean on a connection of its own.
func (t *Trial) fence(ctx context.Context) error {
	conn, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, fenceLine+"\r\nHost: framing.example\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	status, body, _, err := answer(bufio.NewReader(conn), http.MethodGet)
	if err != nil {
		return fmt.Errorf("a clean request is not answered: %w", err)
	}
	if status != http.StatusOK || t.Service != nil && body != fenceLine {
		return fmt.Errorf("a clean request is answered with %s and %q", strconv.Itoa(status), body)
	}
	return nil
}

// Fate says in words what was answered, and what became of the connection.
func (r *Result) Fate() string {
	switch {
	case r.Silent:
		return word(r.Status) + ", silence"
	case r.Probed:
		return word(r.Status) + ", kept"
	}
	return word(r.Status) + ", closed"
}
