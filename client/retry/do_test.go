package retry_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/comporta/comporta/breaker"
	"github.com/comporta/comporta/bulkhead"
	"github.com/comporta/comporta/client/budget"
	"github.com/comporta/comporta/client/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("down")

func runner(t *testing.T, c retry.Config) *retry.Runner {
	t.Helper()
	r, err := retry.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// cases/client.md A1: four calls, waits within their ceilings.
func TestCase_Client_A1_Do(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		err := runner(t, retry.Config{}).Do(t.Context(), "api", func(context.Context) error { calls++; return errDown })
		gave, ok := errors.AsType[*retry.Error](err)
		if !ok || !errors.Is(err, errDown) || !errors.Is(err, retry.ErrGaveUp) || gave.Report.Reason != retry.ReasonAttempts {
			t.Fatalf("%v", err)
		}
		if calls != 4 || gave.Report.Attempts != 4 || len(gave.Report.Waits) != 3 || gave.Report.Elapsed != gave.Report.Waited() {
			t.Errorf("%d calls, %+v", calls, gave.Report)
		}
		for i, w := range gave.Report.Waits {
			if w < 0 || w > 500*time.Millisecond<<i {
				t.Errorf("wait %d is %v", i, w)
			}
		}
	})
}

func TestDoSucceedsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var report retry.Report
		var attempts []int
		r := runner(t, retry.Config{Trace: retry.Trace{
			Finished:  func(r retry.Report) { report = r },
			Attempted: func(_ string, n int, _ time.Duration, _ error) { attempts = append(attempts, n) },
		}})
		calls := 0
		err := r.Do(t.Context(), "api", func(context.Context) error {
			calls++
			if calls < 3 {
				return errDown
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !report.Succeeded() || report.Attempts != 3 || report.Repeating <= 0 || report.Destination != "api" || len(attempts) != 3 {
			t.Errorf("%+v %v", report, attempts)
		}
	})
}

func TestStopAndAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runner(t, retry.Config{})
		calls := 0
		err := r.Do(t.Context(), "api", func(context.Context) error {
			calls++
			return fmt.Errorf("wrapped: %w", retry.Stop(io.ErrUnexpectedEOF))
		})
		if gave, ok := errors.AsType[*retry.Error](err); !ok || calls != 1 || gave.Report.Reason != retry.ReasonStopped || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d calls: %v", calls, err)
		}
		start := time.Now()
		calls = 0
		err = r.Do(t.Context(), "api", func(context.Context) error {
			calls++
			if calls == 1 {
				return retry.After(errDown, 3*time.Second)
			}
			return nil
		})
		if took := time.Since(start); err != nil || took < 3*time.Second || took > 3300*time.Millisecond {
			t.Errorf("%v after %v", err, took)
		}
		start = time.Now()
		err = r.Do(t.Context(), "api", func(context.Context) error { return retry.After(errDown, time.Minute) })
		if gave, ok := errors.AsType[*retry.Error](err); !ok || time.Since(start) != 0 || gave.Report.Reason != retry.ReasonDeadline ||
			gave.Report.RetryAt.Sub(start) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if retry.Stop(nil) != nil || retry.After(nil, 1) != nil {
			t.Error("no error became one")
		}
	})
}

// cases/client.md A14 and A16: an attempt that timed out may be repeated, an
// operation that did may not.
func TestCase_Client_A14_A16_Timeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runner(t, retry.Config{})
		calls := 0
		hang := func(ctx context.Context) error { calls++; <-ctx.Done(); return ctx.Err() }
		start := time.Now()
		err := r.Do(t.Context(), "api", hang)
		if calls < 2 || calls > 4 || time.Since(start) > 20*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d calls in %v: %v", calls, time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		<-ctx.Done()
		calls = 0
		err = r.Do(ctx, "api", hang)
		if gave, ok := errors.AsType[*retry.Error](err); !ok || calls != 0 || gave.Report.Reason != retry.ReasonContext {
			t.Errorf("%d calls: %v", calls, err)
		}
	})
}

