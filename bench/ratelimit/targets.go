package main

import (
	"fmt"
	"time"

	"github.com/comporta/comporta/bench/internal/measure"
)

// The targets.
const (
	bytesTarget = 48 // a key
	hotTarget   = 15 // times redis_rate
	coldTarget  = 5
	p99Target   = 5 // times shorter than redis_rate's
)

// localVerdict wants ours to be the fastest of all.
func localVerdict(pairs []measure.Pair) measure.Verdict {
	v := measure.Verdict{Name: pairs[0].Target, Met: true, Bound: "faster than every other"}
	fastest, which := 0.0, ""
	for _, p := range pairs {
		ratio := p.Ours.Summary().NS / p.Theirs.Summary().NS
		v.Met = v.Met && ratio < 1
		if ratio > fastest {
			fastest, which = ratio, p.What
		}
	}
	first := pairs[0]
	v.Figure = fmt.Sprintf("%.0f ns, %.2fx the time of x/time; %.2fx that of the next, %s",
		first.Ours.Summary().NS, first.Ours.Summary().NS/first.Theirs.Summary().NS, fastest, which)
	return v
}

func allocsVerdict(pairs []measure.Pair) measure.Verdict {
	most := 0.0
	for _, p := range pairs {
		most = max(most, p.Ours.Summary().Allocs)
	}
	return measure.Verdict{Name: "local_allocs", Met: most == 0, Figure: fmt.Sprintf("%.2f", most), Bound: "0"}
}

func bytesVerdict(bytes []float64) measure.Verdict {
	return measure.Verdict{
		Name: "local_bytes", Met: bytes[0] <= bytesTarget, Figure: fmt.Sprintf("%.1f a key", bytes[0]), Bound: fmt.Sprintf("<= %d", bytesTarget),
	}
}

// timesVerdict holds ours against redis_rate, the first of the rivals.
func timesVerdict(name string, pairs []measure.Pair, target float64) measure.Verdict {
	o, t := pairs[0].Ours.Summary().NS, pairs[0].Theirs.Summary().NS
	return measure.Verdict{
		Name: name, Met: t/o >= target, Figure: fmt.Sprintf("%.0f/s, %.1fx of redis_rate", 1e9/o, t/o), Bound: fmt.Sprintf(">= %.0fx", target),
	}
}

func p99Verdict(hot, cold *rivalry) measure.Verdict {
	v := measure.Verdict{Name: "redis_p99", Met: true, Bound: fmt.Sprintf("<= 1/%d of redis_rate, hot and cold", p99Target)}
	for i, r := range []*rivalry{hot, cold} {
		o, t := r.ours[0].p99(), r.theirs[0].p99()
		v.Met = v.Met && o <= t/p99Target
		if i > 0 {
			v.Figure += "; "
		}
		v.Figure += fmt.Sprintf("%s of %s", short(o), short(t))
	}
	return v
}

func accuracyVerdict(runs []accuracy) measure.Verdict {
	v := measure.Verdict{Name: "accuracy_6_nodes", Met: true, Bound: "<= C + r·t + min(N·L, r·T), every run"}
	worst, reported := 0.0, 0.0
	for i := range runs {
		a := &runs[i]
		v.Met = v.Met && a.admitted <= a.bound() && a.errors == 0
		worst, reported = max(worst, float64(a.admitted-a.limit)/float64(a.mostBeyond)), max(reported, a.reported)
	}
	v.Figure = fmt.Sprintf("%d runs, at worst %.2f of the last term beyond the limit, %.2f by the metric", len(runs), worst, reported)
	return v
}

// short writes a duration with three digits.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%.2f µs", float64(d)/1e3)
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", float64(d)/1e3)
	}
	return fmt.Sprintf("%.2f ms", float64(d)/1e6)
}
