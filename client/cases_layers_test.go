package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/client"
	"github.com/comporta/comporta/client/remote"
	"github.com/comporta/comporta/client/retry"
)

// Part D of cases/client.md: budget, breaker, nesting, control. D1 stands with
// C8.

func TestCase_Client_D3_EmptyBudget(t *testing.T) {
	run(t, client.Config{}, status(503), func(b *bench) {
		for b.client.Budgets().Of("service").Withdraw() {
		}
		start := time.Now()
		resp, body, err := b.get()
		if err != nil || body != "answer" || client.Report(resp).Reason != retry.ReasonBudget || time.Since(start) != 0 {
			b.t.Errorf("%q %v after %v", body, err, time.Since(start))
		}
		b.expect(1)
	})
	// A hedge that runs goes on when the budget runs dry.
	hang := func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			<-r.Context().Done()
			return
		}
		<-time.After(time.Second)
		reply(w, 200, "hedge")
	}
	run(t, client.Config{Hedge: client.Hedge{After: 100 * time.Millisecond}}, hang, func(b *bench) {
		time.AfterFunc(500*time.Millisecond, func() {
			for b.client.Budgets().Of("service").Withdraw() {
			}
		})
		if resp, body, err := b.get(); err != nil || body != "hedge" || client.Report(resp).Hedges != 1 {
			b.t.Errorf("%q %v", body, err)
		}
	})
}

func TestCase_Client_D4_RecoveryEarnsRepeats(t *testing.T) {
	var down atomic.Bool
	answer := func(_ int, w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(503)
		}
	}
	run(t, client.Config{}, answer, func(b *bench) {
		bucket := b.client.Budgets().Of("service")
		for bucket.Withdraw() {
		}
		for range 30 {
			if _, _, err := b.get(); err != nil {
				b.t.Error(err)
			}
		}
		if level := bucket.Level(); level != 3 {
			b.t.Errorf("30 successes earned %v tokens, want 3", level)
		}
		b.service.answer = then503Once(30)
		if _, _, err := b.get(); err != nil || bucket.Level() != 3 {
			b.t.Errorf("a repeat that succeeded left %v tokens, want 3", bucket.Level())
		}
	})
}

// then503Once fails the request after n.
func then503Once(after int) func(int, http.ResponseWriter, *http.Request) {
	return func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == after+1 {
			w.WriteHeader(503)
		}
	}
}

// Layers see the same success, and it earns once.
func TestCase_Client_D4_NestedLayersEarnOnce(t *testing.T) {
	run(t, client.Config{}, status(200), func(b *bench) {
		bucket := b.client.Budgets().Of("service")
		for bucket.Withdraw() {
		}
		b.http.Transport = b.client.Transport(b.client.Transport(b.client.Transport(b.wire)))
		for range 10 {
			if _, _, err := b.get(); err != nil {
				b.t.Error(err)
			}
		}
		if level := bucket.Level(); level != 1 {
			b.t.Errorf("10 successes through three layers earned %v tokens, want 1", level)
		}
	})
}

func TestCase_Client_D5_LayersOfTheSameClient(t *testing.T) {
	var mu sync.Mutex
	nested, outer := 0, 0
	config := client.Config{Budget: big, Trace: client.Trace{Finished: func(r retry.Report) {
		mu.Lock()
		defer mu.Unlock()
		if r.Nested {
			nested++
			if r.Attempts != 1 || r.Reason != retry.ReasonNested {
				t.Errorf("an inner layer: %+v", r)
			}
		} else {
			outer++
		}
	}}}
	run(t, config, status(503), func(b *bench) {
		layered := &http.Client{Transport: b.client.Transport(b.client.Transport(b.client.Transport(b.wire)))}
		for range 10 {
			resp, err := layered.Do(request(b.t, b.t.Context(), "GET", nil))
			if err != nil {
				b.t.Fatal(err)
			}
			if body, err := io.ReadAll(resp.Body); string(body) != "answer" || err != nil {
				b.t.Errorf("%q %v", body, err)
			}
			_ = resp.Body.Close()
			if r := client.Report(resp); r.Nested || r.Attempts != 4 {
				b.t.Errorf("%+v", r)
			}
		}
		b.expect(40)
		if outer != 10 || nested != 80 {
			b.t.Errorf("%d outer and %d nested operations, want 10 and 80", outer, nested)
		}
		strict := make1(b.t, client.Config{Strict: true})
		layered.Transport = b.client.Transport(strict.Transport(b.wire))
		if _, err := layered.Do(request(b.t, b.t.Context(), "GET", nil)); !errors.Is(err, retry.ErrNested) {
			b.t.Errorf("%v, want ErrNested", err)
		}
		b.expect(40)
	})
}

