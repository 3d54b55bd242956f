package sim

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Expectation is what must hold of the median of a defence's runs, as it is
// written in a scenario's file: `ours.fresh_ok >= 0.99`.
type Expectation struct {
	Defence string
	Field   string // the name of a number in the JSON of a Result
	Least   bool   // at least Value; else at most
	Value   float64
}

// String returns e as ParseExpectation reads it.
func (e Expectation) String() string {
	op := "<="
	if e.Least {
		op = ">="
	}
	return fmt.Sprintf("%s.%s %s %s", e.Defence, e.Field, op, strconv.FormatFloat(e.Value, 'g', -1, 64))
}

// ParseExpectation reads `DEFENCE.FIELD >= NUMBER`, or `<=`.
func ParseExpectation(text string) (Expectation, error) {
	var e Expectation
	words := strings.Fields(text)
	if len(words) != 3 {
		return e, fmt.Errorf("sim: expect: %q; write it as `ours.fresh_ok >= 0.99`", text)
	}
	var ok bool
	if e.Defence, e.Field, ok = strings.Cut(words[0], "."); !ok {
		return e, fmt.Errorf("sim: expect: %q names no field; write defence.field, such as ours.fresh_ok", words[0])
	}
	if _, known := DefenceByName(e.Defence); !known {
		return e, fmt.Errorf("sim: expect: there is no defence %q", e.Defence)
	}
	if _, known := fields[e.Field]; !known {
		return e, fmt.Errorf("sim: expect: a result has no number %q", e.Field)
	}
	switch words[1] {
	case ">=":
		e.Least = true
	case "<=":
	default:
		return e, fmt.Errorf("sim: expect: %q; use >= or <=", words[1])
	}
	var err error
	if e.Value, err = strconv.ParseFloat(words[2], 64); err != nil || math.IsNaN(e.Value) {
		return e, fmt.Errorf("sim: expect: %q is no number", words[2])
	}
	return e, nil
}

// Holds reports whether the summaries meet e, and the value found. A defence that
// was not played meets nothing.
func (e Expectation) Holds(summaries []Summary) (value float64, ok bool) {
	for i := range summaries {
		if s := &summaries[i]; s.Defence == e.Defence {
			value = s.Median(e.Field)
			if e.Least {
				return value, value >= e.Value
			}
			return value, value <= e.Value
		}
	}
	return 0, false
}

// fields are the numbers of a Result by their JSON names.
var fields = map[string]func(*Result) float64{
	"recovery_min":    func(r *Result) float64 { return r.RecoveryMin },
	"peak_x":          func(r *Result) float64 { return r.PeakX },
	"repeats_at_peak": func(r *Result) float64 { return r.RepeatsAtPeak },
	"fresh_ok":        func(r *Result) float64 { return r.FreshOK },
	"fresh_worst5":    func(r *Result) float64 { return r.FreshWorst5 },
	"fresh_before":    func(r *Result) float64 { return r.FreshBefore },
	"waste":           func(r *Result) float64 { return r.Waste },
	"lost":            func(r *Result) float64 { return r.Lost },
	"backlog95_min":   func(r *Result) float64 { return r.Backlog95Min },
	"duplicates":      func(r *Result) float64 { return r.Duplicates },
	"attempts_per_op": func(r *Result) float64 { return r.AttemptsPerOp },
	"barred_share":    func(r *Result) float64 { return r.BarredShare },
}
