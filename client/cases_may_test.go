package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/retry"
	"github.com/comporta/comporta/internal/memhttp"
)

// Part B of cases/client.md: what may be repeated.

func TestCase_Client_B1_PostWithoutKey(t *testing.T) {
	run(t, client.Config{}, status(503), func(b *bench) {
		resp, body, err := b.do(request(b.t, b.t.Context(), "POST", strings.NewReader("order")))
		if err != nil || body != "answer" || client.Report(resp).Reason != retry.ReasonNotIdempotent {
			b.t.Errorf("%q %v %+v", body, err, client.Report(resp))
		}
		b.expect(1)
	})
	// The gateway knows that the service has not seen it.
	run(t, client.Config{}, status(503, "X-Should-Retry", "true", "Comporta-Decision", "capacity_exhausted", "Retry-After", "1"), func(b *bench) {
		if _, _, err := b.do(request(b.t, b.t.Context(), "POST", strings.NewReader("order"))); err != nil {
			b.t.Error(err)
		}
		b.expect(4)
	})
}

func TestCase_Client_B2_AutoKey(t *testing.T) {
	run(t, client.Config{AutoKey: true}, status(503), func(b *bench) {
		keys := map[string]int{}
		for range 2 {
			if _, _, err := b.do(request(b.t, b.t.Context(), "POST", strings.NewReader("order"))); err != nil {
				b.t.Error(err)
			}
		}
		if _, _, err := b.get(); err != nil {
			b.t.Error(err)
		}
		b.expect(12)
		for _, got := range b.service.got {
			keys[got.header.Get("Idempotency-Key")]++
			if got.method == "POST" && got.body != "order" {
				b.t.Errorf("body %q", got.body)
			}
		}
		if len(keys) != 3 || keys[""] != 4 {
			b.t.Errorf("keys %v: want one for each of two POSTs, none for a GET", keys)
		}
	})
}

func TestCase_Client_B3_CallersKeyIsKept(t *testing.T) {
	for _, auto := range []bool{false, true} {
		run(t, client.Config{AutoKey: auto}, status(503), func(b *bench) {
			req := request(b.t, b.t.Context(), "POST", strings.NewReader("order"), "Idempotency-Key", `"mine"`)
			if _, _, err := b.do(req); err != nil {
				b.t.Error(err)
			}
			b.expect(4)
			for _, got := range b.service.got {
				if k := got.header["Idempotency-Key"]; len(k) != 1 || k[0] != `"mine"` {
					b.t.Errorf("key %q", k)
				}
			}
		})
	}
}

func TestCase_Client_B4_Conflict(t *testing.T) {
	for _, c := range []struct {
		code  int
		key   string
		calls int
	}{{409, "k", 4}, {422, "k", 1}, {409, "", 1}} {
		run(t, client.Config{}, status(c.code), func(b *bench) {
			req := request(b.t, b.t.Context(), "PUT", nil)
			if c.key != "" {
				req.Header.Set("Idempotency-Key", c.key)
			}
			if _, _, err := b.do(req); err != nil {
				b.t.Error(err)
			}
			b.expect(c.calls)
		})
	}
}

func TestCase_Client_B5_B7_ServerSaysStop(t *testing.T) {
	for _, c := range []struct {
		code   int
		body   string
		header []string
	}{
		{500, `{"retryable":false,"detail":"this order breaks us"}`, nil},
		{500, `{"erro":"x","repetivel":false}`, nil},
		{503, `{"retryable":false}`, []string{"Retry-After", "5"}},
		{503, `{}`, []string{"X-Should-Retry", "false", "Retry-After", "5"}},
	} {
		answer := func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			reply(w, c.code, c.body, c.header...)
		}
		run(t, client.Config{}, answer, func(b *bench) {
			resp, body, err := b.get()
			if err != nil || body != c.body || client.Report(resp).Reason != retry.ReasonServer {
				b.t.Errorf("%q %v", body, err)
			}
			b.expect(1)
		})
	}
}

func TestCase_Client_B8_ServerCannotRaiseACeiling(t *testing.T) {
	answer := func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		reply(w, 429, `{"retryable":true}`)
	}
	run(t, client.Config{}, answer, func(b *bench) {
		resp, _, err := b.get()
		if err != nil || client.Report(resp).Reason != retry.ReasonAttempts {
			b.t.Error(err)
		}
		b.expect(4)
	})
}

func TestCase_Client_B10_Deterministic(t *testing.T) {
	for _, code := range []int{400, 401, 403, 404, 422, 501, 505} {
		run(t, client.Config{}, status(code), func(b *bench) {
			resp, body, err := b.get()
			if err != nil || body != "answer" || client.Report(resp).Reason != retry.ReasonPermanent {
				b.t.Errorf("%d: %q %v", code, body, err)
			}
			b.expect(1)
		})
	}
}

