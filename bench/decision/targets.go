package main

import (
	"fmt"

	"github.com/comporta/comporta/bench/internal/measure"
)

// The absolute targets.
const (
	admitTarget  = 400 // ns
	refuseTarget = 900 // ns
)

func timeVerdict(name string, s measure.Summary, bound float64) measure.Verdict {
	return measure.Verdict{Name: name, Met: s.NS <= bound, Figure: fmt.Sprintf("%.0f ns", s.NS), Bound: fmt.Sprintf("<= %.0f ns", bound)}
}

func allocsVerdict(name string, s measure.Summary) measure.Verdict {
	return measure.Verdict{Name: name, Met: s.Allocs == 0, Figure: fmt.Sprintf("%.2f", s.Allocs), Bound: "0"}
}

func tableVerdict(m memory) measure.Verdict {
	return measure.Verdict{
		Name: "table_bytes", Met: m.heap <= m.configured, Figure: fmt.Sprintf("%d", m.heap),
		Bound: fmt.Sprintf("<= %d under %d distinct keys", m.configured, m.keys),
	}
}

func pairVerdict(target string, ours, theirs measure.Summary) measure.Verdict {
	return measure.Verdict{
		Name: target, Met: ours.NS < theirs.NS && ours.Allocs <= theirs.Allocs,
		Figure: fmt.Sprintf("%.2fx, %.2f of %.2f allocs", ours.NS/theirs.NS, ours.Allocs, theirs.Allocs),
		Bound:  "< 1x, no more allocs",
	}
}
