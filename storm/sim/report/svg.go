package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/comporta/comporta/storm/sim"
)

// Sizes of a chart, in units of the picture.
const (
	width, left, right  = 760, 56, 16
	loadHeight          = 150
	shareHeight         = 60
	titleHeight, bottom = 24, 22
	chartHeight         = titleHeight + loadHeight + 12 + shareHeight + bottom
)

// SVG writes one picture with a chart for each defence, over the same scale.
func SVG(w io.Writer, s *sim.Scenario, summaries []sim.Summary) error {
	var out strings.Builder
	height := chartHeight * len(summaries)
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n", width, height, width, height)
	out.WriteString(styles)
	top := highest(summaries)
	for i := range summaries {
		fmt.Fprintf(&out, `<g transform="translate(0 %d)">`+"\n", i*chartHeight)
		drawChart(&out, s, &summaries[i], top)
		out.WriteString("</g>\n")
	}
	out.WriteString("</svg>\n")
	_, err := io.WriteString(w, out.String())
	return err //nolint:wrapcheck // the writer's own
}

// styles tell the parts apart in print too: by lightness, not only by colour.
const styles = `<style>.o{fill:#2a6f4e}.r{fill:#d9a441}.b{fill:#8fb8de}.f{fill:none;stroke:#222;stroke-width:1.4}.w{fill:none;stroke:#b3432b;stroke-width:1.2;stroke-dasharray:4 2}.g{stroke:#bbb;stroke-width:.6}.t{stroke:#222;stroke-width:1;stroke-dasharray:2 3}</style>` + "\n"

func highest(summaries []sim.Summary) float64 {
	top := 1.0
	for i := range summaries {
		for _, m := range summaries[i].Typical().Minutes {
			top = max(top, m.Load())
		}
	}
	return math.Ceil(top)
}

// plane maps minutes and values to the picture.
type plane struct {
	from, to    float64 // minutes
	top, height float64 // of the picture
	most        float64 // value at the top
}

func (p plane) x(minute float64) float64 {
	return left + (width-left-right)*(minute-p.from)/(p.to-p.from)
}

func (p plane) y(value float64) float64 { return p.top + p.height*(1-value/p.most) }

// drawChart draws the load, stacked, and under it the success of fresh users and
// the waste.
func drawChart(out *strings.Builder, s *sim.Scenario, summary *sim.Summary, top float64) {
	r := summary.Typical()
	if len(r.Minutes) == 0 {
		return
	}
	from, to := float64(r.Minutes[0].At), float64(r.Minutes[len(r.Minutes)-1].At+1)
	load := plane{from, to, titleHeight, loadHeight, top}
	shares := plane{from, to, titleHeight + loadHeight + 12, shareHeight, 1}
	fmt.Fprintf(out, `<text x="%d" y="15" font-size="13" font-weight="bold">%s</text><text x="%d" y="15">%s</text>`+"\n",
		left, summary.Defence, left+130, title(r))
	grid(out, load, top)
	originals := func(m *sim.Minute) float64 { return m.Originals }
	returns := func(m *sim.Minute) float64 { return m.Originals + m.Returns }
	all := (*sim.Minute).Load
	area(out, load, r.Minutes, "r", returns, all)
	area(out, load, r.Minutes, "b", originals, returns)
	area(out, load, r.Minutes, "o", func(*sim.Minute) float64 { return 0 }, originals)
	for _, v := range []float64{0, 1} {
		fmt.Fprintf(out, `<line class="g" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%.0f %%</text>`+"\n",
			left, width-right, shares.y(v), shares.y(v), left-4, shares.y(v)+4, 100*v)
	}
	line(out, shares, r.Minutes, "w", func(m *sim.Minute) float64 { return m.Waste })
	line(out, shares, r.Minutes, "f", func(m *sim.Minute) float64 { return m.Fresh })
	bounds(out, s, load, shares.top+shareHeight)
	for _, mark := range marks {
		if x := float64(mark); x >= from && x <= to {
			fmt.Fprintf(out, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", load.x(x), shares.top+shareHeight+14, hour(mark))
		}
	}
}

func title(r *sim.Result) string {
	text := fmt.Sprintf("recovered after %.0f min", r.RecoveryMin)
	if !r.Recovered {
		text = "never recovered"
	}
	return fmt.Sprintf("%s, peak %.1fx of which %.0f %% repeats, fresh users %.1f %%, waste %.0f %%, seed %d",
		text, r.PeakX, 100*r.RepeatsAtPeak, 100*r.FreshOK, 100*r.Waste, r.Seed)
}

func grid(out *strings.Builder, p plane, top float64) {
	step := max(math.Ceil(top/5), 1)
	for v := 0.0; v <= top; v += step {
		fmt.Fprintf(out, `<line class="g" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%.0fx</text>`+"\n",
			left, width-right, p.y(v), p.y(v), left-4, p.y(v)+4, v)
	}
}

// area fills what lies between two values.
func area(out *strings.Builder, p plane, minutes []sim.Minute, class string, low, high func(*sim.Minute) float64) {
	fmt.Fprintf(out, `<path class="%s" d="M`, class)
	for i := range minutes {
		fmt.Fprintf(out, "%.1f,%.1f ", p.x(float64(minutes[i].At)+0.5), p.y(high(&minutes[i])))
	}
	for i := len(minutes) - 1; i >= 0; i-- {
		fmt.Fprintf(out, "%.1f,%.1f ", p.x(float64(minutes[i].At)+0.5), p.y(low(&minutes[i])))
	}
	out.WriteString("Z\"/>\n")
}

func line(out *strings.Builder, p plane, minutes []sim.Minute, class string, value func(*sim.Minute) float64) {
	fmt.Fprintf(out, `<polyline class="%s" points="`, class)
	for i := range minutes {
		if minutes[i].Judged {
			fmt.Fprintf(out, "%.1f,%.1f ", p.x(float64(minutes[i].At)+0.5), p.y(value(&minutes[i])))
		}
	}
	out.WriteString("\"/>\n")
}

// bounds draws when fresh users, and when the backlog, can be served at the earliest.
func bounds(out *strings.Builder, s *sim.Scenario, p plane, foot float64) {
	if s.Outage == 0 {
		return
	}
	b := sim.BoundOf(s)
	for _, m := range []float64{0, b.FreshMin, b.FreshMin + b.BacklogMin} {
		if m >= p.from && m <= p.to {
			fmt.Fprintf(out, `<line class="t" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`+"\n", p.x(m), p.x(m), p.top, foot)
		}
	}
}
