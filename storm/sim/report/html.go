package report

import (
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/comporta/comporta/storm/sim"
)

// HTML writes the report: one file that loads nothing.
func HTML(w io.Writer, s *sim.Scenario, summaries []sim.Summary) error {
	var picture strings.Builder
	if err := SVG(&picture, s, summaries); err != nil {
		return err
	}
	p := page{
		Name: s.Name, Bound: sim.BoundOf(s), Outage: s.Outage.Minutes(),
		Chart: template.HTML(picture.String()), //nolint:gosec // written by SVG, from numbers and the names of defences
	}
	for i := range summaries {
		p.Rows = append(p.Rows, rowOf(&summaries[i]))
	}
	if len(summaries) > 0 {
		p.Seeds = len(summaries[0].Runs)
	}
	if err := layout.Execute(w, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

type page struct {
	Name   string
	Seeds  int
	Outage float64
	Bound  sim.Bound
	Chart  template.HTML
	Rows   []row
}

// row is a line of the table, in words.
type row struct{ Defence, About, Recovery, Peak, Repeats, Fresh, Worst, Before, Waste, Lost, Backlog string }

func rowOf(x *sim.Summary) row {
	d, _ := sim.DefenceByName(x.Defence)
	percent := func(field string) string { return fmt.Sprintf("%.1f %%", 100*x.Median(field)) }
	return row{
		Defence: x.Defence, About: d.About, Recovery: recovery(x), Peak: withRange(x, "peak_x", "x"),
		Repeats: percent("repeats_at_peak"), Fresh: percent("fresh_ok"), Worst: percent("fresh_worst5"), Before: percent("fresh_before"),
		Waste: percent("waste"), Lost: percent("lost"), Backlog: withRange(x, "backlog95_min", "min"),
	}
}

var layout = template.Must(template.New("report").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Name}}: comporta simulate</title>
<style>
body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222;background:#fff}
table{border-collapse:collapse;width:100%;font-size:13px}th,td{text-align:right;padding:.3em .5em;border-bottom:1px solid #ccc}
th:first-child,td:first-child{text-align:left}svg{max-width:100%;height:auto}small{color:#555}
.k span{display:inline-block;width:1em;height:.8em;margin:0 .3em 0 1em}
@media print{body{margin:0;max-width:none}g{break-inside:avoid}}
</style></head><body>
<h1>{{.Name}}</h1>
<p>{{if .Outage}}The dependency is away for {{.Outage}} minutes from 14:00. {{end}}Medians of {{.Seeds}} seed(s), the range in parentheses; the curves are the typical run's.
{{if .Outage}}What no defence can beat (dashed lines): fresh users are served again after {{.Bound.FreshMin}} minutes at the earliest, and the {{.Bound.Backlog}} operations
that wait then take {{.Bound.BacklogMin}} minutes more, at {{.Bound.Mu}} a second of which {{.Bound.Lambda}} are needed for what is new.{{end}}</p>
<table><tr><th>defence</th><th>recovered after</th><th>peak</th><th>repeats at peak</th><th>fresh users served</th><th>worst 5 min</th><th>before</th><th>waste</th><th>lost</th><th>95 % of backlog</th></tr>
{{range .Rows}}<tr><td>{{.Defence}}<br><small>{{.About}}</small></td><td>{{.Recovery}}</td><td>{{.Peak}}</td><td>{{.Repeats}}</td><td>{{.Fresh}}</td><td>{{.Worst}}</td><td>{{.Before}}</td><td>{{.Waste}}</td><td>{{.Lost}}</td><td>{{.Backlog}}</td></tr>
{{end}}</table>
<p class="k"><span style="background:#2a6f4e"></span>originals<span style="background:#8fb8de"></span>scheduled returns<span style="background:#d9a441"></span>repeats, in multiples of the normal demand.
Below: success of fresh users (solid) and waste (dashed).</p>
{{.Chart}}
</body></html>
`))
