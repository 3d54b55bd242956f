package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/comporta/comporta/storm/sim"
)

// Text writes the comparison for a terminal: a chart of each defence's load, and
// the table.
func Text(w io.Writer, s *sim.Scenario, summaries []sim.Summary) error {
	var out strings.Builder
	for i := range summaries {
		chart(&out, &summaries[i])
	}
	table(&out, s, summaries)
	_, err := io.WriteString(w, out.String())
	return err //nolint:wrapcheck // the writer's own
}

const (
	chartRows    = 8
	chartColumns = 72
)

// chart draws the load of the typical run: # what was asked, . what of it was
// refused.
func chart(out *strings.Builder, s *sim.Summary) {
	r := s.Typical()
	columns := squeeze(r.Minutes, chartColumns)
	top := 0.0
	for _, c := range columns {
		top = max(top, c.Load())
	}
	if top == 0 {
		return
	}
	fmt.Fprintf(out, "%s (seed %d): # asked, : repeats among it; 1x is the normal demand\n", s.Defence, r.Seed)
	for row := chartRows; row > 0; row-- {
		line, upTo := make([]byte, len(columns)), top*(float64(row)-0.5)/chartRows
		for i, c := range columns {
			switch {
			case c.Originals >= upTo:
				line[i] = '#'
			case c.Load() >= upTo:
				line[i] = ':'
			default:
				line[i] = ' '
			}
		}
		fmt.Fprintf(out, "%5.1fx |%s\n", top*float64(row)/chartRows, strings.TrimRight(string(line), " "))
	}
	fmt.Fprintf(out, "       +%s\n        %s\n\n", strings.Repeat("-", len(columns)), axis(columns))
}

// squeeze joins minutes so that at most n are left; the highest load of each stays.
func squeeze(minutes []sim.Minute, n int) []sim.Minute {
	each := (len(minutes) + n - 1) / n
	if each <= 1 {
		return minutes
	}
	var columns []sim.Minute
	for i := 0; i < len(minutes); i += each {
		c := minutes[i]
		for _, m := range minutes[i:min(i+each, len(minutes))] {
			if m.Load() > c.Load() {
				at := c.At
				c = m
				c.At = at
			}
		}
		columns = append(columns, c)
	}
	return columns
}

// axis writes the hours under the columns.
func axis(columns []sim.Minute) string {
	line := []byte(strings.Repeat(" ", len(columns)+5))
	free := 0
	for i := range columns {
		next := columns[i].At
		if i+1 < len(columns) {
			next = columns[i+1].At - 1
		}
		for _, mark := range marks {
			if mark >= columns[i].At && mark <= next && i >= free {
				copy(line[i:], hour(mark))
				free = i + 6
			}
		}
	}
	return strings.TrimRight(string(line), " ")
}

// marks are the minutes that the axis names, those of the source's chart.
var marks = []int{0, 12, 41, 70, 120, 190, 240}

// hour is the time of day, the outage beginning at 14:00.
func hour(minute int) string {
	m := 14*60 + minute
	return fmt.Sprintf("%02d:%02d", m/60%24, m%60)
}

// table compares the defences.
func table(out *strings.Builder, s *sim.Scenario, summaries []sim.Summary) {
	fmt.Fprintf(out, "%-15s %-26s %-18s %8s %8s %8s %8s %7s %9s\n", "", "recovered after", "peak", "repeats", "fresh", "worst", "before", "waste", "backlog")
	for i := range summaries {
		x := &summaries[i]
		fmt.Fprintf(out, "%-15s %-26s %-18s %7.0f%% %7.2f%% %7.1f%% %7.2f%% %6.1f%% %5.1f min\n", x.Defence, recovery(x),
			withRange(x, "peak_x", "x"), 100*x.Median("repeats_at_peak"), 100*x.Median("fresh_ok"), 100*x.Median("fresh_worst5"),
			100*x.Median("fresh_before"), 100*x.Median("waste"), x.Median("backlog95_min"))
	}
	if s.Outage > 0 {
		b := sim.BoundOf(s)
		fmt.Fprintf(out, "\nbound: fresh users after %.0f min; the backlog of %.0f takes %.1f min after that, at %.0f - %.0f a second\n",
			b.FreshMin, b.Backlog, b.BacklogMin, b.Mu, b.Lambda)
	}
}

func recovery(x *sim.Summary) string {
	if n := len(x.Runs) - x.Recovered(); n == len(x.Runs) {
		return "never"
	} else if n > 0 {
		return fmt.Sprintf("%s, %d never", withRange(x, "recovery_min", "min"), n)
	}
	return withRange(x, "recovery_min", "min")
}

// withRange is the median and, of several runs, the range.
func withRange(x *sim.Summary, field, unit string) string {
	median := x.Median(field)
	if len(x.Runs) == 1 {
		return fmt.Sprintf("%.1f %s", median, unit)
	}
	least, greatest := x.Range(field)
	return fmt.Sprintf("%.1f %s (%.1f-%.1f)", median, unit, least, greatest)
}
