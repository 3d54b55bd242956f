package proxy

import (
	"math"
	"net/url"
	"testing"
	"time"
)

func TestVitals(t *testing.T) {
	h := &Health{Healthy: 2, Unhealthy: 3}
	now := time.Unix(1000, 0)
	var v vitals
	for i, step := range []struct {
		good    bool
		changed bool
		out     bool
	}{
		{false, false, false},
		{false, false, false},
		{true, false, false}, // not in a row
		{false, false, false},
		{false, false, false},
		{false, true, true},
		{false, false, true},
		{true, false, true},
		{false, false, true},
		{true, false, true},
		{true, true, false},
		{true, false, false},
	} {
		now = now.Add(time.Second)
		if got := v.checkedAt(now, step.good, h); got != step.changed || v.out.Load() != step.out {
			t.Errorf("step %d: changed %v, out %v", i, got, v.out.Load())
		}
	}
}

func TestSlowStart(t *testing.T) {
	now := time.Unix(1000, 0)
	var v vitals
	if got := v.shareAt(now, 10*time.Second); got != 1 {
		t.Errorf("one that was never away: %v", got)
	}
	v.backAt(now)
	for after, want := range map[time.Duration]float64{0: 0.1, 5 * time.Second: 0.55} {
		if got := v.shareAt(now.Add(after), 10*time.Second); math.Abs(got-want) > 1e-9 {
			t.Errorf("after %v: %v, want %v", after, got, want)
		}
	}
	if got := v.shareAt(now, 0); got != 1 {
		t.Errorf("without a slow start: %v", got)
	}
	if got := v.shareAt(now.Add(10*time.Second), 10*time.Second); got != 1 {
		t.Errorf("at its end: %v", got)
	}
	v.backAt(now)
	if got := v.shareAt(now.Add(-time.Hour), 10*time.Second); got != 1 || v.back.Load() != 0 {
		t.Errorf("with a clock that was set back: %v", got)
	}
}

// house returns a proxy in front of n upstreams that nobody asks.
func house(t *testing.T, n int) *Proxy {
	t.Helper()
	c := Config{}
	for i := range n {
		c.Upstreams = append(c.Upstreams, &url.URL{Scheme: "http", Host: string(rune('a' + i))})
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// shares returns how often each upstream is chosen, over 20,000 times: a share is
// off by 2 % less than once in 10^8.
func shares(p *Proxy, now time.Time, not *upstream) []float64 {
	const times = 20_000
	got := make([]float64, len(p.upstreams))
	for range times {
		up, _, _ := p.choose(now, not)
		for i := range p.upstreams {
			if p.upstreams[i] == up {
				got[i]++
			}
		}
	}
	for i := range got {
		got[i] /= times
	}
	return got
}

func TestChoose(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tt := range []struct {
		name   string
		change func(ups []*upstream) (not *upstream)
		want   [3]float64
	}{
		{"all alike", func([]*upstream) *upstream { return nil }, [3]float64{1. / 3, 1. / 3, 1. / 3}},
		{"one is busier", func(ups []*upstream) *upstream { ups[0].inFlight.Store(1); return nil }, [3]float64{0, 0.5, 0.5}},
		{"one is out", func(ups []*upstream) *upstream { ups[1].vitals.out.Store(true); return nil }, [3]float64{0.5, 0, 0.5}},
		{"one is left", func(ups []*upstream) *upstream {
			ups[0].vitals.out.Store(true)
			ups[1].vitals.out.Store(true)
			ups[2].inFlight.Store(1000)
			return nil
		}, [3]float64{0, 0, 1}},
		{"all are out, so all are in", func(ups []*upstream) *upstream {
			for _, up := range ups {
				up.vitals.out.Store(true)
			}
			return nil
		}, [3]float64{1. / 3, 1. / 3, 1. / 3}},
		{"one has failed", func(ups []*upstream) *upstream { return ups[2] }, [3]float64{0.5, 0.5, 0}},
		// Of six pairs four have the cold one; it is taken in a tenth of its cases, of
		// which nothing is said of the load.
		{"one is cold", func(ups []*upstream) *upstream { ups[0].vitals.backAt(now); return nil }, [3]float64{1. / 30, 29. / 60, 29. / 60}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := house(t, 3)
			not := tt.change(p.upstreams)
			for i, got := range shares(p, now, not) {
				if math.Abs(got-tt.want[i]) > 0.04 {
					t.Errorf("upstream %d: %.3f, want %.3f", i, got, tt.want[i])
				}
			}
		})
	}
	p := house(t, 1)
	p.upstreams[0].vitals.out.Store(true)
	if up, _, _ := p.choose(now, nil); up == nil {
		t.Error("a single upstream is never out")
	}
	if up, _, _ := p.choose(now, p.upstreams[0]); up != nil {
		t.Error("there is no other")
	}
}

func TestPurse(t *testing.T) {
	r := &Retries{Budget: 0.25, Burst: 2}
	var p purse
	for range 100 {
		p.earn(r)
	}
	for i := range 3 {
		if got := p.spend(); got != (i < 2) {
			t.Errorf("retry %d: %v", i, got)
		}
	}
	for range 3 {
		p.earn(r)
	}
	if p.spend() {
		t.Error("spent before it was earned")
	}
	if p.earn(r); !p.spend() {
		t.Error("four requests earn one retry")
	}
	if got := p.refused.Load(); got != 2 {
		t.Errorf("%d refused", got)
	}
}
