package live

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite testdata")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// wave is a recording with a peak after the outage that falls off.
func wave() *Recording {
	rec := recorded(before(7 * time.Second))
	for i := range rec.Buckets {
		b := &rec.Buckets[i]
		if i < 10 || i >= 28 {
			continue
		}
		b.Repeats = 90 - 4*max(i-16, 16-i)
		b.RefusedRepeats = b.Repeats * 3 / 4
		b.RefusedOriginals = 5
	}
	return rec
}

func TestChart(t *testing.T) {
	golden(t, "chart.txt", Chart(wave()))
	running := wave()
	running.Elapsed = 5 * time.Second
	clear(running.Buckets[20:])
	golden(t, "running.txt", Chart(running))
	high := wave()
	for i := range high.Buckets {
		high.Buckets[i].Repeats *= 4
	}
	golden(t, "high.txt", Chart(high))
}

// Redrawing in place needs it.
func TestChartKeepsItsHeight(t *testing.T) {
	want := strings.Count(Chart(wave()), "\n")
	for elapsed := time.Duration(0); elapsed <= 12*time.Second; elapsed += time.Second {
		rec := wave()
		rec.Elapsed = elapsed
		clear(rec.Buckets[int(elapsed/Interval):])
		if got := strings.Count(Chart(rec), "\n"); got != want {
			t.Errorf("%d lines after %v, want %d", got, elapsed, want)
		}
	}
}

func TestTable(t *testing.T) {
	golden(t, "table.txt", Table(
		"bare", &Result{RecoveryS: 17, PeakX: 9.31, RepeatsAtPeak: 0.86, Wasted: 0.89, RequestsPerSuccess: 34.68, Requests: 22058, Served: 636, Began: 4184},
		"protected", &Result{RecoveryS: 1.25, Recovered: true, PeakX: 5.77, RepeatsAtPeak: 0.82, Wasted: 0.04, RequestsPerSuccess: 1.57, Requests: 5885, Served: 3745, Began: 4184},
	))
}

func TestScreen(t *testing.T) {
	for name, redraws := range map[string]bool{"lines.txt": false, "redrawn.txt": true} {
		var b bytes.Buffer
		s := NewScreen(&b, "a storm", redraws)
		for elapsed := Interval; elapsed <= 12*time.Second; elapsed += Interval {
			if redraws && elapsed > 3*Interval {
				break
			}
			rec := wave()
			rec.Elapsed = elapsed
			s.Show(rec)
		}
		if err := s.Finish(wave()); err != nil {
			t.Error(err)
		}
		golden(t, name, strings.ReplaceAll(b.String(), "\x1b", "ESC"))
	}
}

type broken struct{ writes int }

func (b *broken) Write([]byte) (int, error) {
	b.writes++
	return 0, errors.New("pipe closed")
}

func TestScreenStopsAtTheFirstError(t *testing.T) {
	var b broken
	s := NewScreen(&b, "a storm", true)
	s.Show(wave())
	if err := s.Finish(wave()); err == nil || b.writes != 1 {
		t.Errorf("%v after %d writes", err, b.writes)
	}
}
