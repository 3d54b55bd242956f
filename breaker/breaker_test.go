package breaker

import (
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/comporta/comporta"
)

var (
	good      = comporta.Outcome{Status: 200, Result: comporta.ResultSuccess}
	bad       = comporta.Outcome{Status: 503, Result: comporta.ResultFailed}
	abandoned = comporta.Outcome{Result: comporta.ResultAbandoned}
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixed is a generator that always says the same.
func fixed(v float64) func() float64 { return func() float64 { return v } }

func newBreaker(t testing.TB, c Config) *Breaker {
	t.Helper()
	if c.Rand == nil {
		c.Rand = fixed(0)
	}
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// call makes one call that ends at once.
func call(t testing.TB, b *Breaker, now time.Time, o comporta.Outcome) {
	t.Helper()
	p, err := b.AllowAt(now)
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	p.DoneAt(now, o)
}

func calls(t testing.TB, b *Breaker, now time.Time, o comporta.Outcome, n int) {
	t.Helper()
	for range n {
		call(t, b, now, o)
	}
}

// open brings a breaker of the default policy into the open state.
func open(t testing.TB, b *Breaker, now time.Time) {
	t.Helper()
	calls(t, b, now, bad, b.config.Minimum)
	if s := b.StatsAt(now).State; s != Open {
		t.Fatalf("state %v after %d failures", s, b.config.Minimum)
	}
}

func TestOpensAtTheShareOfFailures(t *testing.T) {
	tests := []struct {
		name      string
		good, bad int // in this order, a tenth of a second apart
		want      State
	}{
		{"all fail, one below the minimum", 0, 19, Closed},
		{"all fail, at the minimum", 0, 20, Open},
		{"half fail", 10, 10, Open},
		{"one below half", 11, 10, Closed},
		{"a few of many", 70, 20, Closed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, now := newBreaker(t, Config{}), epoch
			for range tt.good {
				call(t, b, now, good)
				now = now.Add(100 * time.Millisecond)
			}
			for range tt.bad {
				call(t, b, now, bad)
				now = now.Add(time.Millisecond)
			}
			if got := b.StatsAt(now).State; got != tt.want {
				t.Errorf("state %v, want %v", got, tt.want)
			}
		})
	}
}

// The wait is rounded up: who comes after it is not refused again for the rest
// of a millisecond.
func TestWaitIsRoundedUp(t *testing.T) {
	b := newBreaker(t, Config{})
	open(t, b, epoch)
	_, err := b.AllowAt(epoch.Add(5*time.Second - 1))
	if refusal, ok := errors.AsType[*OpenError](err); !ok || refusal.RetryAfter != time.Millisecond {
		t.Errorf("a nanosecond before the end: %v", err)
	}
}

// The call that reaches the minimum decides, also when it is a success.
func TestSuccessMayReachTheMinimum(t *testing.T) {
	b := newBreaker(t, Config{})
	calls(t, b, epoch, bad, 19)
	call(t, b, epoch, good)
	if got := b.StatsAt(epoch).State; got != Open {
		t.Errorf("state %v with 19 of 20 failed", got)
	}
}

func TestWindowSlides(t *testing.T) {
	b, now := newBreaker(t, Config{}), epoch
	calls(t, b, now, bad, 19)
	now = now.Add(9 * time.Second)
	if s := b.StatsAt(now); s.Calls != 19 || s.Failures != 19 {
		t.Errorf("within the window: %+v", s)
	}
	now = now.Add(2 * time.Second)
	if s := b.StatsAt(now); s.Calls != 0 {
		t.Errorf("after the window: %+v", s)
	}
	calls(t, b, now, bad, 19) // the old failures would have opened it
	if s := b.StatsAt(now); s.State != Closed || s.Calls != 19 {
		t.Errorf("%+v, want closed with 19 calls", s)
	}
}

func TestOpenRefusesThenTriesOnce(t *testing.T) {
	b, now := newBreaker(t, Config{}), epoch
	open(t, b, now)

	now = now.Add(1200 * time.Millisecond)
	_, err := b.AllowAt(now)
	if !errors.Is(err, ErrOpen) {
		t.Fatalf("got %v, want ErrOpen", err)
	}
	refusal, ok := errors.AsType[*OpenError](err)
	if !ok || refusal.RetryAfter != 3800*time.Millisecond {
		t.Errorf("got %#v, want a wait of 3.8s", err)
	}
	if got := err.Error(); got != "breaker: open for 3.8s" {
		t.Errorf("text %q", got)
	}

	now = epoch.Add(5 * time.Second)
	probe, err := b.AllowAt(now)
	if err != nil {
		t.Fatalf("no probe at the end of the open time: %v", err)
	}
	if _, err = b.AllowAt(now); !errors.Is(err, ErrOpen) {
		t.Errorf("a second probe: %v", err)
	}
	probe.DoneAt(now, good)
	calls(t, b, now, good, 50)
	if s := b.StatsAt(now); s.State != Closed || s.Calls != 50 {
		t.Errorf("%+v, want closed with a fresh window", s)
	}
}

func TestProbeOutcomes(t *testing.T) {
	tests := []struct {
		name string
		end  func(p Permit, now time.Time)
		want State
	}{
		{"success closes", func(p Permit, now time.Time) { p.DoneAt(now, good) }, Closed},
		{"failure opens", func(p Permit, now time.Time) { p.DoneAt(now, bad) }, Open},
		{"an abandoned probe decides nothing", func(p Permit, now time.Time) { p.DoneAt(now, abandoned) }, HalfOpen},
		{"told twice, the first counts", func(p Permit, now time.Time) {
			p.DoneAt(now, bad)
			p.DoneAt(now, good)
		}, Open},
		{"abandoned, then told again", func(p Permit, now time.Time) {
			p.DoneAt(now, abandoned)
			p.DoneAt(now, good)
		}, HalfOpen},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBreaker(t, Config{})
			open(t, b, epoch)
			now := epoch.Add(5 * time.Second)
			p, err := b.AllowAt(now)
			if err != nil {
				t.Fatal(err)
			}
			tt.end(p, now)
			if got := b.StatsAt(now).State; got != tt.want {
				t.Errorf("state %v, want %v", got, tt.want)
			}
			if tt.want == HalfOpen {
				call(t, b, now, good) // its place is free for another
			}
		})
	}
}

