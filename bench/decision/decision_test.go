package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/comporta/comporta"
	"github.com/comporta/comporta/bench/internal/measure"
	"github.com/comporta/comporta/gate"
)

func TestVerdicts(t *testing.T) {
	of := func(ns, allocs float64) measure.Summary {
		return measure.Summary{Sample: measure.Sample{NS: ns, Allocs: allocs}}
	}
	fast, slow, greedy := of(100, 0), of(200, 2), of(100, 3)
	for want, got := range map[string]measure.Verdict{
		"PASS admit_ns 400 ns (target <= 400 ns)":                               timeVerdict("admit_ns", of(400, 0), admitTarget),
		"MISS refuse_ns 901 ns (target <= 900 ns)":                              timeVerdict("refuse_ns", of(901, 0), refuseTarget),
		"MISS admit_allocs 0.01 (target 0)":                                     allocsVerdict("admit_allocs", of(0, 0.01)),
		"PASS admit_allocs 0.00 (target 0)":                                     allocsVerdict("admit_allocs", of(0, 0)),
		"PASS table_bytes 5 (target <= 5 under 7 distinct keys)":                tableVerdict(memory{keys: 7, configured: 5, heap: 5}),
		"MISS table_bytes 6 (target <= 5 under 7 distinct keys)":                tableVerdict(memory{keys: 7, configured: 5, heap: 6}),
		"PASS vs_x 0.50x, 0.00 of 2.00 allocs (target < 1x, no more allocs)":    pairVerdict("vs_x", fast, slow),
		"MISS vs_x 0.50x, 3.00 of 2.00 allocs (target < 1x, no more allocs)":    pairVerdict("vs_x", greedy, slow),
		"MISS vs_same 1.00x, 0.00 of 0.00 allocs (target < 1x, no more allocs)": pairVerdict("vs_same", fast, fast),
	} {
		if got.String() != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// The crowd is what it says: every other request an original, the rest polls,
// and nobody is forgotten.
func TestCrowd(t *testing.T) {
	w, err := gate.New(gate.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCrowd(20_000, 1000, whole{w})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		for _, want := range []comporta.Kind{comporta.KindOriginal, comporta.KindPoll} {
			r := c.next()
			d := w.Begin(c.now, r)
			if c.r.Sighting.Kind != want {
				t.Fatalf("sighting %+v, want %v", c.r.Sighting, want)
			}
			d.FinishAt(c.now, answered)
		}
	}
	if n := w.StatsAt(c.now).SightingsEvicted; n > 0 {
		t.Errorf("%d sightings were evicted", n)
	}
}

// Half of the refusals book an instant, the other half come early for theirs.
func TestFullHouse(t *testing.T) {
	h, err := newFullHouse(20_000)
	if err != nil {
		t.Fatal(err)
	}
	before := h.gate.StatsAt(h.now).Slots
	const n = 10_000
	for range 3 {
		if err := h.tend(); err != nil {
			t.Fatal(err)
		}
		if err := h.run(n); err != nil {
			t.Fatal(err)
		}
	}
	after := h.gate.StatsAt(h.now).Slots
	booked, kept, early := after.Booked-before.Booked, after.Kept-before.Kept, after.Early-before.Early
	if booked != 3*n/2 || kept != 3*n/2 || early != 3*n/2 {
		t.Errorf("%d booked, %d kept and %d early of %d refusals", booked, kept, early, 3*n)
	}
}

var line = regexp.MustCompile(`^(PASS|MISS) (\S+) (.+) \(target (.+)\)$`)

func TestRun(t *testing.T) {
	readme := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(readme, []byte("# A\n"+measure.BeginMark(program)+"\n"+measure.EndMark(program)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, complaints bytes.Buffer
	status := run([]string{
		"-rounds", "10", "-round", "1ms", "-live", "20000", "-clients", "2000", "-keys", "100000", "-update-readme", readme,
	}, &out, &complaints)
	if complaints.Len() > 0 {
		t.Fatal(complaints.String())
	}
	want := 0
	var names []string
	for l := range strings.Lines(out.String()) {
		if m := line.FindStringSubmatch(strings.TrimSuffix(l, "\n")); m != nil {
			names = append(names, m[2])
			if m[1] == "MISS" {
				want = 1
			}
		} else if names != nil {
			t.Errorf("after the verdicts: %q", l)
		}
	}
	if status != want {
		t.Errorf("status %d, want %d", status, want)
	}
	const all = "admit_ns admit_allocs refuse_ns refuse_allocs table_bytes " +
		"vs_failsafe_limiter vs_failsafe_http vs_gozero vs_aegis vs_limits vs_sentinel"
	if got := strings.Join(names, " "); got != all {
		t.Errorf("targets %s", got)
	}
	text, err := os.ReadFile(readme)
	if err != nil || !strings.Contains(string(text), "| like against like |") || !strings.HasPrefix(string(text), "# A\n") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestRunBadFlags(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-rounds", "9", "-update-readme", "README.md"}, {"-live", "1"}, {"-round", "fast"}, {"-no-such"}} {
		if status := run(args, io.Discard, io.Discard); status != 2 {
			t.Errorf("%v: status %d", args, status)
		}
	}
}