// A connection that was refused may be tried again for any request; one that
// broke after bytes were written may not.
func TestCase_Client_B12_NothingWritten(t *testing.T) {
	run(t, client.Config{}, status(200), func(b *bench) {
		dials := 0
		b.wire.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials++; dials < 3 {
				addr = "nobody"
			}
			return b.network.DialContext(ctx, network, addr)
		}
		resp, _, err := b.do(request(b.t, b.t.Context(), "POST", strings.NewReader("order")))
		if err != nil || client.Report(resp).Attempts != 3 || b.service.got[0].body != "order" {
			b.t.Errorf("%v", err)
		}
		b.expect(1)
	})
	// A dial that fails in a way of its own is told by the transport's trace.
	run(t, client.Config{}, status(200), func(b *bench) {
		dials := 0
		b.wire.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials++; dials < 3 {
				return nil, errors.New("the tunnel is down")
			}
			return b.network.DialContext(ctx, network, addr)
		}
		if _, _, err := b.do(request(b.t, b.t.Context(), "POST", strings.NewReader("order"))); err != nil {
			b.t.Errorf("%v", err)
		}
		b.expect(1)
	})
	reset := func(_ int, w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }
	run(t, client.Config{}, reset, func(b *bench) {
		_, _, err := b.do(request(b.t, b.t.Context(), "POST", strings.NewReader("order")))
		if gave, ok := errors.AsType[*retry.Error](err); !ok || gave.Report.Reason != retry.ReasonNotIdempotent {
			b.t.Errorf("%v", err)
		}
		b.expect(1)
	})
	run(t, client.Config{}, reset, func(b *bench) {
		_, _, err := b.get()
		if gave, ok := errors.AsType[*retry.Error](err); !ok || gave.Report.Reason != retry.ReasonAttempts {
			b.t.Errorf("%v", err)
		}
		b.expect(4)
	})
}

// A non-idempotent request is repeated when the caller can find out that the
// first one was not done.
func TestCheckBeforeTheRepeat(t *testing.T) {
	for _, c := range []struct {
		fate   retry.Fate
		calls  int
		reason retry.Reason
	}{{retry.FateNotDone, 2, retry.ReasonNone}, {retry.FateDone, 1, retry.ReasonDone}, {retry.FateUnknown, 1, retry.ReasonNotIdempotent}} {
		run(t, client.Config{}, then(500, 200), func(b *bench) {
			asked := 0
			ctx := client.WithCheck(b.t.Context(), func(context.Context) (retry.Fate, error) { asked++; return c.fate, nil })
			resp, _, err := b.do(request(b.t, ctx, "POST", strings.NewReader("order")))
			reason := client.Report(resp).Reason
			if gave, ok := errors.AsType[*retry.Error](err); ok {
				reason = gave.Report.Reason
			}
			if asked != 1 || reason != c.reason || (err == nil) != (c.reason == retry.ReasonNone) {
				b.t.Errorf("asked %d times, %v: %v", asked, reason, err)
			}
			b.expect(c.calls)
		})
	}
}

// One test for each phase: the attempt's share of the time covers it.
func TestDeadlineCoversEveryPhase(t *testing.T) {
	const total = 10 * time.Second
	// Package net reads the system's resolver configuration once, and must not do
	// so inside of a bubble: what it keeps would belong to that one.
	warm := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }}
	if _, err := warm.LookupHost(t.Context(), "service.example"); err == nil {
		t.Fatal("a name was found without a server")
	}
	config := client.Config{Policy: retry.Policy{Total: total}}
	hangs := func(b *bench) {
		b.t.Helper()
		start := time.Now()
		_, _, err := b.get()
		if took := time.Since(start); err == nil || took > total+time.Millisecond || took < total/2 {
			b.t.Errorf("%v after %v, want a failure within %v", err, took, total)
		}
		gave, ok := errors.AsType[*retry.Error](err)
		if !ok || gave.Report.Attempts < 2 || !gave.Timeout() {
			b.t.Errorf("%v: want repeats of an attempt that timed out", err)
		}
	}
	forever := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	phases := map[string]func(b *bench){
		"connect": func(b *bench) { b.wire.DialContext = forever; hangs(b) },
		"dns": func(b *bench) {
			silent, err := b.network.Listen("dns")
			if err != nil {
				b.t.Fatal(err)
			}
			resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return b.network.DialContext(ctx, network, "dns")
			}}
			dialer := &net.Dialer{Resolver: resolver}
			b.wire.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, "service.example:80")
			}
			hangs(b)
			<-time.After(time.Hour) // look-ups that are shared go on by themselves until they time out
			_ = silent.Close()
		},
		"tls": func(b *bench) {
			silent, err := b.network.Listen("silent:443")
			if err != nil {
				b.t.Fatal(err)
			}
			b.wire.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return b.network.DialContext(ctx, network, "silent:443")
			}
			b.wire.TLSHandshakeTimeout = 0
			b.secure = true
			hangs(b)
			_ = silent.Close()
		},
		"pool": func(b *bench) {
			b.wire.MaxConnsPerHost = 1
			ctx, cancel := context.WithCancel(b.t.Context())
			occupied := make(chan struct{})
			b.service.answer = func(n int, _ http.ResponseWriter, r *http.Request) { close(occupied); <-r.Context().Done() }
			left := make(chan struct{})
			go func() {
				defer close(left)
				bare := &http.Client{Transport: b.wire}
				resp, err := bare.Do(request(b.t, ctx, "GET", nil))
				if err == nil {
					_ = resp.Body.Close()
				}
			}()
			<-occupied
			hangs(b)
			cancel()
			<-left
		},
		"send": func(b *bench) {
			deaf, err := b.network.Listen("deaf") // accepts in the backlog and never reads
			if err != nil {
				b.t.Fatal(err)
			}
			b.wire.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return b.network.DialContext(ctx, network, "deaf")
			}
			start := time.Now()
			_, _, err = b.do(request(b.t, b.t.Context(), "PUT", strings.NewReader(strings.Repeat("x", 4*memhttp.BufferSize))))
			if took := time.Since(start); err == nil || took > total+time.Millisecond || took < total/2 {
				b.t.Errorf("%v after %v", err, took)
			}
			_ = deaf.Close()
		},
		"read": func(b *bench) {
			b.service.answer = func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
			hangs(b)
		},
	}
	for name, phase := range phases {
		t.Run(name, func(t *testing.T) { run(t, config, status(200), phase) })
	}
}

