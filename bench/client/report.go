package main

import (
	"fmt"
	"strings"

	"github.com/comporta/comporta/bench/internal/measure"
)

// result is all that a run has found out.
type result struct {
	rounds  int
	weather weather
	storms  []storms // the first is the envelope as it is by default
	success []overhead
}

func (r *result) verdicts() []measure.Verdict {
	full := r.success[1] // everything on
	return append(stormVerdicts(r.weather, r.storms[0]), successVerdicts(over(full.bounded), over(full.free))...)
}

// markdown is the report as the README quotes it.
func (r *result) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "A service that is down; policy: %d attempts within %v. Calls that reached it, %s.\n\n", attempts, total, measure.Machine())
	fmt.Fprintf(&b, "| client | outage: %d operations, %d workers | connections | goroutines left | calls an operation of %d layers | `Retry-After: %s`, %v left |\n",
		r.weather.calls, r.weather.workers, layers, lateAfter, lateLeft)
	b.WriteString("|---|--:|--:|--:|--:|---|\n")
	for _, s := range r.storms {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %.1f | %s |\n", s.name, s.outage, s.connections, s.goroutines, s.nested, lateText(s))
	}
	fmt.Fprintf(&b, "\nA call that succeeds, over a plain `http.Client`; minimum of %d rounds.\n\n", r.rounds)
	b.WriteString("| client | ns, with a deadline | without | allocs, with a deadline | without |\n|---|--:|--:|--:|--:|\n")
	for _, o := range r.success {
		bounded, free := over(o.bounded), over(o.free)
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.2f | %.2f |\n", o.name, bounded.NS, free.NS, bounded.Allocs, free.Allocs)
	}
	return b.String()
}
