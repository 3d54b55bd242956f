package breaker

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/comporta/comporta"
)

// model is the breaker written plainly: a list of what ended when.
type model struct {
	state  State
	until  time.Time
	ended  []ending // of the closed era
	passed int      // successes of the half-open era
}

type ending struct {
	at     time.Time
	failed bool
}

// TestRandomSequences drives a breaker and the model with the same calls, and
// holds the promises that do not depend on either.
func TestRandomSequences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			Minimum:  rapid.IntRange(1, 30).Draw(t, "minimum"),
			Failures: rapid.SampledFrom([]float64{0.1, 0.5, 1}).Draw(t, "failures"),
			Probes:   rapid.IntRange(1, 4).Draw(t, "probes"),
			Rand:     fixed(rapid.Float64Range(0, 1).Draw(t, "rand")),
		}
		b, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		var changes []Change
		b.config.Trace.Changed = func(_ time.Time, c Change) { changes = append(changes, c) }
		m := model{}
		now := epoch
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond)
			before := b.StatsAt(now).State
			if before != m.at(now) {
				t.Fatalf("state %v, the model says %v", before, m.at(now))
			}
			p, err := b.AllowAt(now)
			if passed := err == nil; passed != (before != Open) {
				t.Fatalf("state %v: passed is %v", before, passed) // calls end at once, so a probe is never in the way
			}
			if err != nil {
				continue
			}
			o := rapid.SampledFrom([]comporta.Outcome{good, bad, bad, abandoned}).Draw(t, "outcome")
			p.DoneAt(now, o)
			m.done(b, now, before, o)
		}
		for i, c := range changes {
			if i > 0 && changes[i-1].To != c.From {
				t.Fatalf("change %d leaves %v, but %v was entered", i, c.From, changes[i-1].To)
			}
			if c.From == Closed && c.To != Open || c.From == Open && c.To != HalfOpen {
				t.Fatalf("impossible change %+v", c)
			}
			if c.From == Closed && (c.Calls < b.config.Minimum || float64(c.Failures) < b.config.Failures*float64(c.Calls)) {
				t.Fatalf("opened without reason: %+v", c)
			}
		}
	})
}

func (m *model) at(now time.Time) State {
	if m.state == Open && !now.Before(m.until) {
		return HalfOpen
	}
	return m.state
}

// done says what the outcome of a call does.
func (m *model) done(b *Breaker, now time.Time, before State, o comporta.Outcome) {
	verdict := JudgeOutcome(o)
	switch {
	case before == HalfOpen && verdict == Failure:
		m.open(b, now)
	case before == HalfOpen:
		m.state = HalfOpen
		if verdict == Success {
			m.passed++
		}
		if m.passed == b.config.Probes {
			*m = model{}
		}
	case verdict != Ignored:
		m.ended = append(m.ended, ending{now, verdict == Failure})
		calls, failures := 0, 0
		tick := now.UnixNano() / b.width
		for _, e := range m.ended {
			if e.at.UnixNano()/b.width > tick-buckets {
				calls++
				if e.failed {
					failures++
				}
			}
		}
		if calls >= b.config.Minimum && float64(failures) >= b.config.Failures*float64(calls) {
			m.open(b, now)
		}
	}
}

func (m *model) open(b *Breaker, now time.Time) {
	extra := b.config.Jitter * b.config.Rand() * float64(b.config.Open)
	*m = model{state: Open, until: now.Add(b.config.Open + time.Duration(int64(extra)))}
}

// TestHammer holds under the race detector that a trial never has more than its
// probes in flight, whatever the goroutines do.
func TestHammer(t *testing.T) {
	const probes = 3
	var clock, refused, passed atomic.Int64
	clock.Store(epoch.UnixNano())
	var changes [numStates][numStates]atomic.Int64
	b := newBreaker(t, Config{Probes: probes, Minimum: 5, Open: time.Second, Trace: Trace{
		Changed: func(_ time.Time, c Change) { changes[c.From][c.To].Add(1) },
	}})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 5000 {
				now := time.Unix(0, clock.Add(int64(time.Millisecond)))
				p, err := b.AllowAt(now)
				if err != nil {
					refused.Add(1)
					continue
				}
				passed.Add(1)
				if p.probe != 0 {
					p.era.trial.mu.Lock()
					if n := len(p.era.trial.out) + p.era.trial.passed; n > probes {
						t.Errorf("%d probes", n)
					}
					p.era.trial.mu.Unlock()
				}
				o := good
				if (i/500+g)%2 == 0 || i%3 == 0 {
					o = bad
				}
				p.DoneAt(now, o)
				b.StatsAt(now)
			}
		})
	}
	wg.Wait()
	if passed.Load()+refused.Load() != 8*5000 || refused.Load() == 0 {
		t.Errorf("%d passed, %d refused", passed.Load(), refused.Load())
	}
	into := changes[Open][HalfOpen].Load()
	outOf := changes[HalfOpen][Open].Load() + changes[HalfOpen][Closed].Load()
	if into == 0 || into-outOf < 0 || into-outOf > 1 {
		t.Errorf("half open was entered %d times and left %d times", into, outOf)
	}
	if d := changes[Closed][Open].Load() - changes[HalfOpen][Closed].Load(); d < 0 || d > 1 {
		t.Errorf("opened from closed %d times more often than closed", d)
	}
}
