package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"
)

// The tables.
const (
	tableGet    = "GET, 1 KiB"
	tablePost   = "POST, 10 KiB"
	tableRefuse = "refusal"
	tableKeyed  = "POST, 1 KiB"
)

// The rows that targets speak of.
const (
	nameNginx   = "nginx"
	nameCaddy   = "Caddy v2.11.9"
	nameReverse = "httputil.ReverseProxy, tuned"
	nameNetHTTP = "net/http handler"
	nameGate    = "comporta, whole gate"
	nameNoKey   = nameGate + ", no key"
	nameNewKey  = "a new key, on SQLite"
	nameReplay  = "a replay, on SQLite"
)

// row is one line of a table.
type row struct {
	table, name string
	ask         string
	refuses     bool
	server      *process
	samples     []sample
}

// sample is what one round says.
type sample struct {
	cpu      float64 // seconds for 100,000 requests
	rate     float64 // requests a second
	p50, p99 time.Duration
	rss      int64 // bytes
}

// contestant is a server, and how to start it.
type contestant struct {
	name  string
	start func(context.Context) (*process, error)
}

func (s *stage) proxies() []contestant {
	role := func(role string) func(context.Context) (*process, error) {
		return func(ctx context.Context) (*process, error) { return s.role(ctx, s.cpus.proxy, role) }
	}
	return []contestant{
		{nameNginx, func(ctx context.Context) (*process, error) { return s.nginx(ctx, nil) }},
		{"HAProxy", s.haproxy},
		{"fasthttp v1.78.0, HostClient", role(roleFasthttp)},
		{nameReverse, role(roleReverseProxy)},
		{nameCaddy, s.caddy},
		{"comporta, no gate", role(roleBare)},
		{nameGate, func(ctx context.Context) (*process, error) { return s.gateway(ctx, "open", openCapacity, openHeld, "") }},
	}
}

func (s *stage) refusers() []contestant {
	return []contestant{
		{nameNginx, func(ctx context.Context) (*process, error) {
			if _, err := s.full(ctx); err != nil {
				return nil, err
			}
			return s.nginx(ctx, s.refusal)
		}},
		{nameNetHTTP, func(ctx context.Context) (*process, error) {
			if _, err := s.full(ctx); err != nil {
				return nil, err
			}
			file := filepath.Join(s.dir, "refusal.json")
			if err := s.refusal.write(file); err != nil {
				return nil, err
			}
			return s.role(ctx, s.cpus.proxy, roleRefuse, "-answer", file)
		}},
		{nameGate, s.full},
	}
}

// cast starts the servers of the rows that are wanted. A proxy is one process for
// both of its rows.
func (s *stage) cast(ctx context.Context, wanted func(table, name string) bool) ([]*row, error) {
	var get, post, refuse, keyed []*row
	launch := func(c contestant, rows ...*row) error {
		p, err := c.start(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		s.servers = append(s.servers, p) // stopped twice does no harm
		for _, r := range rows {
			r.server = p
		}
		return nil
	}
	for _, c := range s.proxies() {
		var rows []*row
		if wanted(tableGet, c.name) {
			r := &row{table: tableGet, name: c.name, ask: askGet}
			get, rows = append(get, r), append(rows, r)
		}
		if wanted(tablePost, c.name) {
			r := &row{table: tablePost, name: c.name, ask: askPost}
			post, rows = append(post, r), append(rows, r)
		}
		if len(rows) > 0 {
			if err := launch(c, rows...); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range s.refusers() {
		if wanted(tableRefuse, c.name) {
			r := &row{table: tableRefuse, name: c.name, ask: askGet, refuses: true}
			refuse = append(refuse, r)
			if err := launch(c, r); err != nil {
				return nil, err
			}
		}
	}
	for _, r := range []*row{
		{table: tableKeyed, name: nameNoKey, ask: askOrder},
		{table: tableKeyed, name: nameNewKey, ask: askKey},
		{table: tableKeyed, name: nameReplay, ask: askRepeat},
	} {
		if wanted(r.table, r.name) {
			keyed = append(keyed, r)
		}
	}
	if len(keyed) > 0 {
		if err := launch(contestant{tableKeyed, s.keyed}, keyed...); err != nil {
			return nil, err
		}
	}
	return slices.Concat(get, post, refuse, keyed), nil
}

// measure loads a row for some seconds and returns what that cost.
func (r *row) measure(ctx context.Context, l *load, seconds int) (sample, error) {
	before, err := r.server.cpu()
	if err != nil {
		return sample{}, err
	}
	h, err := l.run(ctx, r.server.addr, r.ask, seconds)
	if err != nil {
		return sample{}, fmt.Errorf("%s, %s: %w", r.table, r.name, err)
	}
	after, err := r.server.cpu()
	if err != nil {
		return sample{}, err
	}
	if want := map[bool]int{true: h.Requests}[r.refuses]; h.Refused != want || h.Broken > 0 {
		return sample{}, fmt.Errorf("%s, %s: of %d requests %d were refused, want %d, and %d broke\n%s",
			r.table, r.name, h.Requests, h.Refused, want, h.Broken, &r.server.said)
	}
	return sample{
		cpu: (after - before).Seconds() / float64(h.Requests) * 100_000, rate: float64(h.Requests) / h.Seconds,
		p50: time.Duration(h.P50 * 1e3), p99: time.Duration(h.P99 * 1e3), rss: r.server.rss(),
	}, nil
}

// summary is the best of each figure, the most memory, and the worst CPU.
func (r *row) summary() (best sample, worst float64) {
	best = sample{cpu: math.Inf(1), p50: math.MaxInt64, p99: math.MaxInt64}
	for _, x := range r.samples {
		best = sample{
			cpu: min(best.cpu, x.cpu), rate: max(best.rate, x.rate),
			p50: min(best.p50, x.p50), p99: min(best.p99, x.p99), rss: max(best.rss, x.rss),
		}
		worst = max(worst, x.cpu)
	}
	return best, worst
}
