package main

import (
	"fmt"
	"strings"

	"github.com/comporta/comporta/bench/internal/measure"
)

// result is all that a run has found out.
type result struct {
	options options

	bytes     []float64 // a key, in the order of locals
	local     []measure.Pair
	hot, cold *rivalry
	accuracy  []accuracy

	hotPairs, coldPairs []measure.Pair
}

func (r *result) verdicts() []measure.Verdict {
	return []measure.Verdict{
		localVerdict(r.local), allocsVerdict(r.local), bytesVerdict(r.bytes),
		timesVerdict("redis_hot", r.hotPairs, hotTarget), timesVerdict("redis_cold", r.coldPairs, coldTarget),
		p99Verdict(r.hot, r.cold), accuracyVerdict(r.accuracy),
	}
}

// markdown is the report as the README quotes it.
func (r *result) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "In one process, %d keys; minimum of %d rounds, with the range; one goroutine; %s.\n\n", r.options.keys, r.options.rounds, measure.Machine())
	b.WriteString("| a decision, against | ns, ours | theirs | ratio | allocs | bytes a key |\n|---|--:|--:|--:|--:|--:|\n")
	for i, p := range r.local {
		o, t := p.Ours.Summary(), p.Theirs.Summary()
		fmt.Fprintf(&b, "| %s | %.0f–%.0f | %.0f–%.0f | %.2f | %.2f : %.2f | %.0f : %.0f |\n",
			p.What, o.NS, o.Worst, t.NS, t.Worst, o.NS/t.NS, o.Allocs, t.Allocs, r.bytes[0], r.bytes[i+1])
	}
	fmt.Fprintf(&b, "\nThrough one Redis on the same machine, %d goroutines.\n\n", r.options.callers)
	b.WriteString("| keys, against | decisions/s, ours | theirs | times | 99th percentile, ours | theirs |\n|---|--:|--:|--:|--:|--:|\n")
	for _, part := range []struct {
		what  string
		r     *rivalry
		pairs []measure.Pair
	}{{fmt.Sprintf("%d hot", hotKeys), r.hot, r.hotPairs}, {fmt.Sprintf("%d cold", r.options.cold), r.cold, r.coldPairs}} {
		for i, p := range part.pairs {
			o, t := p.Ours.Summary().NS, p.Theirs.Summary().NS
			fmt.Fprintf(&b, "| %s, %s | %.0f | %.0f | %.1f | %s | %s |\n",
				part.what, p.What, 1e9/o, 1e9/t, t/o, short(part.r.ours[i].p99()), short(part.r.theirs[i].p99()))
		}
	}
	fmt.Fprintf(&b, "\nSix processes, %d callers each, one key of %d/s with that burst, flat out for about %v.\n\n", nodeCallers, nodeRate, r.options.run)
	b.WriteString("| run | admitted | C + r·t | bound | beyond the limit |\n|--:|--:|--:|--:|--:|\n")
	for i := range r.accuracy {
		a := &r.accuracy[i]
		fmt.Fprintf(&b, "| %d | %d | %d | %d | %d |\n", i+1, a.admitted, a.limit, a.bound(), max(a.admitted-a.limit, 0))
	}
	return b.String()
}
