package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// result is all that a run has found out.
type result struct {
	rounds        int
	admit, refuse *subject
	others        []*subject // measured for the table, without a target
	pairs         []pair
	tables        memory
}

func (r *result) verdicts() []verdict {
	admit, refuse := r.admit.summary(), r.refuse.summary()
	vs := []verdict{
		timeVerdict("admit_ns", admit, admitTarget), allocsVerdict("admit_allocs", admit),
		timeVerdict("refuse_ns", refuse, refuseTarget), allocsVerdict("refuse_allocs", refuse),
		tableVerdict(r.tables),
	}
	for _, p := range r.pairs {
		vs = append(vs, pairVerdict(p))
	}
	return vs
}

// markdown is the report as the README quotes it.
func (r *result) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Minimum of %d rounds, with the range; one goroutine; %s on %s/%s, %s.\n\n",
		r.rounds, runtime.Version(), runtime.GOOS, runtime.GOARCH, processor())
	b.WriteString("| one decision | ns | range | CPU ns | allocs | bytes |\n|---|--:|--:|--:|--:|--:|\n")
	for _, s := range append([]*subject{r.admit, r.refuse}, r.others...) {
		x := s.summary()
		fmt.Fprintf(&b, "| %s | %.0f | %.0f–%.0f | %.0f | %.2f | %.0f |\n", s.name, x.ns, x.ns, x.worst, x.cpu, x.allocs, x.bytes)
	}
	b.WriteString("\n| like against like | ns, ours | theirs | ratio | CPU ns | allocs | bytes |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for _, p := range r.pairs {
		o, t := p.ours.summary(), p.theirs.summary()
		fmt.Fprintf(&b, "| %s | %.0f–%.0f | %.0f–%.0f | %.2f | %.0f : %.0f | %.2f : %.2f | %.0f : %.0f |\n",
			p.what, o.ns, o.worst, t.ns, t.worst, o.ns/t.ns, o.cpu, t.cpu, o.allocs, t.allocs, o.bytes, t.bytes)
	}
	fmt.Fprintf(&b, "\nAfter %d million distinct keys the tables hold %.2f MiB of the %d MiB they were given.\n",
		r.tables.keys/1_000_000, float64(r.tables.heap)/(1<<20), r.tables.configured>>20)
	return b.String()
}

// processor names the CPU where the system tells it.
func processor() string {
	name := "unknown CPU"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d CPUs", name, runtime.NumCPU())
}

// The marks in a file between which the report stands.
const (
	beginMark = "<!-- bench-decision: written by make bench-decision, see bench/decision -->"
	endMark   = "<!-- bench-decision end -->"
)

// replace puts the report between the marks of a text.
func replace(text []byte, report string) ([]byte, error) {
	head, rest, ok := bytes.Cut(text, []byte(beginMark))
	_, tail, closed := bytes.Cut(rest, []byte(endMark))
	if !ok || !closed {
		return nil, errors.New("the marks are missing: put " + beginMark + " and " + endMark + " where the report is to stand")
	}
	return bytes.Join([][]byte{head, []byte(beginMark), []byte("\n" + report), []byte(endMark), tail}, nil), nil
}

// updateFile rewrites the report in a file.
func updateFile(name, report string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text, err = replace(text, report)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, text, 0o644) //nolint:gosec // a README is for everybody to read
}