// Below retry.Do the client makes one attempt, and Do repeats.
func TestCase_Client_D5_BelowDo(t *testing.T) {
	run(t, client.Config{}, status(503), func(b *bench) {
		runner, err := retry.New(retry.Config{})
		if err != nil {
			b.t.Fatal(err)
		}
		err = runner.Do(b.t.Context(), "service", func(ctx context.Context) error {
			resp, _, err := b.do(request(b.t, ctx, "GET", nil))
			if err == nil && resp.StatusCode == 503 {
				err = errors.New(resp.Status)
			}
			return err
		})
		if !errors.Is(err, retry.ErrGaveUp) {
			b.t.Error(err)
		}
		b.expect(4)
		if got := b.service.got[3].header.Get("Retry-Attempt"); got != "3" {
			b.t.Errorf("the fourth attempt declares %q", got)
		}
	})
}

// A layer above that does not know of us cannot be stopped, but noticed.
func TestCase_Client_D6_NestedSuspected(t *testing.T) {
	suspected := new(atomic.Int32)
	config := client.Config{Trace: client.Trace{NestedSuspected: func(string) { suspected.Add(1) }}}
	run(t, config, status(503), func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		defer cancel()
		for i, want := range []int32{0, 1, 2} { // a foreign library's loop
			if _, _, err := b.do(request(b.t, ctx, "GET", nil)); err != nil || suspected.Load() != want {
				b.t.Errorf("round %d: suspected %d times, %v", i, suspected.Load(), err)
			}
		}
		other, cancel := context.WithCancel(b.t.Context())
		defer cancel()
		if _, _, err := b.do(request(b.t, other, "GET", nil)); err != nil || suspected.Load() != 2 {
			b.t.Errorf("another context was suspected too: %v", err)
		}
		if _, _, err := b.do(request(b.t, ctx, "PUT", nil)); err != nil || suspected.Load() != 2 {
			b.t.Errorf("another request was suspected too: %v", err)
		}
		program := context.WithValue(context.Background(), suspected, 0) // of no operation: everybody shares it
		for range 2 {
			if _, _, err := b.do(request(b.t, program, "GET", nil)); err != nil || suspected.Load() != 2 {
				b.t.Errorf("the context of the program was suspected: %v", err)
			}
		}
	})
	// Nor does a Timeout hide it, by which net/http would make each request another.
	run(t, config, status(503), func(b *bench) {
		suspected.Store(0)
		b.http = b.client.HTTP(&http.Client{Transport: b.wire, Timeout: time.Minute})
		ctx, cancel := context.WithCancel(b.t.Context())
		defer cancel()
		for range 2 {
			_, _, _ = b.do(request(b.t, ctx, "GET", nil))
		}
		if suspected.Load() != 1 {
			b.t.Errorf("suspected %d times, want once", suspected.Load())
		}
	})
	// Our own repeat that succeeded is no failure to remember.
	run(t, config, then(503, 200), func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		defer cancel()
		suspected.Store(0)
		for range 2 {
			if _, _, err := b.do(request(b.t, ctx, "GET", nil)); err != nil || suspected.Load() != 0 {
				b.t.Errorf("suspected after a success: %v", err)
			}
		}
	})
}