// What cannot be repeated once it has a connection gets all the time with it; the
// way to the connection leaves some for another try.
func TestTimeOfWhatIsNotRepeated(t *testing.T) {
	post := func(b *bench) (*http.Response, error) {
		resp, _, err := b.do(request(b.t, b.t.Context(), "POST", strings.NewReader("order")))
		return resp, err
	}
	slow := func(d time.Duration) func(int, http.ResponseWriter, *http.Request) {
		return func(_ int, w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(d):
			case <-r.Context().Done():
			}
		}
	}
	run(t, client.Config{}, slow(19*time.Second), func(b *bench) {
		start := time.Now()
		if _, err := post(b); err != nil || time.Since(start) != 19*time.Second {
			b.t.Errorf("%v after %v", err, time.Since(start))
		}
		if got := b.service.got[0].header.Get("Request-Timeout-Ms"); got != "20000" {
			b.t.Errorf("says that it waits %s ms", got)
		}
		start = time.Now() // on a connection that was used before
		if _, err := post(b); err != nil || time.Since(start) != 19*time.Second {
			b.t.Errorf("%v after %v", err, time.Since(start))
		}
	})
	run(t, client.Config{}, slow(time.Hour), func(b *bench) {
		start := time.Now()
		_, err := post(b)
		if gave, ok := errors.AsType[*retry.Error](err); !ok || !gave.Timeout() || gave.Report.Attempts != 1 || time.Since(start) != 20*time.Second {
			b.t.Errorf("%v after %v", err, time.Since(start))
		}
	})
	run(t, client.Config{}, slow(6*time.Second), func(b *bench) {
		dial := b.wire.DialContext
		var dials atomic.Int32
		b.wire.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1) == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx, network, address)
		}
		start := time.Now()
		resp, err := post(b)
		if took := time.Since(start); err != nil || client.Report(resp).Attempts != 2 || took < 18*time.Second || took > 20*time.Second {
			b.t.Errorf("%v after %v: want 12 s for the first connection, and another try", err, took)
		}
	})
}

// A Check that hangs ends with the operation.
func TestCheckHasTheTimeOfTheWhole(t *testing.T) {
	run(t, client.Config{}, status(503), func(b *bench) {
		ctx := client.WithCheck(b.t.Context(), func(ctx context.Context) (retry.Fate, error) {
			<-ctx.Done()
			return retry.FateNotDone, ctx.Err()
		})
		start := time.Now()
		_, _, err := b.do(request(b.t, ctx, "POST", strings.NewReader("x")))
		if gave, ok := errors.AsType[*retry.Error](err); !ok || gave.Report.Reason != retry.ReasonNotIdempotent || time.Since(start) != retry.DefaultTotal {
			b.t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// The body of a good answer has until Total, and is cut then.
func TestTotalCoversTheBody(t *testing.T) {
	answer := func(_ int, w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, "begin")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	run(t, client.Config{}, answer, func(b *bench) {
		start := time.Now()
		resp, err := b.http.Do(request(b.t, b.t.Context(), "GET", nil))
		if err != nil {
			b.t.Fatal(err)
		}
		buffer := make([]byte, 100)
		n, _ := resp.Body.Read(buffer)
		_, err = resp.Body.Read(buffer)
		if took := time.Since(start); string(buffer[:n]) != "begin" || !errors.Is(err, context.DeadlineExceeded) || took != retry.DefaultTotal {
			b.t.Errorf("%q, %v after %v", buffer[:n], err, took)
		}
		if !strings.Contains(err.Error(), "Policy.Total") || errors.Is(err, retry.ErrAttemptTimeout) {
			b.t.Errorf("%v does not name the bound", err)
		}
		_ = resp.Body.Close()
	})
}
