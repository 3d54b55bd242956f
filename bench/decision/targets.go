package main

import "fmt"

// The absolute targets.
const (
	admitTarget  = 400 // ns
	refuseTarget = 900 // ns
)

// verdict is one target and how it was met.
type verdict struct {
	name   string
	met    bool
	figure string
	bound  string
}

func (v verdict) String() string {
	word := "MISS"
	if v.met {
		word = "PASS"
	}
	return fmt.Sprintf("%s %s %s (target %s)", word, v.name, v.figure, v.bound)
}

func timeVerdict(name string, s summary, bound float64) verdict {
	return verdict{name, s.ns <= bound, fmt.Sprintf("%.0f ns", s.ns), fmt.Sprintf("<= %.0f ns", bound)}
}

func allocsVerdict(name string, s summary) verdict {
	return verdict{name, s.allocs == 0, fmt.Sprintf("%.2f", s.allocs), "0"}
}

func tableVerdict(m memory) verdict {
	return verdict{
		"table_bytes", m.heap <= m.configured, fmt.Sprintf("%d", m.heap),
		fmt.Sprintf("<= %d under %d distinct keys", m.configured, m.keys),
	}
}

func pairVerdict(p pair) verdict {
	ours, theirs := p.ours.summary(), p.theirs.summary()
	return verdict{
		p.target, ours.ns < theirs.ns && ours.allocs <= theirs.allocs,
		fmt.Sprintf("%.2fx, %.2f of %.2f allocs", ours.ns/theirs.ns, ours.allocs, theirs.allocs),
		"< 1x, no more allocs",
	}
}