func TestCase_Client_D7_Inbound(t *testing.T) {
	for name, c := range map[string]struct {
		header   []string
		calls    int
		declared string
		deadline time.Duration // 0: the policy's
	}{
		"repeat":         {[]string{"Retry-Attempt", "2", "Request-Timeout-Ms", "3000"}, 1, "2", 2950 * time.Millisecond},
		"owner mark":     {[]string{"Retry-Attempt", "0"}, 1, "0", 0},
		"foreign repeat": {[]string{"X-Envoy-Attempt-Count", "2"}, 1, "1", 0},
		"foreign first":  {[]string{"X-Envoy-Attempt-Count", "1"}, 4, "0", 0},
		"deadline only":  {[]string{"Request-Timeout-Ms", "3000"}, 4, "0", 0},
		"nothing":        {nil, 4, "0", 0},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, client.Config{Rand: func() float64 { return 0.1 }}, status(503), func(b *bench) {
				var report retry.Report
				front := b.network.Serve("front", client.Inbound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					resp, _, err := b.do(request(b.t, r.Context(), "GET", nil))
					if err != nil {
						b.t.Error(err)
						return
					}
					report = client.Report(resp)
				})))
				bare := b.network.Client()
				req := request(b.t, b.t.Context(), "GET", nil, c.header...)
				req.URL.Host = "front"
				resp, err := bare.Do(req)
				if err != nil {
					b.t.Fatal(err)
				}
				_ = resp.Body.Close()
				b.expect(c.calls)
				if c.calls == 1 && (report.Reason != retry.ReasonNested || !report.Nested) {
					b.t.Errorf("%+v", report)
				}
				got := b.service.got[0].header
				if got.Get("Retry-Attempt") != c.declared {
					b.t.Errorf("declares %q, want %q", got.Get("Retry-Attempt"), c.declared)
				}
				if ms := got.Get("Request-Timeout-Ms"); c.deadline != 0 && ms != "2950" {
					b.t.Errorf("waits %s ms", ms)
				}
				bare.CloseIdleConnections()
				_ = front.Close()
			})
		})
	}
}

// What is kept of the sender's patience is kept once, through any layer between.
func TestCase_Client_D7_MarginThroughDo(t *testing.T) {
	once := retry.Within(retry.Policy{MaxAttempts: 1}) // all the time for one attempt
	for name, through := range map[string]func(context.Context, func(context.Context) error) error{
		"at once": func(ctx context.Context, f func(context.Context) error) error { return f(ctx) },
		"in Do": func(ctx context.Context, f func(context.Context) error) error {
			return retry.Do(ctx, "margin", f, once)
		},
		"in Do, twice": func(ctx context.Context, f func(context.Context) error) error {
			return retry.Do(ctx, "margin", func(ctx context.Context) error { return retry.Do(ctx, "margin", f, once) }, once)
		},
		"Do alone": nil,
	} {
		t.Run(name, func(t *testing.T) {
			run(t, client.Config{Margin: 500 * time.Millisecond, Policy: retry.Policy{MaxAttempts: 1}}, status(200), func(b *bench) {
				front := b.network.Serve("front", client.Inbound(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					if through == nil {
						start := time.Now()
						_ = retry.Do(r.Context(), "margin", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, once)
						if took := time.Since(start); took != 2950*time.Millisecond {
							b.t.Errorf("Do took %v of the sender's 3s, want to leave 50ms", took)
						}
						return
					}
					_ = through(r.Context(), func(ctx context.Context) error {
						_, _, err := b.do(request(b.t, ctx, "GET", nil))
						return err
					})
					if ms, _ := strconv.Atoi(b.service.got[0].header.Get("Request-Timeout-Ms")); ms > 2500 {
						b.t.Errorf("waits %d ms of the sender's 3000, want at most 2500", ms)
					}
				})))
				bare := b.network.Client()
				req := request(b.t, b.t.Context(), "GET", nil, "Request-Timeout-Ms", "3000")
				req.URL.Host = "front"
				resp, err := bare.Do(req)
				if err != nil {
					b.t.Fatal(err)
				}
				_ = resp.Body.Close()
				bare.CloseIdleConnections()
				_ = front.Close()
			})
		})
	}
}