// cases/client.md A15: a wait ends with its context, at once, and says why.
func TestCase_Client_A15_CancelledWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("user closed the page")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		start := time.Now()
		err := runner(t, retry.Config{}).Do(ctx, "api", func(context.Context) error { return retry.After(errDown, 10*time.Second) })
		if time.Since(start) != time.Second || !errors.Is(err, context.Canceled) || !errors.Is(err, why) || !errors.Is(err, errDown) {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// cases/client.md A18: ten thousand cancelled waits leave nothing (the bubble
// fails a test that leaves a goroutine; a timer left would hold its clock).
func TestCase_Client_A18_CancelledWaitsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runner(t, retry.Config{Policy: retry.Policy{Total: 24 * time.Hour, RetryAfterMax: 2 * time.Hour}})
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		done := make(chan error)
		for i := range 10_000 {
			go func() {
				done <- r.Do(ctx, fmt.Sprint(i%2000), func(context.Context) error { return retry.After(errDown, time.Hour) })
			}()
		}
		synctest.Wait()
		cancel()
		for range 10_000 {
			if err := <-done; !errors.Is(err, context.Canceled) && !errors.Is(err, retry.ErrGaveUp) {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}

func TestNotIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runner(t, retry.Config{})
		dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		for name, c := range map[string]struct {
			err   error
			calls int
		}{"untouched": {dial, 4}, "perhaps done": {errDown, 1}} {
			calls := 0
			_ = r.Do(t.Context(), "api", func(context.Context) error { calls++; return c.err }, retry.NotIdempotent())
			if calls != c.calls {
				t.Errorf("%s: %d calls, want %d", name, calls, c.calls)
			}
		}
	})
}

func TestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runner(t, retry.Config{})
		for _, c := range []struct {
			fate   retry.Fate
			calls  int
			failed bool
		}{{retry.FateDone, 1, false}, {retry.FateNotDone, 4, true}, {retry.FateUnknown, 1, true}} {
			calls := 0
			err := r.Do(t.Context(), "api", func(context.Context) error { calls++; return errDown },
				retry.Check(func(context.Context) (retry.Fate, error) { return c.fate, nil }))
			if calls != c.calls || (err != nil) != c.failed {
				t.Errorf("fate %v: %d calls, %v", c.fate, calls, err)
			}
		}
	})
}

// cases/client.md D5: three layers that all repeat make four calls, not 64.
func TestCase_Client_D5_NestedDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runner(t, retry.Config{})
		strict := runner(t, retry.Config{Strict: true})
		calls := 0
		nest := func(inner func(context.Context) error) func(context.Context) error {
			return func(ctx context.Context) error { return r.Do(ctx, "api", inner) }
		}
		err := nest(nest(nest(func(context.Context) error { calls++; return errDown })))(t.Context())
		if gave, ok := errors.AsType[*retry.Error](err); !ok || calls != 4 || gave.Report.Nested {
			t.Errorf("%d calls: %v", calls, err)
		}
		inner, _ := errors.AsType[*retry.Error](errors.Unwrap(err))
		if inner == nil || !inner.Report.Nested || inner.Report.Reason != retry.ReasonNested {
			t.Errorf("the inner layer says %v", inner)
		}
		calls = 0
		err = r.Do(t.Context(), "api", func(ctx context.Context) error {
			calls++
			return strict.Do(ctx, "api", func(context.Context) error { return nil })
		})
		if !errors.Is(err, retry.ErrNested) || calls != 1 {
			t.Errorf("%d calls: %v", calls, err)
		}
	})
}

// cases/client.md D11: what is refused here is neither repeated nor paid for.
func TestCase_Client_D11_LocalRefusals(t *testing.T) {
	var level float64
	for _, local := range []error{&breaker.OpenError{RetryAfter: 1}, &bulkhead.FullError{}} {
		calls := 0
		err := runner(t, retry.Config{}).Do(t.Context(), "api", func(context.Context) error { calls++; return local })
		gave, ok := errors.AsType[*retry.Error](err)
		if !ok || calls != 1 || (gave.Report.Reason != retry.ReasonBreaker && gave.Report.Reason != retry.ReasonBulkhead) {
			t.Errorf("%d calls, level %v: %v", calls, level, err)
		}
	}
}

// cases/client.md D11: a token pays for a repeat that is made, and for nothing else.
func TestCase_Client_D11_TokensOfRepeatsThatWereNotMade(t *testing.T) {
	for name, c := range map[string]struct {
		second func(ctx context.Context) error // the repeat
		cancel time.Duration                   // 0: never
		want   float64
	}{
		"refused by a breaker":  {second: func(context.Context) error { return &breaker.OpenError{RetryAfter: 1} }, want: 10},
		"refused by a bulkhead": {second: func(context.Context) error { return &bulkhead.FullError{} }, want: 10},
		"cancelled in the wait": {cancel: time.Second, want: 10},
		"failed":                {second: func(context.Context) error { return retry.Stop(errDown) }, want: 9},
		"succeeded":             {second: func(context.Context) error { return nil }, want: 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := runner(t, retry.Config{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				calls := 0
				_ = r.Do(ctx, "api", func(ctx context.Context) error {
					if calls++; calls == 1 {
						return retry.After(errDown, 3*time.Second)
					}
					return c.second(ctx)
				})
				if level := r.Budgets().Of("api").Level(); level != c.want {
					t.Errorf("%v tokens, want %v", level, c.want)
				}
			})
		})
	}
}

