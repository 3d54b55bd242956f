package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/comporta/comporta/bench/internal/measure"
)

// The targets, of SQLite: what the CPU may cost a keyed request, and a repeat.
const (
	onceTarget   = 150 * time.Microsecond
	repeatTarget = 50 * time.Microsecond
)

// result is all that a run has found out.
type result struct {
	rounds int
	rows   []row
}

// row is what was found out about an engine.
type row struct {
	name, loss          string
	once, repeat, alone measure.Summary
	half, most          time.Duration // the wait of half of a crowd, and of 99 in 100
}

func newRow(name, loss string, crowd *work, subjects []*measure.Subject) *row {
	return &row{
		name: name, loss: loss, half: crowd.wait(0.5), most: crowd.wait(0.99),
		once: subjects[0].Summary(), repeat: subjects[1].Summary(), alone: subjects[2].Summary(),
	}
}

// markdown is the report as the guide quotes it.
func (r *result) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "A claim and an answer of half a KiB; %d callers; minimum of %d rounds; %s.\n\n", callers, r.rounds, measure.Machine())
	b.WriteString("| engine | CPU, claim and answer | a second | wait, half | wait, 99 % | alone | CPU, a repeat's look |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for _, row := range r.rows {
		fmt.Fprintf(&b, "| %s | %.0f µs | %.0f | %.1f ms | %.1f ms | %.2f ms | %.0f µs |\n", row.name,
			row.once.CPU/1e3, 1e9/row.once.NS, ms(row.half), ms(row.most), row.alone.NS/1e6, row.repeat.CPU/1e3)
	}
	b.WriteString("\nThe CPU is the gateway's; that of a server comes on top.\n")
	return b.String()
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

func (r *result) verdicts() (all []measure.Verdict) {
	for _, row := range r.rows {
		if row.name != "sqlite" {
			continue
		}
		for _, t := range []struct {
			name  string
			cpu   float64
			bound time.Duration
		}{{"sqlite_claim_and_finish_cpu", row.once.CPU, onceTarget}, {"sqlite_look_cpu", row.repeat.CPU, repeatTarget}} {
			got := time.Duration(t.cpu)
			all = append(all, measure.Verdict{
				Name: t.name, Met: got <= t.bound, Figure: got.Round(100 * time.Nanosecond).String(), Bound: fmt.Sprintf("<= %v", t.bound),
			})
		}
	}
	return all
}
