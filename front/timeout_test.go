package front

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta/internal/memhttp"
)

// timed runs f in virtual time, with a Server on a network in memory.
func timed(t *testing.T, c Config, f func(t *testing.T, s *Server, dial func() net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		var network memhttp.Network
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		l, err := network.Listen("front")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		var conns []net.Conn
		f(t, s, func() net.Conn {
			nc, err := network.DialContext(t.Context(), "tcp", "front")
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, nc)
			return nc
		})
		for _, nc := range conns {
			_ = nc.Close()
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		s.Wait()
	})
}

// rest reads to the end, and tells how long that took.
func rest(c net.Conn) (text string, took time.Duration) {
	start := time.Now()
	b, _ := io.ReadAll(c)
	return string(b), time.Since(start)
}

var limited = Limits{HeaderTimeout: 5 * time.Second, Idle: time.Minute, BodyIdle: 30 * time.Second}

// cases/proxy.md E 39: a head that comes an octet a second is cut off in time, also
// where it could still become HTTP/2.
func TestCase_Proxy_E39_SlowHead(t *testing.T) {
	for _, text := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "PRIOR / HTTP/1.1\r\nHost: a\r\n\r\n"} {
		timed(t, Config{Handler: silent(t), H2C: true, Limits: limited}, func(t *testing.T, _ *Server, dial func() net.Conn) {
			c := dial()
			start := time.Now()
			go func() {
				for i := range len(text) {
					if _, err := c.Write([]byte(text[i : i+1])); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}()
			got, _ := rest(c)
			// Its answer is out after 5 s; then it may read for one second more.
			if took := time.Since(start); took < 5*time.Second || took > 7*time.Second {
				t.Errorf("cut after %v", took)
			}
			if !strings.HasPrefix(text, "PRI ") && status(got) != "408" {
				t.Errorf("%q", got)
			}
			time.Sleep(time.Minute)
		})
	}
}

// Silence ends a connection without a word, before and between requests.
func TestIdle(t *testing.T) {
	timed(t, Config{Handler: http.HandlerFunc(echo), Limits: limited}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		if got, took := rest(dial()); got != "" || took != 5*time.Second {
			t.Errorf("%q after %v", got, took)
		}
		c := dial()
		r := bufio.NewReader(c)
		for range 3 {
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if res, _ := answer(t, r, "GET"); res.StatusCode != 200 {
				t.Fatal(res)
			}
			time.Sleep(59 * time.Second)
		}
		if got, took := rest(c); got != "" || took != time.Second {
			t.Errorf("%q after %v", got, took)
		}
	})
}

// A request may take longer than any of the limits.
func TestLongRequest(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Hour)
		if err := r.Context().Err(); err != nil {
			t.Error(err)
		}
		echo(w, r)
	}
	timed(t, Config{Handler: http.HandlerFunc(slow), Limits: limited}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		c := dial()
		r := bufio.NewReader(c)
		for range 2 {
			_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
			if res, body := answer(t, r, "POST"); res.StatusCode != 200 || !strings.Contains(body, `"abc" <nil>`) {
				t.Fatal(res, body)
			}
			time.Sleep(30 * time.Second)
		}
	})
}

// cases/proxy.md E 39: a body of 1 KiB/s lives for five minutes, one that stands
// still dies.
func TestCase_Proxy_E39_SlowBodies(t *testing.T) {
	var errs chan error // of the bubble
	read := func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		errs <- err
	}
	send := func(c net.Conn, pieces int, every time.Duration) {
		_, _ = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", pieces<<10)
		for range pieces {
			time.Sleep(every)
			if _, err := c.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	}
	for _, tt := range []struct {
		name   string
		limits Limits
		pieces int
		every  time.Duration
		want   error
		after  time.Duration
	}{
		{"1 KiB/s", limited, 300, time.Second, nil, 300 * time.Second},
		{"just not idle", limited, 10, 29 * time.Second, nil, 290 * time.Second},
		{"idle", limited, 1, time.Hour, errBodyIdle, 30 * time.Second},
		{"at the rate", Limits{BodyRate: 1 << 10}, 300, time.Second, nil, 300 * time.Second},
		// At 5 s there are 2 KiB, which with the grace may take 7 s.
		{"below the rate", Limits{BodyRate: 1 << 10}, 300, 2500 * time.Millisecond, errBodySlow, 7 * time.Second},
		{"no rate", Limits{}, 10, time.Hour, nil, 10 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			timed(t, Config{Handler: http.HandlerFunc(read), Limits: tt.limits}, func(t *testing.T, _ *Server, dial func() net.Conn) {
				errs = make(chan error, 1)
				c := dial()
				start := time.Now()
				go send(c, tt.pieces, tt.every)
				err := <-errs
				if !errors.Is(err, tt.want) || time.Since(start) != tt.after {
					t.Errorf("%v after %v", err, time.Since(start))
				}
				if tt.want != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("no timeout")
				}
				_ = c.Close()
				time.Sleep(2 * time.Hour) // the sender ends
			})
		})
	}
}

// The time in which the handler does not read is not the client's.
func TestBodyRateCountsWaitingOnly(t *testing.T) {
	read := func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Hour)
		echo(w, r)
	}
	timed(t, Config{Handler: http.HandlerFunc(read), Limits: Limits{BodyRate: 1 << 20}}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		c := dial()
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
		go func() {
			time.Sleep(time.Hour + 4*time.Second)
			_, _ = io.WriteString(c, "abc")
		}()
		if _, body := answer(t, bufio.NewReader(c), "POST"); !strings.Contains(body, `"abc" <nil>`) {
			t.Error(body)
		}
	})
}

// A client that takes nothing of its answer is cut off, one that takes it slowly is
// not.
func TestWriteStall(t *testing.T) {
	var failed chan error // of the bubble
	write := func(w http.ResponseWriter, r *http.Request) {
		var err error
		for n := 0; n < 40 && err == nil; n++ {
			_, err = w.Write(make([]byte, 32<<10))
		}
		if (err != nil) != (r.Context().Err() != nil) {
			t.Errorf("%v, context: %v", err, r.Context().Err())
		}
		failed <- err
	}
	limits := Limits{WriteStall: 10 * time.Second}
	timed(t, Config{Handler: http.HandlerFunc(write), Limits: limits}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		failed = make(chan error, 1)
		start := time.Now()
		_, _ = io.WriteString(dial(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		err := <-failed
		if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took < 10*time.Second || took > 20*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		c := dial()
		start = time.Now()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		for b := make([]byte, 32<<10); ; time.Sleep(4 * time.Second) {
			select {
			case err := <-failed:
				if took := time.Since(start); err != nil || took < time.Minute {
					t.Errorf("%v after %v", err, took)
				}
				return
			default:
				_, _ = c.Read(b)
			}
		}
	})
}

// A lingering client is given a second, whatever it sends.
func TestLingerIsBounded(t *testing.T) {
	timed(t, Config{Handler: silent(t)}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		c := dial()
		_, _ = io.WriteString(c, "nonsense\r\n")
		start := time.Now()
		for {
			time.Sleep(100 * time.Millisecond)
			if _, err := c.Write([]byte("more")); err != nil {
				break
			}
		}
		if took := time.Since(start); took < lingerTime || took > lingerTime+200*time.Millisecond {
			t.Errorf("closed after %v", took)
		}
	})
}
