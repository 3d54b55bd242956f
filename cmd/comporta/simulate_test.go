package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// simulate runs the command and returns its exit code and what it printed.
func simulate(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = runSimulate(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// small makes a scenario that is played in no time.
var small = []string{"-set", "demand=5", "-set", "length=40m"}

func TestSimulateJSON(t *testing.T) {
	code, out, errs := simulate(t, append([]string{"incident", "-json", "-seeds", "2", "-compare", "none,limit"}, small...)...)
	if code != exitFine {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var got struct {
		Scenario string             `json:"scenario"`
		Runs     []map[string]any   `json:"runs"`
		Bound    map[string]float64 `json:"bound"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Scenario != "incident" || len(got.Runs) != 4 || got.Bound["backlog_min"] < 10 {
		t.Errorf("%+v", got)
	}
	for _, field := range []string{
		"defence", "seed", "recovered", "recovery_min", "peak_x", "repeats_at_peak", "fresh_ok", "fresh_worst5", "fresh_before",
		"waste", "lost", "backlog95_min", "events", "wall_s",
	} {
		if v, ok := got.Runs[0][field]; !ok || v == nil {
			t.Errorf("a run has no %s", field)
		}
	}
	if got.Runs[0]["recovered"] != any(false) || got.Runs[0]["recovery_min"] != 30.0 {
		t.Errorf("without recovery it says %v after %v min, want the horizon", got.Runs[0]["recovered"], got.Runs[0]["recovery_min"])
	}
}

func TestSimulateFile(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		name := filepath.Join(dir, "mine.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	const head = "base: incident\ndemand: 5\nlength: 40m\nservice:\n  slots: 1.6\ncompare: [none]\n"
	for text, want := range map[string]int{
		head + "expect: ['limit.peak_x <= 9']\n":                           exitFine,
		head + "expect: ['limit.peak_x <= 1.5']\n":                         exitFailed,
		head + "expect: ['limit.nothing <= 1.5']\n":                        exitUsage,
		head + "demands: 7\n":                                              exitUsage,
		head + "base: nowhere\n":                                           exitUsage,
		"base: nowhere\n":                                                  exitUsage,
		head + "classes:\n  - {name: x, share: 1, keys: 1}\n":              exitUsage,
		head + "classes:\n  - {name: x, share: 1, keys: 1, manner: odd}\n": exitUsage,
		"[": exitUsage,
	} {
		if code, _, errs := simulate(t, write(text), "-seeds", "1", "-json"); code != want {
			t.Errorf("exit %d, want %d: %s\n%s", code, want, errs, text)
		}
	}
}

func TestSimulateReports(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	args := append([]string{"-compare", "none", "-seeds", "1", "-out", dir, "-sweep", "service.slots=1.4:1.6:2"}, small...)
	code, out, errs := simulate(t, args...)
	if code != exitFine || !strings.Contains(out, "== service.slots=1.4") || !strings.Contains(out, "== service.slots=1.6") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	for _, step := range []string{"1.4", "1.6"} {
		for _, name := range []string{"report.html", "report.svg", "report.csv"} {
			if info, err := os.Stat(filepath.Join(dir, "service.slots="+step, name)); err != nil || info.Size() < 1000 {
				t.Errorf("%s of %s: %v", name, step, err)
			}
		}
	}
}

func TestSimulateMisuse(t *testing.T) {
	for _, args := range [][]string{
		{"a", "b"}, {"nowhere"}, {"-seeds", "0"}, {"-json", "-csv"}, {"-compare", "nobody"}, {"-set", "demand"}, {"-set", "demand=x"},
		{"-sweep", "demand"}, {"-sweep", "demand=1:2"}, {"-sweep", "demand=1:2:1"}, {"-sweep", "nothing=1:2:2"}, {"-sweep", "demand=-1:2:2"},
	} {
		if code, _, errs := simulate(t, args...); code != exitUsage || errs == "" {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
	if code, out, _ := simulate(t, "-list"); code != exitFine || !strings.Contains(out, "short-outage") || !strings.Contains(out, "codel-lifo") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}