// An abandoned probe leaves its place, and a second goodbye does not free the
// place of the probe that took it.
func TestProbeLeavesOnce(t *testing.T) {
	b := newBreaker(t, Config{})
	open(t, b, epoch)
	now := epoch.Add(5 * time.Second)
	first, _ := b.AllowAt(now)
	first.DoneAt(now, abandoned)
	if _, err := b.AllowAt(now); err != nil {
		t.Fatalf("the place was not freed: %v", err)
	}
	first.DoneAt(now, abandoned)
	if _, err := b.AllowAt(now); err == nil {
		t.Error("two probes at once")
	}
}

func TestSeveralProbes(t *testing.T) {
	b := newBreaker(t, Config{Probes: 3})
	open(t, b, epoch)
	now := epoch.Add(5 * time.Second)
	var out []Permit
	for {
		p, err := b.AllowAt(now)
		if err != nil {
			break
		}
		out = append(out, p)
	}
	if len(out) != 3 {
		t.Fatalf("%d probes, want 3", len(out))
	}
	out[0].DoneAt(now, good)
	if _, err := b.AllowAt(now); err == nil {
		t.Error("a fourth call passed: passed and running probes are 3 together")
	}
	out[1].DoneAt(now, good)
	if got := b.StatsAt(now).State; got != HalfOpen {
		t.Errorf("state %v after two of three", got)
	}
	out[2].DoneAt(now, good)
	if got := b.StatsAt(now).State; got != Closed {
		t.Errorf("state %v after three of three", got)
	}
}