// cases/client.md D4: a success earns once, however many layers see it.
func TestCase_Client_D4_NestedLayersEarnOnce(t *testing.T) {
	r := runner(t, retry.Config{})
	bucket := r.Budgets().Of("api")
	for bucket.Withdraw() {
	}
	for range 10 {
		err := r.Do(t.Context(), "api", func(ctx context.Context) error {
			return r.Do(ctx, "api", func(context.Context) error { return nil })
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if level := bucket.Level(); level != 1 {
		t.Errorf("10 successes earned %v tokens, want 1", level)
	}
}

// The instant that was last named is told, also if a later failure named none.
func TestRetryAtIsTheLastThatWasNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, calls := time.Now(), 0
		err := runner(t, retry.Config{}).Do(t.Context(), "api", func(context.Context) error {
			if calls++; calls == 1 {
				return retry.After(errDown, time.Second)
			}
			return errDown
		})
		if gave, ok := errors.AsType[*retry.Error](err); !ok || gave.Report.RetryAt.Sub(start) != time.Second {
			t.Errorf("%+v", err)
		}
	})
}

// A Check that hangs ends with the operation.
func TestCheckHasTheTimeOfTheWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := runner(t, retry.Config{}).Do(t.Context(), "api", func(context.Context) error { return errDown },
			retry.Check(func(ctx context.Context) (retry.Fate, error) {
				<-ctx.Done()
				return retry.FateNotDone, ctx.Err()
			}))
		if gave, ok := errors.AsType[*retry.Error](err); !ok || gave.Report.Reason != retry.ReasonNotIdempotent || time.Since(start) != retry.DefaultTotal {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// cases/client.md D1 and D3: an outage costs the burst, and then fails at once.
func TestCase_Client_D1_D3_Budget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runner(t, retry.Config{})
		calls := 0
		down := func(context.Context) error { calls++; return errDown }
		for range 400 {
			_ = r.Do(t.Context(), "api", down)
		}
		if calls > 410 {
			t.Errorf("%d calls", calls)
		}
		start := time.Now()
		err := r.Do(t.Context(), "api", down)
		if gave, ok := errors.AsType[*retry.Error](err); !ok || gave.Report.Reason != retry.ReasonBudget || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// cases/client.md D13: a limit that comes during the operation stops it, and is
// gone when it is taken back.
func TestCase_Client_D13_Limits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := retry.Limits{}
		r := runner(t, retry.Config{Limits: func(string) retry.Limits { return limits }})
		calls := 0
		down := func(context.Context) error { calls++; limits.MaxAttempts = 1; return errDown }
		_ = r.Do(t.Context(), "api", down)
		if calls != 1 {
			t.Errorf("%d calls after the switch", calls)
		}
		limits, calls = retry.Limits{}, 0
		_ = r.Do(t.Context(), "api", func(context.Context) error { calls++; return errDown })
		if calls != 4 {
			t.Errorf("%d calls without it", calls)
		}
	})
}

func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		_ = runner(t, retry.Config{}).Do(t.Context(), "api", func(context.Context) error { calls++; return errDown },
			retry.Within(retry.Policy{MaxAttempts: 2}))
		if calls != 2 {
			t.Errorf("%d calls", calls)
		}
	})
}

// cases/client.md B12, by the type of the fault.
func TestCase_Client_B12_Faults(t *testing.T) {
	for name, c := range map[string]struct {
		err       error
		retryable bool
		untouched bool
	}{
		"refused":         {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true, true},
		"dns timeout":     {&net.OpError{Op: "dial", Err: &net.DNSError{IsTimeout: true}}, true, true},
		"no such host":    {&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, false, true},
		"proxy":           {&net.OpError{Op: "proxyconnect", Err: errDown}, true, true},
		"reset":           {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, true, false},
		"eof":             {io.EOF, true, false},
		"attempt timeout": {retry.ErrAttemptTimeout, true, false},
		"deadline":        {context.DeadlineExceeded, true, false},
		"cancelled":       {context.Canceled, false, false},
		"authority":       {&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, false, false},
		"plain http":      {tls.RecordHeaderError{}, false, false},
	} {
		if s := retry.OfError(c.err); s.OK || s.Retryable != c.retryable || s.Untouched != c.untouched {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if !retry.OfError(nil).OK {
		t.Error("no error is no success")
	}
}

func TestErrorSaysTimeout(t *testing.T) {
	var err error = &retry.Error{Err: fmt.Errorf("get: %w", retry.ErrAttemptTimeout)}
	if timeout, ok := err.(interface{ Timeout() bool }); !ok || !timeout.Timeout() {
		t.Error("not a timeout")
	}
	if (&retry.Error{Err: errDown}).Timeout() {
		t.Error("a timeout without one")
	}
}

func TestConfigNamesEveryProblem(t *testing.T) {
	_, err := retry.New(retry.Config{Policy: retry.Policy{MaxAttempts: -1}, Budget: budget.Config{Burst: -1}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{"MaxAttempts:", "Burst:"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}
