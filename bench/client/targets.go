package main

import (
	"fmt"
	"time"

	"github.com/comporta/comporta/bench/internal/measure"
)

// The targets, for 400 calls by 20 workers.
const (
	outageBurst   = 10 // what an outage may cost above one call each
	nestedTarget  = attempts
	lateTarget    = 10 * time.Millisecond
	boundedAllocs = 3
	freeAllocs    = 8
	successTarget = 600 // ns
)

// stormVerdicts judge the envelope as it is by default, with nothing that would
// keep calls from leaving.
func stormVerdicts(w weather, s storms) []measure.Verdict {
	return []measure.Verdict{
		{
			Name: "outage_calls", Met: s.outage <= int64(w.calls+outageBurst),
			Figure: fmt.Sprintf("%d calls of %d operations", s.outage, w.calls), Bound: fmt.Sprintf("<= %d", w.calls+outageBurst),
		},
		{
			Name: "nested_calls", Met: s.nested <= nestedTarget,
			Figure: fmt.Sprintf("%.1f calls an operation of %d layers", s.nested, layers), Bound: fmt.Sprintf("<= %d", nestedTarget),
		},
		{
			Name: "late_retry_after", Met: s.late < lateTarget && s.lateAnswered && s.lateCalls == 1,
			Figure: lateText(s), Bound: fmt.Sprintf("< %v, 1 call, with its answer", lateTarget),
		},
		{
			Name: "connections", Met: s.connections <= int64(w.workers),
			Figure: fmt.Sprint(s.connections), Bound: fmt.Sprintf("<= %d", w.workers),
		},
		{Name: "goroutines", Met: s.goroutines == 0, Figure: fmt.Sprintf("%d left", s.goroutines), Bound: "0"},
	}
}

func lateText(s storms) string {
	answer := "with its answer"
	if !s.lateAnswered {
		answer = "without an answer"
	}
	return fmt.Sprintf("%.1f ms, %d call(s), %s", s.late.Seconds()*1000, s.lateCalls, answer)
}

// successVerdicts judge everything on.
func successVerdicts(bounded, free measure.Sample) []measure.Verdict {
	return []measure.Verdict{
		{
			Name: "success_allocs", Met: bounded.Allocs <= boundedAllocs && free.Allocs <= freeAllocs,
			Figure: fmt.Sprintf("%.2f with a deadline, %.2f without", bounded.Allocs, free.Allocs),
			Bound:  fmt.Sprintf("<= %d and <= %d", boundedAllocs, freeAllocs),
		},
		{
			Name: "success_ns", Met: bounded.NS <= successTarget && free.NS <= successTarget,
			Figure: fmt.Sprintf("%.0f ns with a deadline, %.0f ns without", bounded.NS, free.NS), Bound: fmt.Sprintf("<= %d ns", successTarget),
		},
	}
}