// A probe whose permit is lost, or that hangs, must not hold the breaker half
// open for ever.
func TestLostProbeCountsAsFailed(t *testing.T) {
	b := newBreaker(t, Config{ProbeTimeout: 2 * time.Second})
	open(t, b, epoch)
	now := epoch.Add(5 * time.Second)
	lost, _ := b.AllowAt(now)

	_, err := b.AllowAt(now.Add(500 * time.Millisecond))
	if refusal, ok := errors.AsType[*OpenError](err); !ok || refusal.RetryAfter != 1500*time.Millisecond {
		t.Errorf("while it runs: %v, want the rest of its time", err)
	}
	now = now.Add(2 * time.Second)
	if _, err = b.AllowAt(now); err == nil {
		t.Error("passed when the probe was overdue")
	}
	if s := b.StatsAt(now); s.State != Open || s.RetryAfter != 5*time.Second {
		t.Errorf("%+v, want open for another 5s", s)
	}
	lost.DoneAt(now, good)
	if got := b.StatsAt(now).State; got != Open {
		t.Errorf("a late answer of an earlier trial made it %v", got)
	}
	call(t, b, now.Add(5*time.Second), good)
	if got := b.StatsAt(now.Add(5 * time.Second)).State; got != Closed {
		t.Errorf("state %v after the next trial", got)
	}
}

// Calls of an earlier era say nothing about the present one.
func TestLateAnswersAreIgnored(t *testing.T) {
	b, now := newBreaker(t, Config{}), epoch
	var slow []Permit
	for range 40 {
		p, _ := b.AllowAt(now)
		slow = append(slow, p)
	}
	for _, p := range slow[:20] {
		p.DoneAt(now, bad)
	}
	now = now.Add(5 * time.Second)
	probe, err := b.AllowAt(now)
	if err != nil {
		t.Fatal(err)
	}
	slow[20].DoneAt(now, good)
	if got := b.StatsAt(now).State; got != HalfOpen {
		t.Errorf("a call from before the opening made it %v", got)
	}
	probe.DoneAt(now, good)
	for _, p := range slow[21:] {
		p.DoneAt(now, bad)
	}
	if s := b.StatsAt(now); s.State != Closed || s.Calls != 0 {
		t.Errorf("%+v, want closed and empty", s)
	}
}

// cases/client.md D8
func TestCase_Client_D8_HalfOpenLetsOneProbePass(t *testing.T) {
	b := newBreaker(t, Config{})
	open(t, b, epoch)
	now := epoch.Add(5 * time.Second)

	var passed, refused atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	var probe Permit
	for range 50 {
		wg.Go(func() {
			<-start
			p, err := b.AllowAt(now)
			if err != nil {
				refused.Add(1)
				return
			}
			passed.Add(1)
			probe = p // the race detector would object to a second one
		})
	}
	close(start)
	wg.Wait()
	if passed.Load() != 1 || refused.Load() != 49 {
		t.Errorf("%d passed and %d were refused, want 1 and 49", passed.Load(), refused.Load())
	}
	probe.DoneAt(now, bad)
	if got := b.StatsAt(now).State; got != Open {
		t.Errorf("state %v after a failed probe", got)
	}
}

// cases/client.md D8: the next open period is jittered.
func TestCase_Client_D8_OpenPeriodIsJittered(t *testing.T) {
	for _, tt := range []struct {
		rand, jitter float64
		want         time.Duration
	}{
		{0, 0, 5 * time.Second},
		{0.5, 0, 6250 * time.Millisecond},
		{1, 0, 7500 * time.Millisecond},
		{1, 1, 10 * time.Second},
		{0.5, 0.1, 5250 * time.Millisecond},
		{math.NaN(), 0.1, 0},
	} {
		b := newBreaker(t, Config{Rand: fixed(tt.rand), Jitter: tt.jitter})
		open(t, b, epoch)
		if math.IsNaN(tt.rand) {
			continue // it must only not panic
		}
		if got := b.StatsAt(epoch).RetryAfter; got != tt.want {
			t.Errorf("rand %v, jitter %v: open for %v, want %v", tt.rand, tt.jitter, got, tt.want)
		}
		probe, err := b.AllowAt(epoch.Add(tt.want))
		if err != nil {
			t.Fatal(err)
		}
		probe.DoneAt(epoch.Add(tt.want), bad)
		if got := b.StatsAt(epoch.Add(tt.want)).RetryAfter; got != tt.want {
			t.Errorf("rand %v, jitter %v: open again for %v, want %v", tt.rand, tt.jitter, got, tt.want)
		}
	}
}