// A request that is passed on with its sender's header belongs to the sender.
func TestCase_Client_D7_ForwardedHeader(t *testing.T) {
	run(t, client.Config{}, status(503), func(b *bench) {
		resp, _, err := b.do(request(b.t, b.t.Context(), "GET", nil, "Retry-Attempt", "1"))
		if err != nil || client.Report(resp).Reason != retry.ReasonNested || b.service.got[0].header.Get("Retry-Attempt") != "1" {
			b.t.Errorf("%v %v", err, b.service.got)
		}
		b.expect(1)
	})
	// Strict looks for layers of this process, and the sender is none.
	run(t, client.Config{Strict: true}, status(200), func(b *bench) {
		if _, _, err := b.do(request(b.t, b.t.Context(), "GET", nil, "Retry-Attempt", "0")); err != nil {
			b.t.Error(err)
		}
	})
}

func TestCase_Client_D8_HalfOpen(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	config := client.Config{Budget: big, Breaker: &breaker.Config{Minimum: 4, Rand: func() float64 { return 0 }}}
	answer := func(_ int, w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(500)
			return
		}
		<-time.After(time.Second)
	}
	run(t, config, answer, func(b *bench) {
		resp, _, err := b.get()
		if err != nil || resp.StatusCode != 500 {
			b.t.Fatal(err)
		}
		b.expect(4)
		if _, _, err := b.get(); !errors.Is(err, breaker.ErrOpen) {
			b.t.Errorf("%v, want an open breaker", err)
		}
		b.expect(4)
		<-time.After(6 * time.Second)
		down.Store(false)
		var passed atomic.Int32
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, _, err := b.get(); err == nil {
					passed.Add(1)
				} else if !errors.Is(err, breaker.ErrOpen) {
					b.t.Error(err)
				}
			})
		}
		wg.Wait()
		b.expect(5)
		if passed.Load() != 1 {
			b.t.Errorf("%d probes", passed.Load())
		}
	})
}

func TestCase_Client_D10_BulkheadBoundsAHang(t *testing.T) {
	var inside, most atomic.Int32
	hang := func(_ int, _ http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), inside.Add(1)))
		<-r.Context().Done()
		inside.Add(-1)
	}
	config := client.Config{Breaker: &breaker.Config{Minimum: 6}, Bulkhead: &bulkhead.Config{Limit: 6}, Policy: retry.Policy{MaxAttempts: 1}}
	run(t, config, hang, func(b *bench) {
		var refused atomic.Int32
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				_, _, err := b.within(5 * time.Second)
				if errors.Is(err, bulkhead.ErrFull) {
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		if most.Load() > 6 || refused.Load() != 44 {
			b.t.Errorf("%d in flight, %d refused", most.Load(), refused.Load())
		}
	})
}

func TestCase_Client_D11_LocalRefusals(t *testing.T) {
	var refused atomic.Int32
	config := client.Config{
		Bulkhead: &bulkhead.Config{Limit: 1}, Breaker: &breaker.Config{Minimum: 1},
		Trace: client.Trace{Refused: func(string, error) { refused.Add(1) }},
	}
	hang := func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	run(t, config, hang, func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			_, _, _ = b.do(request(b.t, ctx, "GET", nil)) // holds the only permit
		}()
		synctest.Wait()
		start, level := time.Now(), b.client.Budgets().Of("service").Level()
		_, _, err := b.do(request(b.t, b.t.Context(), "PUT", strings.NewReader("x")))
		gave, ok := errors.AsType[*retry.Error](err)
		if !ok || !errors.Is(err, bulkhead.ErrFull) || gave.Report.Reason != retry.ReasonBulkhead || time.Since(start) != 0 {
			b.t.Errorf("%v after %v", err, time.Since(start))
		}
		if b.client.Budgets().Of("service").Level() != level || refused.Load() != 1 {
			b.t.Errorf("a local refusal cost a token, or was not told (%d)", refused.Load())
		}
		cancel()
		<-left
		b.service.answer = status(200)
		if _, _, err := b.get(); err != nil { // the breaker counted no failure, the permit is back
			b.t.Error(err)
		}
	})
}

// The permit is held until the answer has been read.
func TestBulkheadCoversTheBody(t *testing.T) {
	run(t, client.Config{Bulkhead: &bulkhead.Config{Limit: 1}}, status(200), func(b *bench) {
		resp, err := b.http.Do(request(b.t, b.t.Context(), "GET", nil))
		if err != nil {
			b.t.Fatal(err)
		}
		if _, _, err := b.get(); !errors.Is(err, bulkhead.ErrFull) {
			b.t.Errorf("%v, want a full bulkhead while a body is open", err)
		}
		_ = resp.Body.Close()
		if _, _, err := b.get(); err != nil {
			b.t.Error(err)
		}
	})
}

