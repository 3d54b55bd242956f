package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/comporta/comporta/bench/internal/measure"
)

// result is all that a run has found out.
type result struct {
	rounds int
	rows   []*row
}

// measured starts everything and measures it.
func measured(ctx context.Context, o *options) (*result, error) {
	s, err := newStage(ctx)
	defer s.clear()
	if err != nil {
		return nil, err
	}
	rows, err := s.cast(ctx, func(table, name string) bool { return o.only.MatchString(table + ": " + name) })
	if err != nil {
		return nil, err
	}
	for _, r := range rows { // pools and tables fill before anything counts
		if _, err := r.measure(ctx, s.load, 1); err != nil {
			return nil, err
		}
	}
	order := slices.Clone(rows)
	for range o.rounds {
		for _, r := range order {
			x, err := r.measure(ctx, s.load, o.seconds)
			if err != nil {
				return nil, err
			}
			r.samples = append(r.samples, x)
		}
		slices.Reverse(order)
	}
	return &result{o.rounds, rows}, nil
}

// markdown is the report as the documents quote it.
func (r *result) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "CPU-seconds for 100,000 requests: minimum of %d rounds, with the range; %d connections, one processor for each proxy; %s.\n",
		r.rounds, connections, measure.Machine())
	table := ""
	for _, x := range r.rows {
		if x.table != table {
			table = x.table
			fmt.Fprintf(&b, "\n| %s | CPU s | range | of nginx | req/s | p50 ms | p99 ms | RSS MiB |\n|---|--:|--:|--:|--:|--:|--:|--:|\n", table)
		}
		best, worst := x.summary()
		ofNginx := "–"
		if ratio, ok := r.ratio(table, x.name, nameNginx); ok {
			ofNginx = fmt.Sprintf("%.2f", ratio)
		}
		fmt.Fprintf(&b, "| %s | %.2f | %.2f–%.2f | %s | %.0f | %.2f | %.2f | %.0f |\n", x.name, best.cpu, best.cpu, worst, ofNginx,
			best.rate, best.p50.Seconds()*1e3, best.p99.Seconds()*1e3, float64(best.rss)/(1<<20))
	}
	return b.String()
}

// ratio is what one row costs of another; false when one was not measured.
func (r *result) ratio(table, name, other string) (float64, bool) {
	a, b := r.find(table, name), r.find(table, other)
	if a == nil || b == nil {
		return 0, false
	}
	ours, _ := a.summary()
	theirs, _ := b.summary()
	return ours.cpu / theirs.cpu, true
}

func (r *result) find(table, name string) *row {
	for _, x := range r.rows {
		if x.table == table && x.name == name {
			return x
		}
	}
	return nil
}
