package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta/bench/internal/measure"
)

func TestVerdicts(t *testing.T) {
	w := weather{calls: 400, workers: 20}
	good := storms{outage: 410, connections: 20, nested: 4, late: time.Millisecond, lateCalls: 1, lateAnswered: true}
	bad := storms{outage: 411, connections: 21, nested: 4.1, goroutines: 1, late: 10 * time.Millisecond, lateCalls: 1, lateAnswered: true}
	var all []measure.Verdict
	all = append(all, stormVerdicts(w, good)...)
	all = append(all, successVerdicts(measure.Sample{NS: 600, Allocs: 3}, measure.Sample{NS: 600, Allocs: 8})...)
	for _, v := range all {
		if !v.Met {
			t.Error(v)
		}
	}
	all = append(stormVerdicts(w, bad), successVerdicts(measure.Sample{NS: 601, Allocs: 3.01}, measure.Sample{})...)
	for _, s := range []storms{{late: 1, lateCalls: 2, lateAnswered: true}, {late: 1, lateCalls: 1}} {
		all = append(all, stormVerdicts(w, s)[2])
	}
	for _, v := range all {
		if v.Met {
			t.Error(v)
		}
	}
	const want = "MISS nested_calls 4.1 calls an operation of 3 layers (target <= 4)"
	if got := all[1].String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The storms count what is known of two clients: the envelope, and one without
// any repeats.
func TestStorms(t *testing.T) {
	all := contestants()
	w := weather{calls: 100, workers: 5}
	for i, want := range map[int]storms{
		0: {name: "comporta, default", outage: 110, connections: 5, nested: 4, lateCalls: 1, lateAnswered: true},
		2: {name: "net/http", outage: 100, connections: 5, nested: 1, lateCalls: 1, lateAnswered: true},
	} {
		got, err := w.through(all[i])
		got.took, got.late = 0, 0
		if got != want || err != nil {
			t.Errorf("%+v %v\nwant %+v", got, err, want)
		}
	}
}

var line = regexp.MustCompile(`^(PASS|MISS) (\S+) (.+) \(target (.+)\)$`)

func TestRun(t *testing.T) {
	readme := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(readme, []byte("# A\n"+measure.BeginMark(program)+"\n"+measure.EndMark(program)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, complaints bytes.Buffer
	status := run([]string{"-calls", "20", "-workers", "4", "-rounds", "10", "-round", "1ms", "-update-readme", readme}, &out, &complaints)
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
	const all = "outage_calls nested_calls late_retry_after connections goroutines success_allocs success_ns"
	if got := strings.Join(names, " "); got != all {
		t.Errorf("targets %s", got)
	}
	text, err := os.ReadFile(readme)
	if err != nil || strings.Count(string(text), "azcore") != 2 || !strings.HasPrefix(string(text), "# A\n") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestRunBadFlags(t *testing.T) {
	for _, args := range [][]string{
		{"-rounds", "0"}, {"-rounds", "9", "-update-readme", "README.md"}, {"-calls", "0"}, {"-workers", "0"}, {"-round", "fast"}, {"-no-such"},
	} {
		if status := run(args, io.Discard, io.Discard); status != 2 {
			t.Errorf("%v: status %d", args, status)
		}
	}
}
