package measure

import (
	"fmt"
	"io"
)

// Verdict is one target and how it was met.
type Verdict struct {
	Name   string
	Met    bool
	Figure string // what was measured
	Bound  string // what it had to be
}

// String is the line that a reader, or a program, looks for.
func (v Verdict) String() string {
	word := "MISS"
	if v.Met {
		word = "PASS"
	}
	return fmt.Sprintf("%s %s %s (target %s)", word, v.Name, v.Figure, v.Bound)
}

// Print writes the verdicts, one a line, and returns the exit status: 1 if a
// target was missed.
func Print(out io.Writer, verdicts []Verdict) (status int) {
	for _, v := range verdicts {
		_, _ = fmt.Fprintln(out, v) // nobody is left to hear of it
		if !v.Met {
			status = 1
		}
	}
	return status
}
