package seek

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		in   Config
		want Config
		bad  string // all of it, separated by |
	}{
		{Config{}, Config{32, 2, 1000}, ""},
		{Config{Max: 20}, Config{20, 2, 20}, ""},
		{Config{Max: 1}, Config{1, 1, 1}, ""},
		{Config{Min: 50}, Config{50, 50, 1000}, ""},
		{Config{Initial: 5000}, Config{5000, 2, 5000}, ""},
		{Config{8, 4, 16}, Config{8, 4, 16}, ""},
		{Config{-1, -2, -3}, Config{}, "Initial is -1|Min is -2|Max is -3"},
		{Config{0, 10, 5}, Config{}, "Min 10 is above Max 5"},
		{Config{1, 10, 5}, Config{}, "Min 10 is above Max 5|Initial 1 is below Min 10"},
		{Config{100, 2, 50}, Config{}, "Initial 100 is above Max 50"},
	} {
		got, err := c.in.normal()
		if c.bad == "" {
			if err != nil || got != c.want {
				t.Errorf("%+v: %+v, %v; want %+v", c.in, got, err, c.want)
			}
			continue
		}
		for want := range strings.SplitSeq(c.bad, "|") {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: error %v does not say %q", c.in, err, want)
			}
		}
		if l, err := New(c.in); l != nil || err == nil {
			t.Errorf("%+v: New accepts", c.in)
		}
	}
}

// cases/overload.md 14: the first requests fail, then good ones come.
func TestCase_Overload_B14_FirstFailuresMoveNothing(t *testing.T) {
	l := newLimit(t, Config{})
	now := epoch
	step := func(drop bool) {
		now = now.Add(10 * ms)
		l.StartAt(now, 1)
		now = now.Add(10 * ms)
		l.DoneAt(now, 0, 10*ms, drop)
		if l.Limit() != DefaultInitial {
			t.Fatalf("the limit moved to %d", l.Limit())
		}
	}
	for range 3 {
		step(true)
	}
	for range 1000 {
		step(false)
	}
	if m := l.Snapshot().Mode; m != ModeFree {
		t.Errorf("mode %v", m)
	}
}

// A window is as long as its own work: the silence before does not stretch it,
// and the age of one early sample does not shorten it.
func TestWindowBeginsWithWork(t *testing.T) {
	l := newLimit(t, Config{})
	l.StartAt(epoch, 1)
	l.IgnoreAt(epoch.Add(ms), 0)
	l.StartAt(epoch.Add(minute), 1)
	s := &l.seeker
	if age := s.now - s.open.start; age != 0 {
		t.Errorf("the window is %v old when work begins", age)
	}
}

// cases/overload.md 16 and 17: what is no sample enters no sum. In-flight is
// real whoever holds it, so the integral of concurrency does count it.
func TestCase_Overload_B16_B17_NoSampleEntersNoSum(t *testing.T) {
	l := newLimit(t, Config{})
	now := epoch
	l.StartAt(now, 1)
	l.StartAt(now, 2)
	now = now.Add(10 * ms)
	l.DoneAt(now, 1, 10*ms, false)
	before := l.seeker.open
	for i := range 1000 {
		now = now.Add(50 * time.Microsecond)
		switch i % 3 {
		case 0: // our own refusal
			l.RefusedAt(now)
		case 1: // a health check, a stream, or a caller who will leave
			l.StartAt(now, 2)
		case 2:
			l.IgnoreAt(now, 1)
		}
	}
	after := l.seeker.open
	if after.latencies != before.latencies || after.drops != before.drops || after.gap != before.gap {
		t.Errorf("sums moved: %+v, before %+v", after, before)
	}
	if after.area <= before.area {
		t.Error("in-flight was not integrated")
	}
	if l.Limit() != DefaultInitial || l.Snapshot().Decisions != 0 {
		t.Errorf("limit %d after %d decisions without a sample", l.Limit(), l.Snapshot().Decisions)
	}
}

