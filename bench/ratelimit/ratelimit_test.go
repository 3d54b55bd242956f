package main

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta/bench/internal/measure"
)

// The nodes are processes of this program, so of the test.
func TestMain(m *testing.M) {
	if order := os.Getenv(nodeVariable); order != "" {
		os.Exit(runNode(order, os.Stdin, os.Stdout, os.Stderr))
	}
	m.Run()
}

// A quantile is never too low, and too high by an eighth at most.
func TestSpread(t *testing.T) {
	for _, most := range []int64{10, 1000, 1_000_000, int64(10 * time.Second)} {
		var halves [2]spread
		var all []time.Duration
		for i := range 10_000 {
			d := time.Duration(rand.Int64N(most) + 1)
			halves[i%2].add(d)
			all = append(all, d)
		}
		halves[0].join(&halves[1])
		slices.Sort(all)
		for _, q := range []float64{0.01, 0.5, 0.99, 1} {
			want := all[max(int(q*float64(len(all)))-1, 0)]
			if got := halves[0].quantile(q); got < want || float64(got) > float64(want)*1.126+1 {
				t.Errorf("up to %d: quantile %v is %d, want %d", most, q, got, want)
			}
		}
	}
	for i := range 300 {
		if at := step(uint64(upper(i))); at != i {
			t.Errorf("the end of step %d is in step %d", i, at)
		}
	}
}

// The walk visits every key once before any twice.
func TestWalk(t *testing.T) {
	for _, n := range []int{1, 2, 100, 4096, 15_485_863 % 100_000, 100_000} {
		w, seen := newWalk(n), make([]bool, n)
		for range n {
			i := w.next()
			if seen[i] {
				t.Fatalf("of %d: %d comes twice", n, i)
			}
			seen[i] = true
		}
	}
}

var line = regexp.MustCompile(`^(PASS|MISS) (\S+) (.+) \(target (.+)\)$`)

func TestRun(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	readme := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(readme, []byte("# A\n"+measure.BeginMark(program)+"\n"+measure.EndMark(program)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, complaints bytes.Buffer
	status := run([]string{
		"-rounds", "10", "-round", "1ms", "-keys", "2000", "-cold", "1000", "-callers", "4", "-runs", "1", "-run", "100ms", "-update-readme", readme,
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
	const all = "local_vs_xtime local_allocs local_bytes redis_hot redis_cold redis_p99 accuracy_6_nodes"
	if got := strings.Join(names, " "); got != all {
		t.Errorf("targets %s", got)
	}
	text, err := os.ReadFile(readme)
	if err != nil || !strings.Contains(string(text), "| keys, against |") || !strings.HasPrefix(string(text), "# A\n") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestRunBadFlags(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-rounds", "9", "-update-readme", "README.md"}, {"-keys", "1"}, {"-run", "fast"}, {"-no-such"}} {
		if status := run(args, io.Discard, io.Discard); status != 2 {
			t.Errorf("%v: status %d", args, status)
		}
	}
}
