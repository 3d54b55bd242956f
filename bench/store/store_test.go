package main

import (
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta/bench/internal/measure"
	"github.com/comporta/comporta/store"
)

func TestVerdicts(t *testing.T) {
	at := func(once, repeat float64) []measure.Verdict {
		r := result{rows: []row{{name: "memory"}, {
			name: "sqlite", once: measure.Summary{Sample: measure.Sample{CPU: once}}, repeat: measure.Summary{Sample: measure.Sample{CPU: repeat}},
		}}}
		return r.verdicts()
	}
	if v := at(150e3, 50e3); len(v) != 2 || !v[0].Met || !v[1].Met {
		t.Errorf("%v", v)
	}
	const want = "MISS sqlite_claim_and_finish_cpu 151µs (target <= 150µs)"
	if v := at(151e3, 51e3); v[0].String() != want || v[1].Met {
		t.Errorf("%v, want %s", v, want)
	}
}

func TestNamesAreApart(t *testing.T) {
	seen := map[store.Name]bool{}
	for i := range uint64(10_000) {
		seen[nameOf(i)] = true
	}
	if len(seen) != 10_000 {
		t.Errorf("%d names", len(seen))
	}
}

func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures")
	}
	all := engines
	defer func() { engines = all }()
	engines = all[:2]
	var out, complaints strings.Builder
	if status := run([]string{"-rounds", "1", "-round", time.Millisecond.String()}, &out, &complaints); status == 2 {
		t.Fatal(complaints.String())
	}
	for _, want := range []string{"| memory |", "| sqlite |", "sqlite_look_cpu"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if run([]string{"-rounds", "0"}, &out, &complaints) != 2 || run([]string{"-no"}, &out, &complaints) != 2 {
		t.Error("bad flags are taken")
	}
}
