package live

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Marks of the chart, from the ground up.
const (
	markOriginal = '#' // first attempts
	markRepeat   = '+' // later attempts
	markRefused  = '.' // either, turned away at the door
)

// Size of a chart. Its height does not change while a storm runs, so that it can
// be redrawn in place.
const (
	chartRows    = 12
	chartColumns = 60
)

// Chart draws what was asked of the service over time: upwards in multiples of
// the normal demand, first attempts below, repeats above them, the refused on
// top. Under the axis stand the outage and the seconds in which the users who
// came then were served. Each line ends with a newline; their number does not
// depend on the recording.
func Chart(rec *Recording) string {
	columns := rec.columns()
	step := rec.step(columns)
	var b strings.Builder
	b.WriteString("  received by the service (1x = normal)   # first attempts   + repeats   . refused\n")
	for row := chartRows; row > 0; row-- {
		level := float64(row) * step
		fmt.Fprintf(&b, "%5.4gx |", level)
		line := make([]rune, len(columns))
		for i := range columns {
			line[i] = columns[i].mark(level - step/2)
		}
		b.WriteString(strings.TrimRight(string(line), " "))
		b.WriteByte('\n')
	}
	b.WriteString("       +" + strings.Repeat("-", chartColumns) + "\n")
	b.WriteString(rec.outageLine())
	b.WriteString(rec.freshLine(columns))
	return b.String()
}

// column is one column of the chart, in multiples of the demand.
type column struct {
	original, repeat, refused float64
	began                     int
	share                     float64 // of those who began, that were served in time
	judged                    bool
}

func (c *column) total() float64 { return c.original + c.repeat + c.refused }

func (c *column) mark(level float64) rune {
	switch {
	case level < c.original:
		return markOriginal
	case level < c.original+c.repeat:
		return markRepeat
	case level < c.total():
		return markRefused
	}
	return ' '
}

// columns sums up the buckets of each column; of a short storm two columns may
// show the same one.
func (rec *Recording) columns() []column {
	judged := int((rec.Elapsed - rec.Scenario.FreshWithin) / Interval)
	columns := make([]column, chartColumns)
	for i := range columns {
		from := i * len(rec.Buckets) / chartColumns
		to := max((i+1)*len(rec.Buckets)/chartColumns, from+1)
		var sum Bucket
		for j := from; j < min(to, len(rec.Buckets)); j++ {
			sum.add(&rec.Buckets[j])
		}
		unit := rec.Scenario.Demand * Interval.Seconds() * float64(to-from)
		columns[i] = column{
			original: float64(sum.Originals-sum.RefusedOriginals) / unit,
			repeat:   float64(sum.Repeats-sum.RefusedRepeats) / unit,
			refused:  float64(sum.Refused()) / unit,
			began:    sum.Began,
			share:    float64(sum.Fresh) / math.Max(float64(sum.Began), 1),
			judged:   to <= judged,
		}
	}
	return columns
}

// step is what one row stands for: 1x, or more when the storm rises beyond.
func (rec *Recording) step(columns []column) float64 {
	top := 0.0
	for i := range columns {
		top = math.Max(top, columns[i].total())
	}
	return math.Max(math.Ceil(top/chartRows), 1)
}

// outageLine marks when the dependency was away.
func (rec *Recording) outageLine() string {
	from, to := rec.columnOf(rec.Scenario.OutageAt), rec.columnOf(rec.Scenario.OutageEnd())
	return fmt.Sprintf("outage  %s%s back after %v\n", strings.Repeat(" ", from), strings.Repeat("x", max(to-from, 1)), rec.Scenario.Outage)
}

// freshLine marks the columns whose new users were served in time: all but one
// in a hundred, at least half, fewer.
func (rec *Recording) freshLine(columns []column) string {
	line := make([]rune, len(columns))
	for i := range columns {
		c := &columns[i]
		switch {
		case !c.judged || c.began == 0:
			line[i] = ' '
		case c.share >= enough:
			line[i] = '='
		case c.share >= 0.5:
			line[i] = '-'
		default:
			line[i] = '_'
		}
	}
	return "served  " + strings.TrimRight(string(line), " ") + "\n"
}

func (rec *Recording) columnOf(d time.Duration) int {
	return min(int(d*chartColumns/rec.Scenario.Length), chartColumns)
}
