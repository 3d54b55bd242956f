package report

import (
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/comporta/comporta/storm/sim"
)

// comparison is a small one, the same in every test.
func comparison(t *testing.T) (sim.Scenario, []sim.Summary) {
	t.Helper()
	s := sim.Incident()
	s.Demand, s.Length = 5, 60*time.Minute
	summaries, err := sim.Compare(&s, []string{"none", "limit"}, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, summaries
}

func write(t *testing.T, f func(io.Writer, *sim.Scenario, []sim.Summary) error) string {
	t.Helper()
	s, summaries := comparison(t)
	var first, second strings.Builder
	if err := errors.Join(f(&first, &s, summaries), f(&second, &s, summaries)); err != nil {
		t.Fatal(err)
	}
	if first.String() != second.String() {
		t.Error("the same comparison, and other bytes")
	}
	return first.String()
}

func TestText(t *testing.T) {
	text := write(t, Text)
	for _, want := range []string{"none (seed", "limit (seed", "14:00", "recovered after", "never", "bound: fresh users after 12 min", "x |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// wellFormed reads a document to its end.
func wellFormed(t *testing.T, text string, strict bool) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	if d.Strict = strict; !strict {
		d.AutoClose, d.Entity = xml.HTMLAutoClose, xml.HTMLEntity
	}
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("not well formed: %v", err)
		}
	}
}

func TestSVG(t *testing.T) {
	text := write(t, SVG)
	wellFormed(t, text, true)
	for _, want := range []string{"none", "limit", "14:12", `class="t"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the picture", want)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Error("a coordinate is no number")
	}
}

func TestHTMLLoadsNothing(t *testing.T) {
	text := write(t, HTML)
	for _, bad := range []string{"src=", "href=", "url(", "@import", "<script"} {
		if strings.Contains(text, bad) {
			t.Errorf("it has %q in it", bad)
		}
	}
	for _, want := range []string{"<svg", "worst 5 min", "What no defence can beat"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

func TestCSV(t *testing.T) {
	_, summaries := comparison(t)
	var out strings.Builder
	if err := CSV(&out, summaries); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if want := 1 + 2*2*60; len(lines) != want {
		t.Errorf("%d lines, want %d", len(lines), want)
	}
	if lines[1][0] != "none" || lines[1][2] != "-10" || lines[1][3] != "13:50" {
		t.Errorf("%q", lines[1])
	}
}

// A comparison of nothing is shown without a fault.
func TestNothing(t *testing.T) {
	s := sim.Incident()
	empty := []sim.Summary{{Defence: "none"}}
	var out strings.Builder
	if err := errors.Join(Text(&out, &s, empty), SVG(&out, &s, empty), HTML(&out, &s, empty), CSV(&out, empty)); err != nil {
		t.Error(err)
	}
}
