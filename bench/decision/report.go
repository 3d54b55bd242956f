package main

import (
	"fmt"
	"strings"

	"github.com/comporta/comporta/bench/internal/measure"
)

// result is all that a run has found out.
type result struct {
	rounds        int
	admit, refuse *measure.Subject
	others        []*measure.Subject // measured for the table, without a target
	pairs         []measure.Pair
	tables        memory
}

func (r *result) verdicts() []measure.Verdict {
	admit, refuse := r.admit.Summary(), r.refuse.Summary()
	vs := []measure.Verdict{
		timeVerdict("admit_ns", admit, admitTarget), allocsVerdict("admit_allocs", admit),
		timeVerdict("refuse_ns", refuse, refuseTarget), allocsVerdict("refuse_allocs", refuse),
		tableVerdict(r.tables),
	}
	for _, p := range r.pairs {
		vs = append(vs, pairVerdict(p.Target, p.Ours.Summary(), p.Theirs.Summary()))
	}
	return vs
}

// markdown is the report as the README quotes it.
func (r *result) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Minimum of %d rounds, with the range; one goroutine; %s.\n\n", r.rounds, measure.Machine())
	b.WriteString("| one decision | ns | range | CPU ns | allocs | bytes |\n|---|--:|--:|--:|--:|--:|\n")
	for _, s := range append([]*measure.Subject{r.admit, r.refuse}, r.others...) {
		x := s.Summary()
		fmt.Fprintf(&b, "| %s | %.0f | %.0f–%.0f | %.0f | %.2f | %.0f |\n", s.Name, x.NS, x.NS, x.Worst, x.CPU, x.Allocs, x.Bytes)
	}
	b.WriteString("\n| like against like | ns, ours | theirs | ratio | CPU ns | allocs | bytes |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for _, p := range r.pairs {
		o, t := p.Ours.Summary(), p.Theirs.Summary()
		fmt.Fprintf(&b, "| %s | %.0f–%.0f | %.0f–%.0f | %.2f | %.0f : %.0f | %.2f : %.2f | %.0f : %.0f |\n",
			p.What, o.NS, o.Worst, t.NS, t.Worst, o.NS/t.NS, o.CPU, t.CPU, o.Allocs, t.Allocs, o.Bytes, t.Bytes)
	}
	fmt.Fprintf(&b, "\nAfter %d million distinct keys the tables hold %.2f MiB of the %d MiB they were given.\n",
		r.tables.keys/1_000_000, float64(r.tables.heap)/(1<<20), r.tables.configured>>20)
	return b.String()
}
