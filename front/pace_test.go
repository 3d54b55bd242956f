package front

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// second returns a client of HTTP/2 without TLS.
func second(dial func() net.Conn) *http.Client {
	t := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return dial(), nil },
		Protocols:   new(http.Protocols),
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: t}
}

// A large body at a low rate has earned more than a Duration holds, and is not late.
func TestTimeForABody(t *testing.T) {
	for _, tt := range []struct {
		got, rate int64
		want      time.Duration
	}{
		{0, 1, rateGrace},
		{1500, 1000, rateGrace + 1500*time.Millisecond},
		{10 << 30, 1, rateGrace + rateMost*time.Second},
		{math.MaxInt64, 1, rateGrace + rateMost*time.Second},
	} {
		if got := timeFor(tt.got, tt.rate); got != tt.want {
			t.Errorf("%d bytes at %d: %v, want %v", tt.got, tt.rate, got, tt.want)
		}
	}
}

// cases/proxy.md E 39, over HTTP/2: a body that is slower than the rate dies, and only
// the time in which it is awaited counts.
func TestCase_Proxy_E39_SlowBodiesOverHTTP2(t *testing.T) {
	var read chan error // of the bubble
	for _, tt := range []struct {
		name   string
		rate   int64
		kind   string        // Content-Type
		before time.Duration // the handler reads
		pieces int           // of 1 KiB
		every  time.Duration
		want   error
		after  time.Duration
	}{
		{name: "at the rate", rate: 1 << 10, pieces: 300, every: time.Second, after: 300 * time.Second},
		// At 5 s there are 2 KiB, which with the grace may take 7 s.
		{name: "below the rate", rate: 1 << 10, pieces: 300, every: 2500 * time.Millisecond, want: errBodySlow, after: 7 * time.Second},
		{name: "nothing", rate: 1 << 20, pieces: 1, every: 10 * time.Second, want: errBodySlow, after: 5 * time.Second},
		{name: "not awaited", rate: 1 << 20, before: time.Hour, pieces: 3, every: 20 * time.Minute, after: time.Hour},
		{name: "gRPC", rate: 1 << 20, kind: "application/grpc+proto", pieces: 3, every: time.Hour, after: 3 * time.Hour},
		{name: "no rate", pieces: 3, every: time.Hour, after: 3 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			handler := func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(tt.before)
				_, err := io.Copy(io.Discard, r.Body)
				read <- err
				w.WriteHeader(http.StatusTeapot)
			}
			timed(t, Config{Handler: http.HandlerFunc(handler), H2C: true, Limits: Limits{BodyRate: tt.rate}}, func(t *testing.T, _ *Server, dial func() net.Conn) {
				read = make(chan error, 1)
				client := second(dial)
				defer client.CloseIdleConnections()
				body, sending := io.Pipe()
				go func() {
					defer func() { _ = sending.Close() }()
					for range tt.pieces {
						time.Sleep(tt.every)
						if _, err := sending.Write(make([]byte, 1<<10)); err != nil {
							return
						}
					}
				}()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://front/", body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", tt.kind)
				start := time.Now()
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				if _ = res.Body.Close(); res.StatusCode != http.StatusTeapot {
					t.Error(res.Status)
				}
				err = <-read
				if took := time.Since(start); !errors.Is(err, tt.want) || took != tt.after {
					t.Errorf("%v after %v", err, took)
				}
				if tt.want != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("no timeout")
				}
				time.Sleep(time.Hour) // the sender ends
			})
		})
	}
}

// deadlines is a writer that tells of its deadlines.
type deadlines struct {
	http.ResponseWriter

	set func(time.Time)
}

func (d deadlines) SetReadDeadline(t time.Time) error {
	d.set(t)
	return nil
}

// Whoever reads on when the handler has returned, against the rules, is left to the
// server: nothing is asked of a writer that is somebody else's by now.
func TestPaceEndsWithTheHandler(t *testing.T) {
	for _, returns := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			body, sending := io.Pipe()
			asked, read := 0, make(chan error, 1)
			r := httptest.NewRequest(http.MethodPost, "/", body)
			w := deadlines{httptest.NewRecorder(), func(time.Time) { asked++ }}
			paced(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				go func(b io.Reader) {
					_, err := io.Copy(io.Discard, b)
					read <- err
				}(r.Body)
				time.Sleep(time.Second)
				if !returns {
					time.Sleep(time.Minute)
				}
			}), 1<<10).ServeHTTP(w, r)
			time.Sleep(time.Minute)
			if want := map[bool]int{false: 1, true: 0}[returns]; asked != want {
				t.Errorf("asked %d times, want %d", asked, want)
			}
			_ = sending.Close()
			if err := <-read; err != nil {
				t.Error(err)
			}
		})
	}
}