func TestCase_Client_D13_RemoteSwitch(t *testing.T) {
	var until time.Time
	config := client.Config{
		Budget: big,
		Told: func(destination, policy string) {
			if destination == "service" && policy == "max=1;ttl=600" {
				until = time.Now().Add(10 * time.Minute)
			}
		},
		Limits: func(string, string) retry.Limits {
			if time.Now().Before(until) {
				return retry.Limits{MaxAttempts: 1}
			}
			return retry.Limits{}
		},
	}
	run(t, config, status(503, "Retry-Policy", "max=1;ttl=600"), func(b *bench) {
		resp, _, err := b.get()
		if err != nil || client.Report(resp).Reason != retry.ReasonAttempts {
			b.t.Error(err)
		}
		b.expect(1) // this very call stops
		b.service.answer = status(503)
		_, _, _ = b.get()
		b.expect(2)
		<-time.After(11 * time.Minute)
		_, _, _ = b.get()
		b.expect(6)
	})
}

// The same with the switch of package remote: what it hears on a refusal applies
// to the very call.
func TestCase_Client_D13_WithPackageRemote(t *testing.T) {
	synced := func(config client.Config, s *remote.Switch) client.Config {
		config.Told, config.Limits = s.Heard, s.Limits
		return config
	}
	s, err := remote.New(remote.Config{})
	if err != nil {
		t.Fatal(err)
	}
	run(t, synced(client.Config{Budget: big}, s), status(503, "Retry-Policy", "max=1;ttl=600"), func(b *bench) {
		_, _, _ = b.get()
		b.expect(1)
		b.service.answer = status(503)
		_, _, _ = b.get()
		b.expect(2)
		<-time.After(11 * time.Minute)
		_, _, _ = b.get()
		b.expect(6)
	})
}

func TestCase_Client_D14_TooOld(t *testing.T) {
	for name, answer := range map[string]func(int, http.ResponseWriter, *http.Request){
		"426": status(426), "gateway": status(403, "Comporta-Decision", "client_too_old", "X-Should-Retry", "false"),
	} {
		t.Run(name, func(t *testing.T) {
			var told atomic.Int32
			config := client.Config{Version: "acme/1.0.0", Trace: client.Trace{TooOld: func(destination, version string) {
				if destination != "service" || version != "acme/1.0.0" {
					t.Errorf("told %q %q", destination, version)
				}
				told.Add(1)
			}}}
			run(t, config, answer, func(b *bench) {
				resp, _, err := b.get()
				if err != nil || client.Report(resp).Reason != retry.ReasonTooOld {
					b.t.Errorf("%v", err)
				}
				for range 3 {
					_, _, err := b.do(request(b.t, b.t.Context(), "PUT", strings.NewReader("x")))
					if !errors.Is(err, client.ErrTooOld) {
						b.t.Error(err)
					}
				}
				b.expect(1)
				if told.Load() != 1 {
					b.t.Errorf("told %d times", told.Load())
				}
				b.service.answer = status(200)
				if err := b.client.SetVersion("acme/2.0.0"); err != nil {
					b.t.Fatal(err)
				}
				if _, _, err := b.get(); err != nil {
					b.t.Error(err)
				}
				b.expect(2)
				b.service.answer = answer // the new version is refused too, and that is news
				if err := b.client.SetVersion("acme/1.0.0"); err != nil {
					b.t.Fatal(err)
				}
				_, _, _ = b.get()
				_, _, _ = b.get()
				b.expect(3)
				if told.Load() != 2 {
					b.t.Errorf("told %d times, want once a version", told.Load())
				}
			})
		})
	}
	run(t, client.Config{Version: "acme/1.0.0"}, status(426, "Upgrade", "h2c"), func(b *bench) { // of the protocol, not of the client
		_, _, _ = b.get()
		_, _, _ = b.get()
		b.expect(2)
	})
}