// saturate brings a limit to a dither in front of a pool of 20.
func saturate(t testing.TB, l *Limit) {
	t.Helper()
	w := world{service: newPool(20, 50*ms), phases: []phase{{minute, 240, nil}, {minute, 600, nil}}}
	w.run(l, 1, nil)
	if m := l.Snapshot().Mode; m == ModeFree && l.Limit() == DefaultInitial {
		t.Fatal("nothing was learned")
	}
}

func TestClockStepsBack(t *testing.T) {
	for _, step := range []time.Duration{-ms, -99 * ms, -101 * ms, -time.Second, -time.Hour, -100 * 365 * 24 * time.Hour, 1e6 * time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			l := newLimit(t, Config{})
			saturate(t, l)
			now := epoch.Add(2 * minute)
			l.StartAt(now, 10)
			before, decisions := l.Limit(), l.Snapshot().Decisions
			now = now.Add(step)
			for range 9 {
				l.StartAt(now, 10)
				l.DoneAt(now, 9, 50*ms, false)
			}
			if l.Limit() != before || l.Snapshot().Decisions != decisions {
				t.Errorf("the limit moved from %d to %d", before, l.Limit())
			}
			// And learning goes on by the new clock.
			for range 2000 {
				now = now.Add(5 * ms)
				l.StartAt(now, 10)
				l.DoneAt(now, 9, 50*ms, false)
			}
			if l.Snapshot().Decisions == decisions {
				t.Error("nothing is decided after the step")
			}
		})
	}
}

func TestFreeze(t *testing.T) {
	l := newLimit(t, Config{})
	saturate(t, l)
	now := epoch.Add(2 * minute)
	l.FreezeAt(now, true)
	before := l.Snapshot()
	if !before.Frozen {
		t.Error("not frozen")
	}
	for range 1000 { // a breaker's probes time out
		now = now.Add(10 * ms)
		l.StartAt(now, 1)
		l.DoneAt(now, 0, 5*time.Second, true)
	}
	l.FreezeAt(now, true) // twice is once
	if after := l.Snapshot(); after != before {
		t.Errorf("moved while frozen: %+v, before %+v", after, before)
	}
	l.FreezeAt(now, false)
	if n := l.seeker.open.good + l.seeker.open.drops; n != 0 {
		t.Errorf("%d samples survived the thaw", n)
	}
	for range 1000 {
		now = now.Add(10 * ms)
		l.StartAt(now, 1)
		l.DoneAt(now, 0, 5*time.Second, true)
	}
	if l.Limit() >= before.Limit {
		t.Error("nothing is learned after the thaw")
	}
}

func TestStateSurvivesARestart(t *testing.T) {
	l := newLimit(t, Config{})
	saturate(t, l)
	data, err := json.Marshal(l.State())
	if err != nil {
		t.Fatal(err)
	}
	var st State
	if err := json.Unmarshal(data, &st); err != nil || st != l.State() {
		t.Fatalf("%s: %+v, %v", data, st, err)
	}
	r := newLimit(t, Config{})
	r.Restore(st)
	if r.Limit() != st.Limit || r.State() != st {
		t.Errorf("restored %d and %+v from %+v", r.Limit(), r.State(), st)
	}
	// The overload that was there before the restart finds a limit at the knee.
	w := world{service: newPool(20, 50*ms), phases: []phase{{minute, 600, nil}}}
	res := w.run(r, 1, nil)
	atMost(t, "highest limit after the restart", highest(res.levels), 50)
	atLeast(t, "goodput", share(res.sum(0, 60).good, w.run(static(20), 1, nil).sum(0, 60).good), .98)
}

func TestRestoreIsBounded(t *testing.T) {
	for _, c := range []struct {
		in    State
		limit int
		known bool
	}{
		{State{}, 32, false},
		{State{500, 50 * ms}, 128, true}, // four times the initial limit
		{State{1, ms}, 2, true},
		{State{-5, -ms}, 32, false},
		{State{math.MaxInt, math.MaxInt64}, 128, false},
	} {
		l := newLimit(t, Config{})
		l.Restore(c.in)
		if l.Limit() != c.limit || l.seeker.known != c.known {
			t.Errorf("%+v: limit %d, known %v", c.in, l.Limit(), l.seeker.known)
		}
	}
}

