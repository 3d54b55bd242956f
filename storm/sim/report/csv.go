package report

import (
	"encoding/csv"
	"io"
	"strconv"

	"github.com/comporta/comporta/storm/sim"
)

// CSV writes a line for every minute of every run. Loads are multiples of the
// demand; fresh and waste are fractions.
func CSV(w io.Writer, summaries []sim.Summary) error {
	c := csv.NewWriter(w)
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', 4, 64) }
	lines := [][]string{{"defence", "seed", "minute", "time", "originals_x", "repeats_x", "returns_x", "refused_x", "fresh", "waste"}}
	for i := range summaries {
		for _, r := range summaries[i].Runs {
			for j := range r.Minutes {
				m := &r.Minutes[j]
				fresh := ""
				if m.Judged {
					fresh = number(m.Fresh)
				}
				lines = append(lines, []string{
					r.Defence, strconv.FormatUint(r.Seed, 10), strconv.Itoa(m.At), hour(m.At),
					number(m.Originals), number(m.Repeats), number(m.Returns), number(m.Refused), fresh, number(m.Waste),
				})
			}
		}
	}
	return c.WriteAll(lines) //nolint:wrapcheck // the writer's own
}