// cases/client.md D11: what was refused on this side is no failure of the other.
func TestCase_Client_D11_LocalRefusalsAreNoFailures(t *testing.T) {
	b := newBreaker(t, Config{})
	calls(t, b, epoch, comporta.Outcome{Result: comporta.ResultRefused}, 1000)
	if s := b.StatsAt(epoch); s.State != Closed || s.Calls != 0 {
		t.Errorf("%+v, want closed and empty", s)
	}
}

// cases/client.md D10: the breaker alone lets all calls to a hanging dependency
// pass; package bulkhead bounds them.
func TestCase_Client_D10_BreakerDoesNotBoundAHang(t *testing.T) {
	b := newBreaker(t, Config{})
	for i := range 50 {
		if _, err := b.AllowAt(epoch); err != nil {
			t.Fatalf("call %d: %v; then the caveat of the package comment is wrong", i, err)
		}
	}
}

func TestJudgeOutcome(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    comporta.Outcome
		want Verdict
	}{
		{"200", comporta.Outcome{Status: 200, Result: comporta.ResultOf(200)}, Success},
		{"304", comporta.Outcome{Status: 304, Result: comporta.ResultOf(304)}, Success},
		{"401", comporta.Outcome{Status: 401, Result: comporta.ResultOf(401)}, Success},
		{"404", comporta.Outcome{Status: 404, Result: comporta.ResultOf(404)}, Success},
		{"408", comporta.Outcome{Status: 408, Result: comporta.ResultOf(408)}, Ignored},
		{"409", comporta.Outcome{Status: 409, Result: comporta.ResultOf(409)}, Success},
		{"429", comporta.Outcome{Status: 429, Result: comporta.ResultOf(429)}, Ignored},
		{"500", comporta.Outcome{Status: 500, Result: comporta.ResultOf(500)}, Failure},
		{"501", comporta.Outcome{Status: 501, Result: comporta.ResultOf(501)}, Success},
		{"503", comporta.Outcome{Status: 503, Result: comporta.ResultOf(503)}, Failure},
		{"gRPC unavailable", comporta.Outcome{Status: 200, Result: comporta.ResultOfGRPC(14)}, Failure},
		{"gRPC not found", comporta.Outcome{Status: 200, Result: comporta.ResultOfGRPC(5)}, Success},
		{"timeout", comporta.Outcome{Result: comporta.ResultTimeout}, Failure},
		{"unreachable", comporta.Outcome{Result: comporta.ResultUnreachable}, Failure},
		{"abandoned", abandoned, Ignored},
		{"refused", comporta.Outcome{Result: comporta.ResultRefused}, Ignored},
		{"nothing", comporta.Outcome{}, Ignored},
		{"unknown", comporta.Outcome{Result: 200}, Ignored},
	} {
		if got := JudgeOutcome(tt.o); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestClockStepsBack(t *testing.T) {
	t.Run("while closed", func(t *testing.T) {
		b := newBreaker(t, Config{})
		calls(t, b, epoch, good, 1000)
		then := epoch.Add(-time.Hour - 3*time.Second) // into another bucket
		open(t, b, then)                              // the good calls of the future do not count
	})
	t.Run("a little while closed", func(t *testing.T) {
		b := newBreaker(t, Config{})
		calls(t, b, epoch, bad, 10)
		calls(t, b, epoch.Add(-2*time.Second), bad, 10)
		if got := b.StatsAt(epoch.Add(-2 * time.Second)).State; got != Open {
			t.Errorf("state %v: a small step back lost the window", got)
		}
	})
	t.Run("while open", func(t *testing.T) {
		b := newBreaker(t, Config{})
		open(t, b, epoch)
		then := epoch.Add(-time.Hour)
		if _, err := b.AllowAt(then); err == nil {
			t.Fatal("passed")
		}
		if got := b.StatsAt(then).RetryAfter; got != 5*time.Second {
			t.Errorf("open for %v, want 5s", got)
		}
		call(t, b, then.Add(5*time.Second), good)
	})
	t.Run("while half open", func(t *testing.T) {
		b := newBreaker(t, Config{})
		open(t, b, epoch)
		if _, err := b.AllowAt(epoch.Add(5 * time.Second)); err != nil { // lost
			t.Fatal(err)
		}
		then := epoch.Add(-time.Hour)
		_, err := b.AllowAt(then)
		if refusal, ok := errors.AsType[*OpenError](err); !ok || refusal.RetryAfter != DefaultProbeTimeout {
			t.Errorf("got %v, want a wait of one probe", err)
		}
	})
	t.Run("extremes", func(t *testing.T) {
		b := newBreaker(t, Config{})
		for _, now := range []time.Time{{}, time.Unix(1<<60, 0), time.Unix(-1<<60, 0), time.Unix(0, math.MaxInt64)} {
			for range 30 {
				if p, err := b.AllowAt(now); err == nil {
					p.DoneAt(now, bad)
				}
				b.StatsAt(now)
			}
		}
	})
}

// A bucket that is full halves, and keeps its ratio.
func TestFullBucketKeepsItsRatio(t *testing.T) {
	var w window
	for i := range 1_000_000 {
		w.add(7, i%4 == 0)
	}
	calls, failures := w.sum(7)
	if calls < maxMinimum || calls > bucketFull {
		t.Errorf("%d calls", calls)
	}
	if share := float64(failures) / float64(calls); share < 0.24 || share > 0.26 {
		t.Errorf("share %v, want a quarter", share)
	}
}

func TestTrace(t *testing.T) {
	var changes []Change
	refused := 0
	b := newBreaker(t, Config{Trace: Trace{
		Changed: func(_ time.Time, c Change) { changes = append(changes, c) },
		Refused: func(time.Time) { refused++ },
	}})
	call(t, b, epoch, good)
	open2 := func(now time.Time) { calls(t, b, now, bad, 19) }
	open2(epoch)
	_, _ = b.AllowAt(epoch)
	call(t, b, epoch.Add(5*time.Second), bad)
	call(t, b, epoch.Add(10*time.Second), good)
	want := []Change{
		{Closed, Open, 20, 19, 5 * time.Second},
		{From: Open, To: HalfOpen},
		{From: HalfOpen, To: Open, Open: 5 * time.Second},
		{From: Open, To: HalfOpen},
		{From: HalfOpen, To: Closed},
	}
	if len(changes) != len(want) {
		t.Fatalf("changes %+v, want %+v", changes, want)
	}
	for i := range want {
		if changes[i] != want[i] {
			t.Errorf("change %d: %+v, want %+v", i, changes[i], want[i])
		}
	}
	if refused != 1 {
		t.Errorf("%d refused, want 1", refused)
	}
}

func TestNewNamesEveryProblem(t *testing.T) {
	_, err := New(Config{
		Window: time.Millisecond, Minimum: -1, Failures: math.NaN(), Open: -1,
		Jitter: 2, Probes: -1, ProbeTimeout: -1,
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, field := range []string{"Window", "Minimum", "Failures", "Open", "Jitter", "Probes", "ProbeTimeout"} {
		if !strings.Contains(err.Error(), "breaker: "+field+":") {
			t.Errorf("%s is not named in:\n%v", field, err)
		}
	}
}

func TestStateNames(t *testing.T) {
	if Closed.String() != "closed" || Open.String() != "open" || HalfOpen.String() != "half_open" || State(9).String() != "unknown" {
		t.Error("names")
	}
}

func TestZeroPermit(*testing.T) { Permit{}.Done(good) }

// Nothing on the way of a call allocates, whether it passes or not.
func TestAllocations(t *testing.T) {
	b := newBreaker(t, Config{})
	pass := func() {
		p, _ := b.AllowAt(epoch)
		p.DoneAt(epoch, good)
	}
	if n := testing.AllocsPerRun(1000, pass); n != 0 {
		t.Errorf("closed: %v allocations", n)
	}
	b = newBreaker(t, Config{})
	open(t, b, epoch)
	if n := testing.AllocsPerRun(1000, func() { _, _ = b.AllowAt(epoch) }); n != 0 {
		t.Errorf("open: %v allocations", n)
	}
	now := epoch.Add(5 * time.Second)
	if _, err := b.AllowAt(now); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() { _, _ = b.AllowAt(now) }); n != 0 {
		t.Errorf("half open: %v allocations", n)
	}
}