// What a restart takes over is the learned limit, not the point of an experiment.
func TestStateInEachMode(t *testing.T) {
	l := newLimit(t, Config{})
	s := &l.seeker
	s.level, s.base, s.prev, s.good = 10, 40, 80, 60
	for m, want := range map[Mode]int{ModeFree: 10, ModeTest: 80, ModeHigh: 40, ModeLow: 40, ModeOut: 60} {
		s.mode = m
		if got := l.State().Limit; got != want {
			t.Errorf("%v: %d, want %d", m, got, want)
		}
	}
}

func TestSetConfigKeepsWhatWasLearned(t *testing.T) {
	l := newLimit(t, Config{})
	saturate(t, l)
	was := l.Snapshot()
	if err := l.SetConfig(Config{Initial: 64, Max: 500}); err != nil {
		t.Fatal(err)
	}
	if now := l.Snapshot(); now.Limit != was.Limit || now.Baseline != was.Baseline || now.Mode != was.Mode {
		t.Errorf("a reload moved %+v to %+v", was, now)
	}
	if err := l.SetConfig(Config{Max: -1}); err == nil || l.Limit() != was.Limit {
		t.Errorf("a bad reload: %v, limit %d", err, l.Limit())
	}
	if err := l.SetConfig(Config{Max: 12}); err != nil || l.Limit() != 12 {
		t.Errorf("a lower ceiling: %v, limit %d", err, l.Limit())
	}
	if err := l.SetConfig(Config{Min: 50}); err != nil || l.Limit() != 50 {
		t.Errorf("a higher floor: %v, limit %d", err, l.Limit())
	}
}

// A pause of the service is no evidence; three windows with one are.
func TestPausesAreSkippedTwice(t *testing.T) {
	l := newLimit(t, Config{})
	now := epoch
	window := func(pause time.Duration) {
		for i := range 300 {
			now = now.Add(ms)
			if i == 30 {
				now = now.Add(pause)
			}
			l.StartAt(now, 6)
			l.DoneAt(now, 5, 5*ms, false)
		}
	}
	window(0)
	if n := l.Snapshot().Skipped; n != 0 {
		t.Fatalf("%d windows skipped without a pause", n)
	}
	decisions := l.Snapshot().Decisions
	for range 30 {
		window(2 * time.Second)
	}
	s := l.Snapshot()
	if s.Skipped == 0 || s.Decisions == decisions {
		t.Errorf("skipped %d, decided %d", s.Skipped, s.Decisions-decisions)
	}
	if s.Limit != DefaultInitial {
		t.Errorf("a limit that nobody touches moved to %d", s.Limit)
	}
}

func TestSameEventsSameLimits(t *testing.T) {
	w := world{service: newPool(20, 50*ms), phases: []phase{{minute, 600, nil}}}
	a, b := w.run(newLimit(t, Config{}), 3, nil), w.run(newLimit(t, Config{}), 3, nil)
	for i := range a.levels {
		if a.levels[i] != b.levels[i] {
			t.Fatalf("limits differ at %v s: %v and %v", i/10, a.levels[i], b.levels[i])
		}
	}
}

