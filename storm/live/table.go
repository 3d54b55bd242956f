package live

import (
	"fmt"
	"strings"
)

// Table compares two storms, side by side.
func Table(nameA string, a *Result, nameB string, b *Result) string {
	var out strings.Builder
	row := func(what, x, y string) { fmt.Fprintf(&out, "  %-44s %14s %14s\n", what, x, y) }
	row("", nameA, nameB)
	row("until fresh users are served for good", recoveryText(a), recoveryText(b))
	row("peak, in multiples of the normal demand", fmt.Sprintf("%.1fx", a.PeakX), fmt.Sprintf("%.1fx", b.PeakX))
	row("repeats at the peak", percentText(a.RepeatsAtPeak), percentText(b.RepeatsAtPeak))
	row("work of the service that helped nobody", percentText(a.Wasted), percentText(b.Wasted))
	row("requests for one success", fmt.Sprintf("%.1f", a.RequestsPerSuccess), fmt.Sprintf("%.1f", b.RequestsPerSuccess))
	row("operations that succeeded in the end", servedText(a), servedText(b))
	row("requests", fmt.Sprint(a.Requests), fmt.Sprint(b.Requests))
	return out.String()
}

func recoveryText(r *Result) string {
	if !r.Recovered {
		return fmt.Sprintf("not in %.0f s", r.RecoveryS)
	}
	return fmt.Sprintf("%.2f s", r.RecoveryS)
}

func servedText(r *Result) string { return fmt.Sprintf("%d of %d", r.Served, r.Began) }

func percentText(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
