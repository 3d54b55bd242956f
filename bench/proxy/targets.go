package main

import (
	"fmt"
	"time"

	"github.com/comporta/comporta/bench/internal/measure"
)

// targets bound what a row may cost of another of its table.
var targets = []struct {
	name, table, row, of string
	bound                float64
}{
	{"get_vs_reverseproxy", tableGet, nameGate, nameReverse, 0.6},
	{"get_vs_caddy", tableGet, nameGate, nameCaddy, 0.35},
	{"get_vs_nginx", tableGet, nameGate, nameNginx, 2.5},
	{"post_vs_reverseproxy", tablePost, nameGate, nameReverse, 0.7},
	{"refuse_vs_nethttp", tableRefuse, nameGate, nameNetHTTP, 1.0},
	{"refuse_vs_nginx", tableRefuse, nameGate, nameNginx, 2.5},
	{"replay_vs_forwarded", tableKeyed, nameReplay, nameNoKey, 1.0},
}

// keyCost bounds what a new key may add to a request.
const keyCost = 150 * time.Microsecond

// verdicts judges what was measured.
func (r *result) verdicts() []measure.Verdict {
	var vs []measure.Verdict
	for _, t := range targets {
		if ratio, ok := r.ratio(t.table, t.row, t.of); ok {
			vs = append(vs, measure.Verdict{
				Name: t.name, Met: ratio <= t.bound,
				Figure: fmt.Sprintf("%.2fx", ratio), Bound: fmt.Sprintf("<= %.2fx", t.bound),
			})
		}
	}
	if key, none := r.find(tableKeyed, nameNewKey), r.find(tableKeyed, nameNoKey); key != nil && none != nil {
		k, _ := key.summary()
		n, _ := none.summary()
		added := time.Duration((k.cpu - n.cpu) * 1e9 / 100_000)
		vs = append(vs, measure.Verdict{
			Name: "new_key", Met: added <= keyCost,
			Figure: fmt.Sprintf("%d µs CPU more", added.Microseconds()), Bound: fmt.Sprintf("<= %d µs", keyCost.Microseconds()),
		})
	}
	return vs
}
