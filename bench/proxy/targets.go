package main

import (
	"fmt"

	"github.com/comporta/comporta/bench/internal/measure"
)

// targets bound what the whole gate may cost of another row of its table.
var targets = []struct {
	name, table, of string
	bound           float64
}{
	{"get_vs_reverseproxy", tableGet, nameReverse, 0.6},
	{"get_vs_caddy", tableGet, nameCaddy, 0.35},
	{"get_vs_nginx", tableGet, nameNginx, 2.5},
	{"post_vs_reverseproxy", tablePost, nameReverse, 0.7},
	{"refuse_vs_nethttp", tableRefuse, nameNetHTTP, 1.0},
	{"refuse_vs_nginx", tableRefuse, nameNginx, 2.5},
}

// verdicts judges what was measured.
func (r *result) verdicts() []measure.Verdict {
	var vs []measure.Verdict
	for _, t := range targets {
		if ratio, ok := r.ratio(t.table, nameGate, t.of); ok {
			vs = append(vs, measure.Verdict{
				Name: t.name, Met: ratio <= t.bound,
				Figure: fmt.Sprintf("%.2fx", ratio), Bound: fmt.Sprintf("<= %.2fx", t.bound),
			})
		}
	}
	return vs
}