// Whatever happens, the limit stays within its bounds and nothing panics.
func TestAnySequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.IntRange(1, 50).Draw(t, "min")
		hi := rapid.IntRange(lo, 200).Draw(t, "max")
		l, err := New(Config{Min: lo, Max: hi, Initial: rapid.IntRange(lo, hi).Draw(t, "initial")})
		if err != nil {
			t.Fatal(err)
		}
		now, inflight := epoch, 0
		load := rapid.IntRange(0, 400).Draw(t, "load")
		latency := time.Duration(rapid.Int64Range(-1e6, 1e10).Draw(t, "latency"))
		for range rapid.IntRange(0, 1000).Draw(t, "events") {
			switch rapid.IntRange(0, 999).Draw(t, "event") {
			case 0:
				load = rapid.IntRange(0, 400).Draw(t, "load")
			case 1:
				latency = time.Duration(rapid.Int64().Draw(t, "latency"))
			case 2:
				now = now.Add(time.Duration(rapid.Int64().Draw(t, "jump")))
			case 3:
				l.FreezeAt(now, rapid.Bool().Draw(t, "frozen"))
			case 4:
				l.Restore(State{rapid.Int().Draw(t, "limit"), time.Duration(rapid.Int64().Draw(t, "baseline"))})
			}
			now = now.Add(time.Duration(rapid.Int64Range(-1e6, 1e7).Draw(t, "dt")))
			switch {
			case inflight < load && inflight < l.Limit():
				inflight++
				l.StartAt(now, inflight)
			case inflight < load:
				l.RefusedAt(now)
				inflight = max(0, inflight-1)
				l.DoneAt(now, inflight, latency, rapid.IntRange(0, 9).Draw(t, "drop") == 0)
			default:
				inflight--
				l.IgnoreAt(now, inflight) // below zero by a caller's mistake
			}
			if n := l.Limit(); n < lo || n > hi {
				t.Fatalf("limit %d outside %d to %d", n, lo, hi)
			}
			for _, x := range []float64{l.seeker.level, l.seeker.baseline, l.seeker.ebar, l.seeker.base, l.seeker.cv2} {
				if math.IsNaN(x) || math.IsInf(x, 0) || x < -1 {
					t.Fatalf("a state out of this world: %+v", l.seeker)
				}
			}
		}
	})
}

func TestManyGoroutines(t *testing.T) {
	l := newLimit(t, Config{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				now := epoch.Add(time.Duration(i*g) * 100 * time.Microsecond)
				l.StartAt(now, g)
				if n := l.Limit(); n < DefaultMin || n > DefaultMax {
					t.Errorf("limit %d", n)
				}
				l.RefusedAt(now)
				l.DoneAt(now, g, ms, i%7 == 0)
				if i%500 == 0 {
					l.FreezeAt(now, i%1000 == 0)
					l.Restore(l.State())
					_ = l.Snapshot() // for the race detector
				}
			}
		})
	}
	wg.Wait()
}

func TestNoAllocations(t *testing.T) {
	l := newLimit(t, Config{})
	saturate(t, l)
	now := epoch.Add(2 * minute)
	n := testing.AllocsPerRun(10_000, func() {
		now = now.Add(ms)
		l.StartAt(now, 21)
		l.RefusedAt(now)
		l.DoneAt(now, 20, 50*ms, false)
	})
	if n != 0 {
		t.Errorf("%v allocations per request", n)
	}
	if l.Snapshot().Decisions == 0 {
		t.Error("no window was judged meanwhile")
	}
}

func TestNames(t *testing.T) {
	if s := fmt.Sprint(ModeFree, ModeTest, ModeHigh, ModeLow, ModeOut, Mode(99)); s != "free test high low out unknown" {
		t.Error(s)
	}
	if s := fmt.Sprint(VerdictOurs, VerdictTheirs, VerdictUnclear, NumVerdicts); s != "ours theirs unclear unknown" {
		t.Error(s)
	}
}

func BenchmarkSample(b *testing.B) {
	l := newLimit(b, Config{})
	saturate(b, l)
	now := epoch.Add(2 * minute)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(ms)
		l.DoneAt(now, 20, 50*ms, false)
	}
}

func BenchmarkRequest(b *testing.B) {
	l := newLimit(b, Config{})
	saturate(b, l)
	now := epoch.Add(2 * minute)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(ms)
		l.StartAt(now, 21)
		l.DoneAt(now, 20, 50*ms, false)
	}
}

func BenchmarkLimit(b *testing.B) {
	l := newLimit(b, Config{})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if l.Limit() < 1 {
				b.Error("no limit")
			}
		}
	})
}
